"""API objects in few words: what the tests of device choice give to an allocator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dds_core.matching.allocator import Allocator, Fit, Gates, InUse
from dds_core.matching.from_api import read_claim, read_class, read_slice
from dds_core.model import Claim, DeviceClass, DeviceKey, Node, Slice, TaintRule

Object = dict[str, Any]
GPU = "gpu.example.com"
NODE = Node("", "node0", {"zone": "a", "cores": "16"})


def device(name: str, attributes: dict[str, Any] | None = None, capacity: Object | None = None, **more: Any) -> Object:
    """A device; attribute values are Python's, those of capacity a quantity or a whole capacity."""
    found: Object = {"name": name, **more}
    if attributes:
        found["attributes"] = {key: attribute(value) for key, value in attributes.items()}
    if capacity:
        found["capacity"] = {
            key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()
        }
    return found


def attribute(value: Any) -> Object:
    if isinstance(value, dict):
        return value
    kind = {bool: "bool", int: "int", str: "string"}[type(value)]
    return {kind: value}


def waiting(name: str, **more: Any) -> Object:
    """A device of the fabric: binding conditions, bound to the node that gets it."""
    conditions: Object = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"], "bindsToNode": True}
    return device(name, **(conditions | more))


def slice_of(
    *devices: Object | str,
    name: str = "",
    driver: str = GPU,
    pool: str = "",
    generation: int = 1,
    slices: int = 1,
    node: str | None = NODE.name,
    **more: Any,
) -> Slice:
    """A slice of a node, or with `node=None` of whom `more` says (nodeSelector, allNodes, perDeviceNodeSelection)."""
    pool = pool or node or "shared"
    spec: Object = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
        "devices": [device(each) if isinstance(each, str) else each for each in devices],
        **more,
    }
    if node is not None:
        spec["nodeName"] = node
    return read_slice({"metadata": {"name": name or f"{driver}-{pool}"}, "spec": spec})


def selecting(**labels: str) -> Object:
    """The node selector of a slice: these labels."""
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}


def class_of(name: str = "gpu", *expressions: str, **more: Any) -> DeviceClass:
    return read_class(written_class(name, *expressions, **more))


def written_class(name: str = "gpu", *expressions: str, **more: Any) -> Object:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, **more}}


def exactly(name: str = "gpu", *expressions: str, **more: Any) -> Object:
    """A request for exactly this."""
    return {"name": name, "exactly": asked(*expressions, **more)}


def first_of(name: str, **alternatives: Object) -> Object:
    """A request for the first of these that is to be had."""
    return {"name": name, "firstAvailable": [{"name": each, **what} for each, what in alternatives.items()]}


def asked(*expressions: str, device_class: str = "gpu", capacity: dict[str, str] | None = None, **more: Any) -> Object:
    found: Object = {"deviceClassName": device_class, "allocationMode": "ExactCount", **more}
    if found["allocationMode"] == "ExactCount":
        found.setdefault("count", 1)
    if expressions:
        found["selectors"] = [{"cel": {"expression": each}} for each in expressions]
    if capacity is not None:
        found["capacity"] = {"requests": capacity}
    return found


def claim(*requests: Object, name: str = "claim", **more: Any) -> Claim:
    """A claim; without a request it asks for one device of class gpu."""
    return read_claim(written_claim(*requests, name=name, **more))


def written_claim(*requests: Object, name: str = "claim", **more: Any) -> Object:
    devices = {"requests": list(requests) or [exactly()], **more}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


def allocator(
    *slices: Slice,
    classes: Iterable[DeviceClass] = (),
    in_use: InUse | None = None,
    gates: Gates | None = None,
    rules: Iterable[TaintRule] = (),
    steps: int = 100_000,
) -> Allocator:
    """An allocator that knows class gpu, which takes any device; shares are numbered."""
    numbers = iter(range(1, 1_000_000))
    known = [class_of(), *classes]
    return Allocator(slices, known, in_use, gates, rules, share_id=lambda: f"share-{next(numbers)}", steps=steps)


def hold(chosen: Allocator, fit: Fit) -> None:
    """Take into use what was found."""
    for each in fit.allocations:
        chosen.in_use.add(each.to_object())


def devices(fit: Fit, index: int = 0) -> list[str]:
    """The names of the devices of one claim."""
    return [name for _, _, name in keys(fit, index)]


def keys(fit: Fit, index: int = 0) -> list[DeviceKey]:
    assert fit, fit.reason
    return [result.key for result in fit.allocations[index].results]


def holding(*taken: DeviceKey) -> InUse:
    """In use: these devices as a whole."""
    found = InUse()
    results = [{"driver": driver, "pool": pool, "device": name} for driver, pool, name in taken]
    found.add({"devices": {"results": results}})
    return found
