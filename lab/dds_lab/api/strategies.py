"""What the server asks about a kind, and what is the same for all: decoding, which part of an object a write may change,
generations, metadata, fields of feature gates.

A built-in kind adds its defaults and rules by deriving from `BuiltIn` (package `rules`). Objects are never changed in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dds_lab.api import decoding, names, status
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import RBAC, Column, Object, Resource
from dds_lab.api.packed import kind_node
from dds_lab.api.requests import GranularCheck
from dds_lab.api.rules import meta
from dds_lab.api.schema import Node
from dds_lab.api.status import Cause


class Strategy(ABC):
    """What the server asks about a kind. Objects go in and come out unchanged; what changes is copied.

    A write is: `decode`, `to_storage`, `for_create` or `for_update`, `check_create` or `check_update`; an answer is
    `from_storage`. `for_…` and `check_…` see the stored shape.
    """

    resource: Resource
    schema: Node
    empty: Object
    """An object of this version that nobody filled in, as bookmarks carry it."""
    selectable_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (
        Column("Name", ".metadata.name"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )

    @abstractmethod
    def decode(self, body: Object, live: Object | None = None) -> tuple[Object, list[str]]:
        """The body as this version knows it, and the paths of fields that it does not know (removed). Parts that are the
        same object in `live` (the stored object in the shape of this version) are taken as they are. ApiError 400 on a wrong
        JSON type."""

    def to_storage(self, obj: Object) -> Object:
        """From the shape of this version to the one that is kept; for most kinds only apiVersion may differ."""
        return versioned(obj, self.resource, self.resource.stored_api_version)

    def from_storage(self, obj: Object) -> Object:
        """The way back."""
        resource = self.resource
        if obj.get("apiVersion") == resource.api_version and obj.get("kind") == resource.kind:
            return obj  # the usual case, asked for every answer and every notice
        return versioned(obj, resource, resource.api_version)

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        """The decoded object (storage shape) with the defaults that its writer then owns; parts that are the same object in
        `old` have theirs already."""
        return obj

    @abstractmethod
    def for_create(self, obj: Object) -> Object:
        """A decoded new object, with defaults; status reset, generation set, gated fields dropped."""

    @abstractmethod
    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        """The decoded new object with everything that this write may not change taken from the stored `old`."""

    def admitted(self, obj: Object) -> Object:
        """What `for_create` gave, with what a real server's admission adds to a new object; no manager owns that."""
        return obj

    @abstractmethod
    def check_create(self, obj: Object) -> list[Cause]:
        """What is wrong with an object that `for_create` gave."""

    @abstractmethod
    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What is wrong with an object that `for_update` gave."""

    def granular(self, new: Object, old: Object, subresource: str, verb: str) -> list[GranularCheck]:
        """Permissions that this write needs beyond the one on its path; `verb` is "update" or "patch"."""
        return []

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values of field selectors beyond metadata.name and metadata.namespace."""
        return {}


