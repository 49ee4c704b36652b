"""What the logs of all components hold: facts about claims and attached devices, about ourselves (who decides, under which
policy, what became of writes, which instants came), and the decisions that each of them may take."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import msgspec
from msgspec import structs

from dds_core.events.base import (
    SCALER,
    Decision,
    Fact,
    Level,
    Names,
    observed,
    register,
)
from dds_core.model import Claim, FabricResource

# -- objects -----------------------------------------------------------------------------------------------------------

ClaimObserved, ClaimGone = observed(
    Claim,
    "A ResourceClaim appeared or changed.",
    "A ResourceClaim was deleted; its devices are free from here on.",
)
FabricResourceObserved, FabricResourceGone = observed(
    FabricResource,
    "A ComposableResource appeared or changed.",
    "A ComposableResource was deleted: its device is back in the pool, or its node is gone.",
)


POLICY = "policy"
"""The kind and the uid of a `Rejected` about the policy's file; a `PolicyChanged` ends it."""


class Rejected(Fact, frozen=True):
    """An object, or one of its fields, is not as expected. Reported once per (uid, field, reason). Of the policy's file
    `field` is what is wrong with it."""

    level: ClassVar[Level] = "warning"

    kind: str
    uid: str
    name: str
    field: str
    reason: str
    namespace: str = ""

    @property
    def subject(self) -> str:
        return self.uid

    def words(self, names: Names) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name} is not as expected: {self.field} {self.reason}"

    def about(self, names: Names) -> dict[str, Any]:
        name = f"{self.namespace}/{self.name}".strip("/")
        return {"resource": self.kind, "name_of": name, "field": self.field, **super().about(names)}


class ConfigMissing(Fact, frozen=True):
    """The ConfigMap of the fabric was deleted. Its last content stays in force."""

    level: ClassVar[Level] = "warning"

    uid: str

    @property
    def subject(self) -> str:
        return self.uid

    def words(self, names: Names) -> str:
        return "the ConfigMap was deleted; what it said last stays in force"


# -- ourselves ---------------------------------------------------------------------------------------------------------


class OfScaler(Fact, frozen=True):
    """Of no object."""

    level: ClassVar[Level] = "info"

    @property
    def subject(self) -> str:
        return SCALER


class Started(OfScaler, frozen=True):
    """A process took over. `fingerprint`: of the code that decides. `evaluator`: what evaluates selectors, with its
    version."""

    code: str
    fingerprint: str
    projection: int
    epoch: int
    mode: str
    evaluator: str = ""

    def words(self, names: Names) -> str:
        return f"dds {self.code} started in mode {self.mode}, epoch {self.epoch}"


class EventsLost(OfScaler, frozen=True):
    """The database went back: the log ended at position `kept` when this process found it, but an earlier one had written up to
    `position`, where the hash was `hash` (hex), in epoch `epoch`. What was lost is in no log; what came of it is listed anew."""

    level: ClassVar[Level] = "warning"

    kept: int
    position: int
    hash: str
    epoch: int

    def words(self, names: Names) -> str:
        lost = f"events {self.kept + 1} to {self.position} are lost" if self.position > self.kept else "events are lost"
        return f"the database went back to an older copy: {lost}, which were written in epoch {self.epoch} or before"


class LogRepaired(OfScaler, frozen=True):
    """A person had the log go on from the state before `stops`: the events from there to `last` could not be folded (`reason`)
    and are passed over. A checkpoint of that state follows."""

    level: ClassVar[Level] = "warning"

    stops: int
    last: int
    reason: str

    def words(self, names: Names) -> str:
        return f"the log was repaired: events {self.stops} to {self.last} are passed over ({self.reason})"


class PolicyChanged(OfScaler, frozen=True):
    """The whole effective policy as a JSON object. `digest`: its SHA-256."""

    policy: dict[str, Any]
    digest: str = ""
    """Filled in when it is left out. Without it an edited policy, in a log whose chain is computed anew, would not be found by
    deciding again if its knob has decided nothing yet."""

    def __post_init__(self) -> None:
        if not self.digest:
            structs.force_setattr(self, "digest", self.digest_of_policy())

    def digest_of_policy(self) -> str:
        """What `digest` is when nobody has touched the policy."""
        return hashlib.sha256(msgspec.json.encode(self.policy, order="deterministic")).hexdigest()

    def words(self, names: Names) -> str:
        return f"the policy was set, mode {self.policy.get('mode', 'observe')}"


class Capabilities(OfScaler, frozen=True):
    """What the API server supports. `version`: such as "1.36.2". `guards`: the namespace in which devices can be guarded;
    if empty, `unguarded` says why, `unanswered` that it is not known yet. `binding_conditions`, `device_taints`,
    `shared_devices`: whether it keeps these fields of slices or drops them silently."""

    binding_conditions: bool = True
    device_taints: bool = True
    shared_devices: bool = True
    version: str = ""
    guards: str = ""
    unguarded: str = ""
    unanswered: bool = False

    def words(self, names: Names) -> str:
        kept = {
            "binding conditions": self.binding_conditions,
            "taints": self.device_taints,
            "allowMultipleAllocations": self.shared_devices,
        }
        lost = ", ".join(name for name, is_kept in kept.items() if not is_kept)
        if not names.guards:
            return f"the API server drops {lost} of slices" if lost else "the API server keeps all of a slice"
        if self.guards:
            return f"devices can be guarded, in namespace {self.guards}"
        return f"no device can be guarded: {self.unguarded}" if self.unguarded else "no device can be guarded"


