"""Objects of every kind that a server accepts, and what it says when one thing about them is changed."""

from __future__ import annotations

import copy
from typing import Any

from dds_lab import crds
from dds_lab.api.gates import OPTIONAL_VERSIONS, Gates
from dds_lab.api.registry import Registry
from dds_lab.api.strategies import Strategy

Object = dict[str, Any]
SECOND = "2026-01-01T00:00:00Z"
REMOVED = object()

NODE_SELECTOR = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
RESULT = {
    "request": "r0",
    "driver": "gpu.nvidia.com",
    "pool": "a100-fabric1",
    "device": "pool-0",
    "bindingConditions": ["FabricDeviceReady"],
    "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"],
}
CONDITION = {
    "type": "FabricDeviceReady",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": SECOND,
}


def registry(version: str = "1.36", **gates: bool) -> Registry:
    """A registry as a server of that release has it, with both custom kinds and every optional version."""
    made = Registry(Gates.for_version(version, gates, OPTIONAL_VERSIONS), lambda: SECOND)
    for definition in crds.DEFINITIONS:
        made.install(definition)
    return made


def strategy(plural: str, group: str | None = None, **gates: bool) -> Strategy:
    """The strategy of a kind under 1.36's defaults, with gates changed."""
    made = registry("1.36", **gates)
    return made.strategy(made.named(plural, group))


def metadata(name: str = "x", namespaced: bool = True) -> Object:
    namespace = {"namespace": "default"} if namespaced else {}
    return {"name": name, **namespace, "uid": "u-1", "creationTimestamp": SECOND, "resourceVersion": "7"}


def claim() -> Object:
    request = {"name": "r0", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata("c"),
        "spec": {"devices": {"requests": [request]}},
        "status": {},
    }


def allocated() -> Object:
    """A claim on a pool device, reserved, with a condition."""
    return {
        **claim(),
        "status": {
            "allocation": {
                "devices": {"results": [dict(RESULT)]},
                "nodeSelector": NODE_SELECTOR,
                "allocationTimestamp": SECOND,
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-1"}],
            "devices": [
                {
                    "driver": "gpu.nvidia.com",
                    "pool": "a100-fabric1",
                    "device": "pool-0",
                    "conditions": [dict(CONDITION)],
                }
            ],
        },
    }


def resource_slice(**device: Any) -> Object:
    spec = {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": [{"name": "gpu-0", **device}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {**metadata("s", False), "generation": 1},
        "spec": spec,
    }


def pod() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata("p"),
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        },
    }


def request() -> Object:
    """A ComposabilityRequest."""
    return {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposabilityRequest",
        "metadata": metadata("r", False),
        "spec": {"resource": {"type": "gpu", "model": "A100 40G", "size": 1, "target_node": "n1"}},
    }


def changed(obj: Object, path: str, value: Any) -> Object:
    """A deep copy with the value at a path such as `spec.devices.0.name`; REMOVED takes it away."""
    made = copy.deepcopy(obj)
    at: Any = made
    *way, last = path.split(".")
    for key in way:
        at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
    if value is REMOVED:
        del at[int(last) if isinstance(at, list) else last]
    elif isinstance(at, list) and int(last) == len(at):
        at.append(value)
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return made


def refused_create(made: Strategy, obj: Object) -> list[tuple[str, str]]:
    """Reasons (without FieldValue) and fields of everything wrong with a new object."""
    decoded, _ = made.decode(obj)
    new = made.admitted(made.for_create(made.to_storage(decoded)))
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in made.check_create(new)]


def created(made: Strategy, obj: Object) -> Object:
    """The object as it is stored; it must be acceptable."""
    decoded, unknown = made.decode(obj)
    new = made.admitted(made.for_create(made.to_storage(decoded)))
    assert (unknown, made.check_create(new)) == ([], [])
    return new


def refused_update(made: Strategy, new: Object, old: Object, subresource: str = "") -> list[tuple[str, str]]:
    """Reasons and fields of everything wrong with a change of a stored object."""
    decoded, _ = made.decode(new, old)
    ready = made.for_update(made.to_storage(decoded), old, subresource)
    return [
        (cause.reason.removeprefix("FieldValue"), cause.field) for cause in made.check_update(ready, old, subresource)
    ]


def updated(made: Strategy, new: Object, old: Object, subresource: str = "") -> Object:
    """The object as it is stored after a change; that must be acceptable."""
    decoded, unknown = made.decode(new, old)
    ready = made.for_update(made.to_storage(decoded), old, subresource)
    assert (unknown, made.check_update(ready, old, subresource)) == ([], [])
    return ready