class BuiltIn(Strategy):
    """A kind with nothing of its own: the schema is checked, all else may be."""

    counted = False
    """Whether changes of anything but metadata and status raise metadata.generation."""
    labels_by_status = False
    """Whether metadata may be changed through the status subresource (pods, nodes)."""
    name_check: meta.NameCheck = staticmethod(names.dns_subdomain)

    def __init__(self, resource: Resource, gates: Gates, second: Callable[[], str] = str) -> None:
        """`second` tells the present second as text, or nothing where there is no time."""
        self.resource = resource
        self.gates = gates
        self.second = second
        self.schema = kind_node(resource.group, resource.version, resource.kind)
        self.empty: Object = decoding.decoded(self.schema, {})[0]
        self._has_status = "status" in resource.subresources
        self._dropped = dropped(resource.key, gates)
        if resource.group == RBAC:
            self.name_check = names.path_segment

    def decode(self, body: Object, live: Object | None = None) -> tuple[Object, list[str]]:
        try:
            return decoding.decoded(self.schema, body, live)
        except decoding.Mismatch as problem:
            raise status.bad_request(f"{handled(self.resource)} {problem}") from None

    def for_create(self, obj: Object) -> Object:
        made = self.to_storage(obj)
        if self._has_status:
            made = with_status(made, self.first_status(made))
        given = made.get("metadata") or {}
        metadata = {key: value for key, value in given.items() if key not in SERVERS}
        if self.counted:
            metadata["generation"] = 1
        made = self.defaulted({**made, "metadata": metadata}, None)
        return self.prepared(without(made, None, self._dropped) if self._dropped else made, None, "")

    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        made = self.to_storage(new)
        if subresource == "status":
            made = with_status({**old, "metadata": made["metadata"]}, made.get("status"))
        else:
            if self._has_status:
                made = with_status(made, old.get("status"))
            made = self.defaulted(made, old)
        of_status = subresource == "status" and not self.labels_by_status
        made = {**made, "metadata": carried_metadata(made["metadata"], old["metadata"], of_status)}
        if self._dropped:
            made = without(made, old, self._dropped)
        made = self.prepared(made, old, subresource)
        if self.counted and subresource != "status" and differs(made, old):
            return raised_generation(made, old)
        return made

    # -- what a kind says of itself

    def first_status(self, obj: Object) -> Any:
        """The status of a new object."""
        return self.empty.get("status")

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        """What the kind makes of a write besides (old is None: a creation)."""
        return new

    def check(self, obj: Object) -> list[Cause]:
        """What is wrong with a new object, metadata apart."""
        return []

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What is wrong with a change, metadata apart; what is the same object in both need not be looked at."""
        return [] if subresource else self.check(new)

    def check_create(self, obj: Object) -> list[Cause]:
        return [*meta.check(obj["metadata"], self.resource.namespaced, self.name_check), *self.check(obj)]

    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        fresh, before = new["metadata"], old["metadata"]
        found = [] if fresh is before else [*meta.check_changed(fresh, before), *meta.check_change(fresh, before)]
        # A real server looks at metadata twice on an update, once for all kinds and once for this one.
        return [*found, *found, *self.check_change(new, old, subresource)]


# -- which part of an object a write may change

KEPT = ("uid", "creationTimestamp")
"""Metadata that no update changes, whatever the writer says."""
SERVERS = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
"""Metadata that no creator sets."""


def handled(resource: Resource) -> str:
    """How a server begins to say that a body cannot be decoded."""
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}:'


def versioned(obj: Object, resource: Resource, api_version: str) -> Object:
    """The object as one of another version of its kind that has the same shape."""
    if obj.get("apiVersion") == api_version and obj.get("kind") == resource.kind:
        return obj
    return {**obj, "apiVersion": api_version, "kind": resource.kind}


def with_status(obj: Object, value: Any) -> Object:
    """The object with another status, or without one (None)."""
    made = dict(obj)
    if value is None:
        made.pop("status", None)
    else:
        made["status"] = value
    return made


def carried_metadata(new: Object, old: Object, of_status: bool) -> Object:
    """The metadata after a write: of the writer's what may be changed, of the old what may not. A write of the status alone
    changes none of it but what the server keeps itself (managedFields, resourceVersion)."""
    if new is old:
        return old
    if of_status:
        made = {key: value for key, value in old.items() if key not in ("managedFields", "resourceVersion")}
        made.update({key: new[key] for key in ("managedFields", "resourceVersion") if key in new})
        return made
    made = {key: value for key, value in new.items() if key not in ("generation", "selfLink")}
    for key in (*KEPT, *SERVERS):
        if key in old:
            made[key] = old[key]
    return made


def differs(new: Object, old: Object, with_its_status: bool = False) -> bool:
    """Whether anything but metadata (and status) changed."""
    keys = {*new, *old} - {"metadata", "apiVersion", "kind"} - (set() if with_its_status else {"status"})
    return any(new.get(key) is not old.get(key) and new.get(key) != old.get(key) for key in keys)


def raised_generation(new: Object, old: Object) -> Object:
    """The object with the generation that follows the old one's."""
    return {**new, "metadata": {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}}


# -- fields that belong to feature gates, and their silent removal where a gate is off
#
# As on a real server the fields stay when the object that is being replaced already uses the feature.

Path = tuple[str, ...]
"""Keys from the object down; "*" is every item of a list or every value of a map, the last may be several ("a|b")."""

_REQUEST = "devices.requests.*"
_DEVICE = "spec.devices.*"
_RESULT = "status.allocation.devices.results.*"


def _of_requests(prefix: str) -> Mapping[str, tuple[str, ...]]:
    exactly, sub = f"{prefix}.{_REQUEST}.exactly", f"{prefix}.{_REQUEST}.firstAvailable.*"
    return {
        "DRAPrioritizedList": (f"{prefix}.{_REQUEST}.firstAvailable",),
        "DRAAdminAccess": (f"{exactly}.adminAccess",),
        "DRADeviceTaints": (f"{exactly}.tolerations", f"{sub}.tolerations"),
        "DRAConsumableCapacity": (
            f"{exactly}.capacity", f"{sub}.capacity", f"{prefix}.devices.constraints.*.distinctAttribute",
        ),
    }  # fmt: skip


