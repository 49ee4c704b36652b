"""The records that the choice of devices reads (`dds_core.model`), from objects of the API as decoded JSON.

Callers that have a cluster's objects instead of a state use it: the lab, what-if, and checks of published slices. An allocation
also copies what no choice depends on (configuration, tolerations): `results` takes that from the objects themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from dds_core.matching.node_selectors import Object, requirements
from dds_core.matching.pools import named_twice
from dds_core.matching.quantities import parse
from dds_core.model import (
    Alternative,
    CapacityPolicy,
    Claim,
    ClaimRequest,
    Constraint,
    Device,
    DeviceClass,
    Node,
    Requirement,
    Slice,
    Taint,
    TaintRule,
    Toleration,
)


def read_slice(found: Object) -> Slice:
    """A ResourceSlice (resource.k8s.io/v1 of 1.36)."""
    spec = found["spec"]
    return slice_with(found, {each["name"]: read_device(each) for each in spec.get("devices") or ()})


def slice_with(found: Object, devices: dict[str, Device]) -> Slice:
    """A ResourceSlice whose devices have been read."""
    metadata, spec = found["metadata"], found["spec"]
    pool = spec["pool"]
    listed = [[each["name"] for each in spec.get(part) or ()] for part in ("devices", "sharedCounters")]
    return Slice(
        uid=metadata.get("uid") or "",
        name=metadata["name"],
        driver=spec["driver"],
        pool=pool["name"],
        generation=pool.get("generation") or 0,
        slices=pool.get("resourceSliceCount") or 0,
        node=spec.get("nodeName") or "",
        all_nodes=bool(spec.get("allNodes")),
        selector=_selector(spec),
        devices=devices,
        counters={each["name"]: _counters(each) for each in spec.get("sharedCounters") or ()},
        per_device=bool(spec.get("perDeviceNodeSelection")),
        repeated=next((name for names in listed if (name := named_twice(names))), ""),
    )


def read_device(found: Object) -> Device:
    """A device of a slice. An attribute of a kind that 1.36 does not serve by default (a list) is left out."""
    attributes: dict[str, str | int | bool] = {}
    versions = []
    for name, each in (found.get("attributes") or {}).items():
        kind = next((one for one in ("string", "int", "bool", "version") if one in each), "")
        if kind:
            attributes[name] = each[kind]
        if kind == "version":
            versions.append(name)
    capacity = found.get("capacity") or {}
    policies = {name: each["requestPolicy"] for name, each in capacity.items() if each.get("requestPolicy") is not None}
    return Device(
        attributes=attributes,
        versions=tuple(versions),
        capacity={name: _quantity(each["value"]) for name, each in capacity.items()},
        policies={name: _policy(each) for name, each in policies.items()},
        binding=tuple(found.get("bindingConditions") or ()),
        failure=tuple(found.get("bindingFailureConditions") or ()),
        shared=bool(found.get("allowMultipleAllocations")),
        taints=tuple([_taint(each) for each in found.get("taints") or ()]),
        node=found.get("nodeName") or "",
        consumes={each["counterSet"]: _counters(each) for each in found.get("consumesCounters") or ()},
        selector=_selector(found),
        all_nodes=bool(found.get("allNodes")),
        binds_to_node=bool(found.get("bindsToNode")),
    )


def read_class(found: Object) -> DeviceClass:
    """A DeviceClass."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    selectors = _expressions(spec.get("selectors"))
    return DeviceClass(metadata.get("uid") or "", metadata["name"], selectors, spec.get("extendedResourceName") or "")


def read_rule(found: Object) -> TaintRule:
    """A DeviceTaintRule. Without a selector it depends on the scheduler's release: `Gates.taint_without_selector`."""
    metadata, spec = found["metadata"], found["spec"]
    selector = spec.get("deviceSelector")
    driver, pool, device = ((selector or {}).get(part) or "" for part in ("driver", "pool", "device"))
    uid, taint = metadata.get("uid") or "", _taint(spec["taint"])
    return TaintRule(uid, metadata["name"], driver, pool, device, taint, selects=selector is not None)