class Synced(OfScaler, frozen=True):
    """All resources were listed; decisions are taken from here on, a level pass first."""

    def words(self, names: Names) -> str:
        return "all resources were listed"


class Stale(OfScaler, frozen=True):
    """Nothing was heard of a resource for `age` seconds; deadlines wait until `Synced`."""

    resource: str
    age: int

    def words(self, names: Names) -> str:
        return f"nothing was heard of {self.resource} for {self.age} s; deadlines wait"


class Outcome(OfScaler, frozen=True):
    """What became of a decision: `decision` is its event id, `action` its type, `target` the object it was about."""

    level: ClassVar[Level] = "debug"

    decision: str
    action: str
    target: str

    def about(self, names: Names) -> dict[str, Any]:
        target = names.name(self.target)
        return {"action": self.action, "target": target, "decision": self.decision, **super().about(names)}


class WriteDone(Outcome, frozen=True):
    """A decision was carried out. `version` is the resourceVersion after the write, where a later write depends on it. `rivals`:
    managers of fields that wrote the object last, where another client has undone the write before."""

    version: str = ""
    rivals: str = ""

    def words(self, names: Names) -> str:
        return f"{self.action} of {names.name(self.target)} was carried out"


class WriteRefused(Outcome, frozen=True):
    """A write failed for good. `code`: HTTP status. `reason`, `text`: the API's words, without secrets."""

    level: ClassVar[Level] = "warning"

    code: int
    reason: str
    text: str = ""

    def words(self, names: Names) -> str:
        refusal = f"{self.code} {self.reason} {self.text}"
        return f"{self.action} of {names.name(self.target)} was refused: {refusal}".rstrip()

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), "code": self.code}


class Superseded(Outcome, frozen=True):
    """A decision was dropped unsent because a newer one replaced it."""

    def words(self, names: Names) -> str:
        return f"{self.action} of {names.name(self.target)} was dropped for a newer decision"


class WriteObsolete(Outcome, frozen=True):
    """A decision was not carried out because its object has changed or is gone; `text` says what was found."""

    text: str = ""

    def words(self, names: Names) -> str:
        return f"{self.action} of {names.name(self.target)} was overtaken: {self.text}"


class DeadlinePassed(Fact, frozen=True):
    """A deadline has passed: `due` is its instant, `kind` one of the component's `deadlines`."""

    kind: str
    of: str
    due: int

    @property
    def subject(self) -> str:
        return self.of

    def words(self, names: Names) -> str:
        return f"{names.deadlines.get(self.kind, self.kind)} ({names.name(self.of)})"


class Checkpoint(OfScaler, frozen=True):
    """A snapshot of the whole state, from which a load can start; `picture` is its dump, in JSON. `code`, `fingerprint`: as in
    `Started`, for a log that begins here."""

    projection: int
    picture: msgspec.Raw
    code: str = ""
    fingerprint: str = ""

    def words(self, names: Names) -> str:
        return "a checkpoint was written"


# -- decisions ---------------------------------------------------------------------------------------------------------


class NodeLabelled(Decision, frozen=True):
    """Set labels of dds on a node; null removes one. `again`: another client has undone the last write."""

    gone_with: ClassVar[str] = "node"
    around: ClassVar[bool] = True

    node: str
    labels: dict[str, str | None]
    mode: str
    reason: str
    again: bool = False

    @property
    def subject(self) -> str:
        return self.node

    def words(self, names: Names) -> str:
        put = ", ".join(f"{key}={value}" for key, value in sorted(self.labels.items()) if value is not None)
        taken = ", ".join(key for key, value in sorted(self.labels.items()) if value is None)
        parts = [f"label {self.node} with {put}"] if put else []
        parts += [f"take {taken} off {self.node}"] if taken else []
        return " and ".join(parts) + (f": {self.reason}" if self.reason else "")

    def about(self, names: Names) -> dict[str, Any]:
        return {"node": self.node, **super().about(names)}


class Alerted(Decision, frozen=True):
    """A person should look at this."""

    level: ClassVar[Level] = "warning"
    written: ClassVar[bool] = False

    of: str
    reason: str
    text: str
    mode: str

    @property
    def subject(self) -> str:
        return self.of

    @property
    def key(self) -> tuple[str, str]:
        return ("Alerted", f"{self.of}:{self.reason}")

    def for_claims(self) -> tuple[str, ...]:
        return (self.of,)

    def for_devices(self) -> tuple[str, ...]:
        return (self.of,)

    def words(self, names: Names) -> str:
        return f"call a person: {self.reason}: {self.text}"

    def about(self, names: Names) -> dict[str, Any]:
        return {"of": names.name(self.of), **super().about(names)}


EVENTS = (
    ClaimObserved,
    ClaimGone,
    FabricResourceObserved,
    FabricResourceGone,
    *register(Rejected, ConfigMissing, Started, EventsLost, LogRepaired, PolicyChanged, Capabilities, Synced, Stale),
    *register(WriteDone, WriteRefused, Superseded, WriteObsolete, DeadlinePassed, Checkpoint, NodeLabelled, Alerted),
)
