"""Fields that belong to feature gates, and their silent removal where a gate is off.

As on a real server the fields stay when the object that is being replaced already uses the feature.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dds_adapters.lab.api.gates import Gates
from dds_adapters.lab.api.kinds import Object

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