def read_node(found: Object) -> Node:
    """Name and labels of a node."""
    metadata = found["metadata"]
    return Node(metadata.get("uid") or "", metadata["name"], metadata.get("labels") or {})


def read_claim(found: Object) -> Claim:
    """A ResourceClaim, as far as it says what it asks for."""
    metadata = found["metadata"]
    devices = (found.get("spec") or {}).get("devices") or {}
    return Claim(
        uid=metadata.get("uid") or "",
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or metadata.get("generateName") or "",
        requests=tuple(
            [
                ClaimRequest(each["name"], alternatives=tuple([_alternative(one) for one in asked_by(each)]))
                for each in devices.get("requests") or ()
            ]
        ),
        constraints=tuple([_constraint(each) for each in devices.get("constraints") or ()]),
    )


def asked_by(request: Object) -> list[Object]:
    """What a request asks for: the entries of firstAvailable, which have names, or `exactly`."""
    return request.get("firstAvailable") or [request.get("exactly") or {}]


def _alternative(asked: Object) -> Alternative:
    mode, capacity = asked.get("allocationMode") or "ExactCount", asked.get("capacity")
    amounts = (capacity or {}).get("requests") or {}
    empty = {"adminAccess": asked.get("adminAccess") is False, "capacity": capacity is not None and not amounts}
    return Alternative(
        device_class=asked.get("deviceClassName") or "",
        name=asked.get("name") or "",
        selectors=_expressions(asked.get("selectors")),
        count=asked.get("count", 1),
        all=mode == "All",
        admin=bool(asked.get("adminAccess")),
        tolerations=tuple([_toleration(each) for each in asked.get("tolerations") or ()]),
        capacity={name: _quantity(value) for name, value in amounts.items()},
        empty=tuple([name for name, is_empty in empty.items() if is_empty]),
        unknown_mode="" if mode in ("ExactCount", "All") else mode,
    )


def _constraint(found: Object) -> Constraint:
    named = tuple(found.get("requests") or ())
    return Constraint(named, found.get("matchAttribute") or "", found.get("distinctAttribute") or "")


def _expressions(selectors: Iterable[Object] | None) -> tuple[str, ...]:
    """The CEL expressions of a list of selectors; "" for a selector of another kind, which is not supported."""
    return tuple([(each.get("cel") or {}).get("expression", "") for each in selectors or ()])


def _quantity(value: object) -> str:
    """The text of a quantity, a string or a number. InputError if it is none."""
    text = str(value)
    parse(text)
    return text


def _policy(found: Object) -> CapacityPolicy:
    bounds = found.get("validRange")
    limits = {name: _quantity(value) for name, value in (bounds or {}).items() if value is not None}
    return CapacityPolicy(
        _quantity(found["default"]) if found.get("default") is not None else "",
        tuple([_quantity(value) for value in found.get("validValues") or ()]),
        bounds is not None,
        limits.get("min", ""),
        limits.get("max", ""),
        limits.get("step", ""),
    )


def _counters(holder: Object) -> dict[str, str]:
    return {name: _quantity(counter["value"]) for name, counter in (holder.get("counters") or {}).items()}


def _taint(found: Object) -> Taint:
    return Taint(found["key"], found.get("value") or "", found.get("effect") or "")


def _toleration(found: Object) -> Toleration:
    return Toleration(
        found.get("key") or "", found.get("operator") or "Equal", found.get("value") or "", found.get("effect") or ""
    )


def _selector(holder: Object) -> tuple[Requirement, ...]:
    """The only term of a node selector: validation of slices allows no other."""
    terms = (holder.get("nodeSelector") or {}).get("nodeSelectorTerms") or [{}]
    return (*requirements(terms[0].get("matchExpressions")), *requirements(terms[0].get("matchFields")))