_CLAIM_STATUS: Mapping[str, tuple[str, ...]] = {
    "DRAResourceClaimDeviceStatus": ("status.devices",),
    "DRAAdminAccess": (f"{_RESULT}.adminAccess",),
    "DRADeviceTaints": (f"{_RESULT}.tolerations",),
    "DRAConsumableCapacity": (f"{_RESULT}.shareID", f"{_RESULT}.consumedCapacity", "status.devices.*.shareID"),
    "DRADeviceBindingConditions": (
        f"{_RESULT}.bindingConditions", f"{_RESULT}.bindingFailureConditions", "status.allocation.allocationTimestamp",
    ),
}  # fmt: skip

_SLICE: Mapping[str, tuple[str, ...]] = {
    "DRADeviceTaints": (f"{_DEVICE}.taints",),
    "DRADeviceBindingConditions": (
        f"{_DEVICE}.bindsToNode", f"{_DEVICE}.bindingConditions", f"{_DEVICE}.bindingFailureConditions",
    ),
    "DRAConsumableCapacity": (f"{_DEVICE}.allowMultipleAllocations", f"{_DEVICE}.capacity.*.requestPolicy"),
    "DRAPartitionableDevices": (
        "spec.perDeviceNodeSelection", "spec.sharedCounters", f"{_DEVICE}.consumesCounters", f"{_DEVICE}.nodeName",
        f"{_DEVICE}.nodeSelector", f"{_DEVICE}.allNodes",
    ),
    "DRAListTypeAttributes": (f"{_DEVICE}.attributes.*.ints|bools|strings|versions",),
    "DRANodeAllocatableResources": (f"{_DEVICE}.nodeAllocatableResourceMappings",),
}  # fmt: skip

FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "resourceclaims.resource.k8s.io": {
        gate: _of_requests("spec").get(gate, ()) + _CLAIM_STATUS.get(gate, ())
        for gate in dict.fromkeys((*_of_requests("spec"), *_CLAIM_STATUS))
    },
    "resourceclaimtemplates.resource.k8s.io": _of_requests("spec.spec"),
    "resourceslices.resource.k8s.io": _SLICE,
    "deviceclasses.resource.k8s.io": {"DRAExtendedResource": ("spec.extendedResourceName",)},
    "pods": {"DRAExtendedResource": ("status.extendedResourceClaimStatus",)},
}
"""By storage key and gate: the fields that a server with the gate off does not keep."""

Dropped = tuple[tuple[Path, ...], ...]


def dropped(key: str, gates: Gates) -> Dropped:
    """The groups of fields that a server with these gates does not keep in objects of this kind."""
    return tuple(
        tuple(tuple(path.split(".")) for path in paths)
        for gate, paths in FIELDS.get(key, {}).items()
        if not gates.on(gate)
    )


def without(obj: Object, old: Object | None, groups: Dropped) -> Object:
    """The object without the fields of every group that `old` does not use. What is the very same in `old` is not walked."""
    for paths in groups:
        trimmed = obj
        for path in paths:
            trimmed = _without(trimmed, path, old)
        if trimmed is not obj and not (old is not None and any(_holds(old, path) for path in paths)):
            obj = trimmed
    return obj


def _holds(value: Any, path: Path) -> bool:
    key, rest = path[0], path[1:]
    if key == "*":
        return any(_holds(part, rest) for part in _parts(value))
    if not isinstance(value, dict):
        return False
    if not rest:
        return any(value.get(name) is not None for name in key.split("|"))
    return value.get(key) is not None and _holds(value[key], rest)


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _without(value: Any, path: Path, old: Any) -> Any:
    """The value without what is at the path: the value itself if there is nothing, or if it is `old`."""
    if value is old:
        return value
    key, rest = path[0], path[1:]
    if key == "*":
        return _without_in_parts(value, rest, old)
    if not isinstance(value, dict):
        return value
    if not rest:
        gone = key.split("|")
        return (
            {name: part for name, part in value.items() if name not in gone}
            if not value.keys().isdisjoint(gone)
            else value
        )
    if value.get(key) is None:
        return value
    inner = _without(value[key], rest, old.get(key) if isinstance(old, dict) else None)
    return value if inner is value[key] else {**value, key: inner}


def _without_in_parts(value: Any, rest: Path, old: Any) -> Any:
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        fields = {name: _without(part, rest, before.get(name)) for name, part in value.items()}
        return value if all(fields[name] is part for name, part in value.items()) else fields
    if not isinstance(value, list):
        return value
    known = {id(part) for part in old} if isinstance(old, list) else set()
    parts = [part if id(part) in known else _without(part, rest, None) for part in value]
    return value if all(new is part for new, part in zip(parts, value, strict=True)) else parts
