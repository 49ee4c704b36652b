"""Every event the log can hold: facts (what was learned), decisions (what is wanted) and transitions (what a life went through).

Events are frozen msgspec structs. Their JSON form is what is stored, byte for byte; the class name is the `type` column of
the log. A change to a class that has shipped needs a new schema version and an upcasting step (`dds_core.log.upcast`).
Nothing here decides or folds anything.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from dds_core.model import (
    AttachRequest,
    Claim,
    Config,
    Device,
    DeviceClass,
    DeviceKey,
    FabricResource,
    Node,
    Observed,
    Pod,
    Record,
    Slice,
    TaintRule,
)

SCHEMA_VERSION = 1


class Changes(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of the change sets: a field that did not change is UNSET and not written."""


def _changes_of(kind: type[Struct], leave_out: tuple[str, ...] = ()) -> Any:
    """The change set of a kind: the same fields without the uid, each optional."""
    hints = {f.name: f.type for f in structs.fields(kind)}
    names = [name for name in kind.__struct_fields__ if name != "uid" and name not in leave_out]
    fields = [(name, hints[name] | UnsetType, UNSET) for name in names]
    return msgspec.defstruct(f"{kind.__name__}Changes", fields, bases=(Changes,), module=__name__, frozen=True)


if TYPE_CHECKING:  # a change set reads like the object; a field that did not change is UNSET at run time
    ClaimChanges = Claim
    SliceChanges = Slice
    DeviceClassChanges = DeviceClass
    TaintRuleChanges = TaintRule
    NodeChanges = Node
    PodChanges = Pod
    ConfigChanges = Config
    AttachRequestChanges = AttachRequest
    FabricResourceChanges = FabricResource
else:
    ClaimChanges = _changes_of(Claim)
    SliceChanges = _changes_of(Slice, leave_out=("devices",))
    DeviceClassChanges = _changes_of(DeviceClass)
    TaintRuleChanges = _changes_of(TaintRule)
    NodeChanges = _changes_of(Node)
    PodChanges = _changes_of(Pod)
    ConfigChanges = _changes_of(Config)
    AttachRequestChanges = _changes_of(AttachRequest)
    FabricResourceChanges = _changes_of(FabricResource)


