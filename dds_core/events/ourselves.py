"""Facts about ourselves and our surroundings: who decides, under which policy, what became of writes, which instants came."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import structs

from dds_core.events.base import SCALER, Decision, Fact
from dds_core.events.registry import register


class OfScaler(Fact, frozen=True):
    """Of no object."""

    @property
    def subject(self) -> str:
        return SCALER


class Started(OfScaler, frozen=True):
    """A process took over. `fingerprint` identifies the code of `decide`."""

    code: str
    fingerprint: str
    projection: int
    epoch: int
    mode: str


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


class Capabilities(OfScaler, frozen=True):
    """What the API serves and keeps: `taint_rules` is the version served ("" = none).

    A field of a slice whose feature gate is off is dropped without a word: `binding_conditions`, `device_taints` and
    `shared_devices` (allowMultipleAllocations) say whether it is kept."""

    taint_rules: str = ""
    binding_conditions: bool = True
    granular_status: bool = False
    device_taints: bool = True
    shared_devices: bool = True


class Synced(OfScaler, frozen=True):
    """All resources were listed; decisions may be taken from here on. A level pass over the whole fleet follows."""


class Stale(OfScaler, frozen=True):
    """The view of a resource has had no sign of life for `age` seconds; deadlines wait until `Synced`."""

    resource: str
    age: int


class ClaimsListed(OfScaler, frozen=True):
    """A consistent LIST of all claims was made for the fence of `resource` after it had settled and was folded."""

    resource: str
    started: int


class WriteDone(OfScaler, frozen=True):
    """A decision was carried out; `decision` is its event id, `action` its type, `target` the object it was about."""

    decision: str
    action: str
    target: str


class WriteRefused(OfScaler, frozen=True):
    """A write failed for good: `code` is the HTTP status, `reason` the API's reason, `text` scrubbed foreign words."""

    decision: str
    action: str
    target: str
    code: int
    reason: str
    text: str = ""


class Superseded(OfScaler, frozen=True):
    """A decision was dropped unsent because a newer one took its place."""

    decision: str
    action: str
    target: str


class WriteObsolete(OfScaler, frozen=True):
    """A decision was not carried out, since the live object is not, or no more, the one that it was made for. What is observed
    of it leads to the next decision; `text` says what was found."""

    decision: str
    action: str
    target: str
    text: str = ""


class DeadlinePassed(Fact, frozen=True):
    """An instant that the picture was waiting for has come. `due` is the instant, `kind` one of `dds_core.scaler.deadlines`."""

    kind: str
    of: str
    due: int

    @property
    def subject(self) -> str:
        return self.of


class Checkpoint(OfScaler, frozen=True):
    """The whole picture, so that a load can start here."""

    projection: int
    picture: dict[str, Any]


# -- decisions of every component ----------------------------------------------------------------------------------------


class NodeLabelled(Decision, frozen=True):
    """Set (a value) or remove (None) labels of ours on a node."""

    node: str
    labels: dict[str, str | None]
    mode: str
    reason: str

    @property
    def subject(self) -> str:
        return self.node


class Alerted(Decision, frozen=True):
    """Something a person should look at."""

    of: str
    reason: str
    text: str
    mode: str

    @property
    def subject(self) -> str:
        return self.of


EVENTS = register(
    Started,
    PolicyChanged,
    Capabilities,
    Synced,
    Stale,
    ClaimsListed,
    WriteDone,
    WriteRefused,
    Superseded,
    WriteObsolete,
    DeadlinePassed,
    Checkpoint,
    NodeLabelled,
    Alerted,
)
