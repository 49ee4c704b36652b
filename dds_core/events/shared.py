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
    "A ResourceClaim appeared or changed; `changes` holds the fields that are now different.",
    "A ResourceClaim was deleted; what it held is free from here on.",
)
FabricResourceObserved, FabricResourceGone = observed(
    FabricResource,
    "A ComposableResource appeared or changed: one device that is attached, being attached or being detached.",
    "A ComposableResource was deleted: its device is back in the pool, or its node is gone.",
)


class Rejected(Fact, frozen=True):
    """An object, or one field of it, that is not as expected. Told once per (uid, field, reason); nothing else stops."""

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
    """The ConfigMap of the fabric was deleted. What it said last stays in force until there is one again."""

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
    """A process took over. `fingerprint` identifies the code of `decide`, `evaluator` what evaluates selectors, with its version
    ("" where none are)."""

    code: str
    fingerprint: str
    projection: int
    epoch: int
    mode: str
    evaluator: str = ""

    def words(self, names: Names) -> str:
        return f"dds {self.code} started in mode {self.mode}, epoch {self.epoch}"


class PolicyChanged(OfScaler, frozen=True):
    """The whole effective policy, as its JSON object.

    `digest` is its SHA-256, filled in when it is left out: a knob that decides nothing yet would otherwise be the one thing
    in a log that can be edited, with the chain computed anew, and not be found by deciding again.
    """

    policy: dict[str, Any]
    digest: str = ""

    def __post_init__(self) -> None:
        if not self.digest:
            structs.force_setattr(self, "digest", self.digest_of_policy())

    def digest_of_policy(self) -> str:
        """What `digest` is when nobody has touched the policy."""
        return hashlib.sha256(msgspec.json.encode(self.policy, order="deterministic")).hexdigest()

    def words(self, names: Names) -> str:
        return f"the policy was set, mode {self.policy.get('mode', 'observe')}"


class Capabilities(OfScaler, frozen=True):
    """What the API serves and keeps: `version` is that of the server as "1.36" ("" when it is not known), `guards` the namespace
    in which devices can be guarded, "" where they cannot, for the reason `unguarded`, and `unanswered` while the API server has
    not told yet whether they can. `taint_rules`: in older logs, the version in which DeviceTaintRules are served ("" = none).

    A field of a slice whose feature gate is off is dropped without a word: `binding_conditions`, `device_taints` and
    `shared_devices` (allowMultipleAllocations) say whether it is kept."""

    taint_rules: str = ""
    binding_conditions: bool = True
    granular_status: bool = False
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
    """All resources were listed; decisions may be taken from here on. A level pass over the whole fleet follows."""

    def words(self, names: Names) -> str:
        return "all resources were listed"


class Stale(OfScaler, frozen=True):
    """The view of a resource has had no sign of life for `age` seconds; deadlines wait until `Synced`."""

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
    """A decision was carried out; `decision` is its event id, `action` its type, `target` the object it was about. `version` is
    the resourceVersion that the write left, where a later write rests on it."""

    version: str = ""

    def words(self, names: Names) -> str:
        return f"{self.action} of {names.name(self.target)} was carried out"


class WriteRefused(Outcome, frozen=True):
    """A write failed for good: `code` is the HTTP status, `reason` the API's reason, `text` scrubbed foreign words."""

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
    """A decision was dropped unsent because a newer one took its place."""

    def words(self, names: Names) -> str:
        return f"{self.action} of {names.name(self.target)} was dropped for a newer decision"


class WriteObsolete(Outcome, frozen=True):
    """A decision was not carried out, since the live object is not, or no more, the one that it was made for. What is observed
    of it leads to the next decision; `text` says what was found."""

    text: str = ""

    def words(self, names: Names) -> str:
        return f"{self.action} of {names.name(self.target)} was overtaken: {self.text}"


class DeadlinePassed(Fact, frozen=True):
    """An instant that the picture was waiting for has come. `due` is the instant, `kind` one of those that the component's
    `deadlines` names."""

    kind: str
    of: str
    due: int

    @property
    def subject(self) -> str:
        return self.of

    def words(self, names: Names) -> str:
        return f"{names.deadlines.get(self.kind, self.kind)} ({names.name(self.of)})"


class Checkpoint(OfScaler, frozen=True):
    """The whole picture, so that a load can start here."""

    projection: int
    picture: dict[str, Any]

    def words(self, names: Names) -> str:
        return "a checkpoint was written"


# -- decisions ---------------------------------------------------------------------------------------------------------


class NodeLabelled(Decision, frozen=True):
    """Set (a value) or remove (None) labels of ours on a node."""

    gone_with: ClassVar[str] = "node"
    around: ClassVar[bool] = True

    node: str
    labels: dict[str, str | None]
    mode: str
    reason: str

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
    """Something a person should look at."""

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
    *register(Rejected, ConfigMissing, Started, PolicyChanged, Capabilities, Synced, Stale),
    *register(WriteDone, WriteRefused, Superseded, WriteObsolete, DeadlinePassed, Checkpoint, NodeLabelled, Alerted),
)