class Event(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all events."""

    @property
    def subject(self) -> str:
        """The stream that this event belongs to."""
        raise TypeError(f"{type(self).__name__} names no stream")


class Fact(Event, frozen=True):
    """Something learned from outside."""


class Decision(Event, frozen=True, kw_only=True):
    """Something wanted. `mode` is the mode it was decided in: under "observe" it is shown and never carried out.

    `reissued` marks one that was decided before a restart and that the cluster does not show."""

    reissued: bool = False


class Transition(Event, frozen=True):
    """A step of a life. The states are also columns of the log."""


SCALER = "scaler"
"""The stream of everything that belongs to no object."""


class _Global(Fact, frozen=True):
    @property
    def subject(self) -> str:
        return SCALER


class _OfObject(Fact, frozen=True):
    uid: str

    @property
    def subject(self) -> str:
        return self.uid


# --- facts about objects -----------------------------------------------------------------------------------------------


class ClaimObserved(_OfObject, frozen=True):
    """A ResourceClaim appeared or changed; `changes` holds the fields that are now different."""

    changes: ClaimChanges


class ClaimGone(_OfObject, frozen=True):
    """A ResourceClaim was deleted; what it held is free from here on."""


class SliceObserved(_OfObject, frozen=True):
    """A ResourceSlice appeared or changed.

    `devices` holds the device differences of the slice: the new device, or None for one that is no longer listed.
    """

    changes: SliceChanges
    devices: dict[str, Device | None] = {}


class SliceGone(_OfObject, frozen=True):
    """A ResourceSlice was deleted; its devices are unknown from here on, not gone."""


class DeviceClassObserved(_OfObject, frozen=True):
    """A DeviceClass appeared or changed; its selectors tell which devices a claim could take."""

    changes: DeviceClassChanges


class DeviceClassGone(_OfObject, frozen=True):
    """A DeviceClass was deleted."""


class TaintRuleObserved(_OfObject, frozen=True):
    """A DeviceTaintRule appeared or changed, ours or anybody's."""

    changes: TaintRuleChanges


class TaintRuleGone(_OfObject, frozen=True):
    """A DeviceTaintRule was deleted."""


class NodeObserved(_OfObject, frozen=True):
    """A node appeared or changed: its labels, its taints, whether it is cordoned."""

    changes: NodeChanges


class NodeGone(_OfObject, frozen=True):
    """A node was deleted; nothing can be attached to it or go back from it any more."""


class PodObserved(_OfObject, frozen=True):
    """A pod that refers to claims appeared or changed: where it is, where it is nominated, why it waits."""

    changes: PodChanges


class PodGone(_OfObject, frozen=True):
    """A pod was deleted, or is known to be gone after it left a filtered watch."""


class ConfigObserved(_OfObject, frozen=True):
    """The ConfigMap of the fabric appeared or changed: models, label prefix, fabrics, kill switch."""

    changes: ConfigChanges


class ConfigGone(_OfObject, frozen=True):
    """The ConfigMap was deleted; without it there are no models and nothing is ours."""


class AttachRequestObserved(_OfObject, frozen=True):
    """A ComposabilityRequest appeared or changed, ours or anybody's: what is asked for, and how far the operator is."""

    changes: AttachRequestChanges


class AttachRequestGone(_OfObject, frozen=True):
    """A ComposabilityRequest was deleted."""


class FabricResourceObserved(_OfObject, frozen=True):
    """A ComposableResource appeared or changed: one device that is attached, being attached or being detached."""

    changes: FabricResourceChanges


class FabricResourceGone(_OfObject, frozen=True):
    """A ComposableResource was deleted: its device is back in the pool, or its node is gone."""


class Rejected(Fact, frozen=True):
    """An object, or one field of it, that is not as expected. Told once per (uid, field, reason); nothing else stops."""

    kind: str
    uid: str
    name: str
    field: str
    reason: str
    namespace: str = ""

    @property
    def subject(self) -> str:
        return self.uid


# --- facts about ourselves and our surroundings ------------------------------------------------------------------------


class Started(_Global, frozen=True):
    """A process took over. `fingerprint` identifies the code of `decide`."""

    code: str
    fingerprint: str
    projection: int
    epoch: int
    mode: str


class PolicyChanged(_Global, frozen=True):
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


class Capabilities(_Global, frozen=True):
    """What the API serves and keeps: `taint_rules` is the version served ("" = none)."""

    taint_rules: str = ""
    binding_conditions: bool = True
    granular_status: bool = False


class Synced(_Global, frozen=True):
    """All resources were listed; decisions may be taken from here on. A level pass over the whole fleet follows."""


class Stale(_Global, frozen=True):
    """The view of a resource has had no sign of life for `age` seconds; deadlines wait until `Synced`."""

    resource: str
    age: int


class ClaimsListed(_Global, frozen=True):
    """A consistent LIST of all claims was made for the fence of `resource` after it had settled and was folded."""

    resource: str
    started: int


class WriteDone(_Global, frozen=True):
    """A decision was carried out; `decision` is its event id, `action` its type, `target` the object it was about."""

    decision: str
    action: str
    target: str


class WriteRefused(_Global, frozen=True):
    """A write failed for good: `code` is the HTTP status, `reason` the API's reason, `text` scrubbed foreign words."""

    decision: str
    action: str
    target: str
    code: int
    reason: str
    text: str = ""


class Superseded(_Global, frozen=True):
    """A decision was dropped unsent because a newer one took its place."""

    decision: str
    action: str
    target: str


class DeadlinePassed(Fact, frozen=True):
    """An instant that the picture was waiting for has come. `due` is the instant, `kind` one of `dds_core.agenda`."""

    kind: str
    of: str
    due: int

    @property
    def subject(self) -> str:
        return self.of


class Checkpoint(_Global, frozen=True):
    """The whole picture, so that a load can start here."""

    projection: int
    picture: dict[str, Any]


# --- decisions ---------------------------------------------------------------------------------------------------------


class Promise(Record, frozen=True):
    """One result of a claim's allocation and the device attached for it. `device` is the device's name on its node."""

    result: int
    uuid: str
    driver: str
    pool: str
    device: str


class Entry(Record, frozen=True):
    """One status.devices entry that we own: the allocated device and the condition set on it."""

    driver: str
    pool: str
    device: str
    condition: str
    reason: str
    message: str
    share: str = ""


class Signal(Record, frozen=True):
    """The full set of our entries on one claim."""

    claim: str
    entries: tuple[Entry, ...]


class _OfClaim(Decision, frozen=True):
    claim: str
    mode: str

    @property
    def subject(self) -> str:
        return self.claim


class _OfCell(Decision, frozen=True):
    """About one model on one node."""

    node: str
    model: str
    mode: str

    @property
    def subject(self) -> str:
        return SCALER


class AttachOrdered(_OfCell, frozen=True):
    """Create a ComposabilityRequest (`previous` None) or raise its size. `claims` are those it is for."""

    request: str
    type: str
    size: int
    reason: str
    previous: int | None = None
    uid: str = ""
    claims: tuple[str, ...] = ()


class Reserved(_OfClaim, frozen=True):
    """These devices are for this attempt of the claim; in the log before any signal.

    `pod` names the holder when the claim itself is deleted and made anew (extended resources).
    """

    node: str
    cycle: int
    attempt: int
    promises: tuple[Promise, ...]
    pod: str = ""


class ReservationDropped(_OfClaim, frozen=True):
    """The devices promised to the claim are free for others again; `reason` says why."""

    reason: str


class HandOver(Decision, frozen=True):
    """Tell the scheduler to schedule the pod again: every pool claim of the group in one batch."""

    pod: str
    node: str
    steering: str
    signals: tuple[Signal, ...]
    mode: str
    cause: str = ""

    @property
    def subject(self) -> str:
        return self.signals[0].claim


class Steered(Decision, frozen=True):
    """Nominate the node for the pod, then clear the allocations of the signalled claims (hand-over mode `clear`)."""

    pod: str
    node: str
    claims: tuple[str, ...]
    mode: str
    cause: str = ""

    @property
    def subject(self) -> str:
        return self.pod


class ClaimFailed(_OfClaim, frozen=True):
    """This attempt will not succeed. What cools down is `model` on `node`."""

    cycle: int
    attempt: int
    reason: str
    message: str
    node: str
    model: str = ""


class FailureSignalled(_OfClaim, frozen=True):
    """Set FabricDeviceFailed on the first not-ready own result."""

    attempt: int
    signal: Signal


class CoolDown(_OfCell, frozen=True):
    """Keep the scheduler from choosing this model on this node until the instant `until`."""

    until: int
    reason: str


class CoolDownOver(_OfCell, frozen=True):
    """The model may be chosen from the pool on this node again."""


class NodeLabelled(Decision, frozen=True):
    """Set (a value) or remove (None) labels of ours on a node."""

    node: str
    labels: dict[str, str | None]
    mode: str
    reason: str

    @property
    def subject(self) -> str:
        return self.node


class _OfDevice(Decision, frozen=True):
    """About one FabricResource, by its uid."""

    resource: str
    mode: str

    @property
    def subject(self) -> str:
        return self.resource


class VictimMarked(_OfDevice, frozen=True):
    """Annotate the resource as the next to go and taint its device where rules are obeyed. Starts the fence."""

    name: str
    node: str
    model: str
    uuid: str
    driver: str
    pool: str
    device: str
    reason: str
    idle_since: int = 0
    taint: bool = False


class VictimUnmarked(_OfDevice, frozen=True):
    """Take the mark, and the taint where there is one, off a device that may not go after all."""

    name: str
    reason: str
    taint: bool = False


class ClaimsListWanted(_OfDevice, frozen=True):
    """The fence has settled: confirm it with a consistent LIST of claims."""

    fenced: int


class DetachOrdered(_OfCell, frozen=True):
    """Lower the size of the request by exactly the marked victims."""

    request: str
    uid: str
    size: int
    previous: int
    victims: tuple[str, ...]


class UsedStamped(_OfDevice, frozen=True):
    """Write the last-used annotation: the device was released at `at`."""

    name: str
    at: int


class Alerted(Decision, frozen=True):
    """Something a person should look at."""

    of: str
    reason: str
    text: str
    mode: str

    @property
    def subject(self) -> str:
        return self.of


# --- transitions -------------------------------------------------------------------------------------------------------


class ClaimMoved(Transition, frozen=True):
    """A step of a claim's life.

    `cause` says in words what made it true; `devices` are the FabricResources concerned (uids); `began` is the start of
    the attempt where it is not the instant of the event; `promises` what stands ready for it; `landed` tells where a
    hand-over ended: here (on the node's own devices), pool (on the node, from the pool again) or elsewhere.
    """

    claim: str
    trigger: str
    source: str
    target: str
    cycle: int
    attempt: int
    cause: str = ""
    devices: tuple[str, ...] = ()
    began: int = 0
    promises: tuple[Promise, ...] = ()
    landed: str = ""

    @property
    def subject(self) -> str:
        return self.claim


class DeviceMoved(Transition, frozen=True):
    """A step of a device's life. `cause` says in words what made it true; `key` is the name under which a claim took it."""

    resource: str
    trigger: str
    source: str
    target: str
    cause: str = ""
    key: DeviceKey | None = None

    @property
    def subject(self) -> str:
        return self.resource


# --- registry and codec ------------------------------------------------------------------------------------------------


def _leaves(base: type[Event]) -> list[type[Event]]:
    found: list[type[Event]] = []
    for sub in base.__subclasses__():
        below = _leaves(sub)
        found.extend(below or ([] if sub.__name__.startswith("_") else [sub]))
    return found


TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in _leaves(Event)}
"""Event class by its type name."""

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[str, msgspec.json.Decoder[Event]] = {name: msgspec.json.Decoder(kind) for name, kind in TYPES.items()}


