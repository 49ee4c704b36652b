"""Facts about objects of the cluster: one for a change, holding the differences in the fields that the engine reads, and one
for an end. `difference` makes them, `merged` takes them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from dds_core.events.base import Event, Fact
from dds_core.events.registry import register
from dds_core.model import (
    AttachRequest,
    Claim,
    Config,
    Device,
    DeviceClass,
    FabricResource,
    Node,
    Observed,
    Pod,
    Slice,
    TaintRule,
)
from dds_core.publisher.model import Host, PoolConfig, PoolSlice, PublisherObserved


class Changes(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
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
    HostChanges = Host
    PoolSliceChanges = PoolSlice
    PoolConfigChanges = PoolConfig
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
    HostChanges = _changes_of(Host)
    PoolSliceChanges = _changes_of(PoolSlice)
    PoolConfigChanges = _changes_of(PoolConfig)


class OfObject(Fact, frozen=True):
    uid: str

    @property
    def subject(self) -> str:
        return self.uid


class ClaimObserved(OfObject, frozen=True):
    """A ResourceClaim appeared or changed; `changes` holds the fields that are now different."""

    changes: ClaimChanges


class ClaimGone(OfObject, frozen=True):
    """A ResourceClaim was deleted; what it held is free from here on."""


class SliceObserved(OfObject, frozen=True):
    """A ResourceSlice appeared or changed.

    `devices` holds the device differences of the slice: the new device, or None for one that is no longer listed.
    """

    changes: SliceChanges
    devices: dict[str, Device | None] = {}


class SliceGone(OfObject, frozen=True):
    """A ResourceSlice was deleted; its devices are unknown from here on, not gone."""


class DeviceClassObserved(OfObject, frozen=True):
    """A DeviceClass appeared or changed; its selectors tell which devices a claim could take."""

    changes: DeviceClassChanges


class DeviceClassGone(OfObject, frozen=True):
    """A DeviceClass was deleted."""


class TaintRuleObserved(OfObject, frozen=True):
    """A DeviceTaintRule appeared or changed, ours or anybody's."""

    changes: TaintRuleChanges


class TaintRuleGone(OfObject, frozen=True):
    """A DeviceTaintRule was deleted."""


class NodeObserved(OfObject, frozen=True):
    """A node appeared or changed: its labels, its taints, whether it is cordoned."""

    changes: NodeChanges


class NodeGone(OfObject, frozen=True):
    """A node was deleted; nothing can be attached to it or go back from it any more."""


class PodObserved(OfObject, frozen=True):
    """A pod that refers to claims appeared or changed: where it is, where it is nominated, why it waits."""

    changes: PodChanges


class PodGone(OfObject, frozen=True):
    """A pod was deleted, or matters no more after it left a filtered watch: it has finished, or has a node and no claim."""


class ConfigObserved(OfObject, frozen=True):
    """The ConfigMap of the fabric appeared or changed: models, label prefix, fabrics, kill switch."""

    changes: ConfigChanges


class ConfigGone(OfObject, frozen=True):
    """The ConfigMap was deleted; without it there are no models and nothing is ours."""


class AttachRequestObserved(OfObject, frozen=True):
    """A ComposabilityRequest appeared or changed, ours or anybody's: what is asked for, and how far the operator is."""

    changes: AttachRequestChanges


class AttachRequestGone(OfObject, frozen=True):
    """A ComposabilityRequest was deleted."""


class FabricResourceObserved(OfObject, frozen=True):
    """A ComposableResource appeared or changed: one device that is attached, being attached or being detached."""

    changes: FabricResourceChanges


class FabricResourceGone(OfObject, frozen=True):
    """A ComposableResource was deleted: its device is back in the pool, or its node is gone."""


class HostObserved(OfObject, frozen=True):
    """A node appeared or changed, as the publisher sees it: its machine, its labels."""

    changes: HostChanges


class HostGone(OfObject, frozen=True):
    """A node was deleted."""


class PoolSliceObserved(OfObject, frozen=True):
    """A ResourceSlice appeared or changed, ours or anybody's, as the publisher sees it."""

    changes: PoolSliceChanges


class PoolSliceGone(OfObject, frozen=True):
    """A ResourceSlice was deleted, by us or by anybody."""


class PoolConfigObserved(OfObject, frozen=True):
    """The ConfigMap of the fabric appeared or changed, as the publisher reads it: models, and what their devices carry."""

    changes: PoolConfigChanges


class PoolConfigGone(OfObject, frozen=True):
    """The ConfigMap was deleted. What is published stays as it is until there is one again."""


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


Seen = Observed | PublisherObserved
"""An object of the cluster as the scaler or the publisher reads it."""

OBSERVED: dict[type[Seen], tuple[type[Event], type[Event]]] = {
    Claim: (ClaimObserved, ClaimGone),
    Slice: (SliceObserved, SliceGone),
    DeviceClass: (DeviceClassObserved, DeviceClassGone),
    TaintRule: (TaintRuleObserved, TaintRuleGone),
    Node: (NodeObserved, NodeGone),
    Pod: (PodObserved, PodGone),
    Config: (ConfigObserved, ConfigGone),
    AttachRequest: (AttachRequestObserved, AttachRequestGone),
    FabricResource: (FabricResourceObserved, FabricResourceGone),
    Host: (HostObserved, HostGone),
    PoolSlice: (PoolSliceObserved, PoolSliceGone),
    PoolConfig: (PoolConfigObserved, PoolConfigGone),
}
"""For each object kind the fact of a change and the fact of its end."""

KIND_OF: dict[type[Event], Any] = {fact: kind for kind, pair in OBSERVED.items() for fact in pair}

_T = TypeVar("_T", bound=Struct)


def difference(old: Seen | None, new: Seen) -> Event | None:
    """The fact that turns `old` (None: not seen before) into `new`, or None when nothing that matters changed."""
    kind = type(new)
    before: Any = old if old is not None else kind(uid=new.uid)
    changes: dict[str, Any] = {}
    devices: dict[str, Device | None] = {}
    for name in kind.__struct_fields__:
        value, was = getattr(new, name), getattr(before, name)
        if value == was or name == "uid":
            continue
        if name == "devices" and kind is Slice:
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


_CHANGE_SETS: dict[type[Seen], Any] = {
    Claim: ClaimChanges,
    Slice: SliceChanges,
    DeviceClass: DeviceClassChanges,
    TaintRule: TaintRuleChanges,
    Node: NodeChanges,
    Pod: PodChanges,
    Config: ConfigChanges,
    AttachRequest: AttachRequestChanges,
    FabricResource: FabricResourceChanges,
    Host: HostChanges,
    PoolSlice: PoolSliceChanges,
    PoolConfig: PoolConfigChanges,
}


def merged(old: _T, changes: Struct) -> _T:
    """`old` with the fields that are set in `changes`."""
    given = {name: value for name in changes.__struct_fields__ if (value := getattr(changes, name)) is not UNSET}
    return structs.replace(old, **given)


EVENTS = register(
    ClaimObserved,
    ClaimGone,
    SliceObserved,
    SliceGone,
    DeviceClassObserved,
    DeviceClassGone,
    TaintRuleObserved,
    TaintRuleGone,
    NodeObserved,
    NodeGone,
    PodObserved,
    PodGone,
    ConfigObserved,
    ConfigGone,
    AttachRequestObserved,
    AttachRequestGone,
    FabricResourceObserved,
    FabricResourceGone,
    HostObserved,
    HostGone,
    PoolSliceObserved,
    PoolSliceGone,
    PoolConfigObserved,
    PoolConfigGone,
    Rejected,
)