def encode(event: Event) -> bytes:
    """The stored JSON form: field order as declared, mappings sorted by key."""
    return _encoder.encode(event)


def decode(type_name: str, data: bytes) -> Event:
    """The event of a stored row at the current schema version.

    Raises KeyError for a type that this version does not know and msgspec.ValidationError for data that is not its form.
    """
    return _decoders[type_name].decode(data)


# --- differences -------------------------------------------------------------------------------------------------------

OBSERVED: dict[type[Observed], tuple[type[Event], type[Event]]] = {
    Claim: (ClaimObserved, ClaimGone),
    Slice: (SliceObserved, SliceGone),
    DeviceClass: (DeviceClassObserved, DeviceClassGone),
    TaintRule: (TaintRuleObserved, TaintRuleGone),
    Node: (NodeObserved, NodeGone),
    Pod: (PodObserved, PodGone),
    Config: (ConfigObserved, ConfigGone),
    AttachRequest: (AttachRequestObserved, AttachRequestGone),
    FabricResource: (FabricResourceObserved, FabricResourceGone),
}
"""For each object kind the fact of a change and the fact of its end."""

KIND_OF: dict[type[Event], type[Observed]] = {fact: kind for kind, pair in OBSERVED.items() for fact in pair}

_T = TypeVar("_T", bound=Struct)


def difference(old: Observed | None, new: Observed) -> Event | None:
    """The fact that turns `old` (None: not seen before) into `new`, or None when nothing that matters changed."""
    kind = type(new)
    before: Any = old if old is not None else kind(uid=new.uid)
    changes: dict[str, Any] = {}
    devices: dict[str, Device | None] = {}
    for name in kind.__struct_fields__:
        value, was = getattr(new, name), getattr(before, name)
        if value == was or name == "uid":
            continue
        if name == "devices":
            devices = {key: device for key, device in value.items() if was.get(key) != device}
            devices.update({key: None for key in was if key not in value})
        else:
            changes[name] = value
    if old is not None and not changes and not devices:
        return None
    fact: Any = OBSERVED[kind][0]
    change_set = _CHANGE_SETS[kind](**changes)
    if kind is Slice:
        return fact(uid=new.uid, changes=change_set, devices=devices)  # type: ignore[no-any-return]
    return fact(uid=new.uid, changes=change_set)  # type: ignore[no-any-return]


_CHANGE_SETS: dict[type[Observed], Any] = {
    Claim: ClaimChanges,
    Slice: SliceChanges,
    DeviceClass: DeviceClassChanges,
    TaintRule: TaintRuleChanges,
    Node: NodeChanges,
    Pod: PodChanges,
    Config: ConfigChanges,
    AttachRequest: AttachRequestChanges,
    FabricResource: FabricResourceChanges,
}


def merged(old: _T, changes: Struct) -> _T:
    """`old` with the fields that are set in `changes`."""
    given = {name: value for name in changes.__struct_fields__ if (value := getattr(changes, name)) is not UNSET}
    return structs.replace(old, **given)
