"""The input of the choice of devices, made from the records of the state (`dds_core.model`) instead of the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dds_core import model
from dds_core.matching.claims import ALL, EXACT_COUNT, Alternative, Claim, Constraint, Request
from dds_core.matching.objects import Attribute, Capacity, Device, DeviceClass, RequestPolicy, Slice, TaintRule
from dds_core.matching.quantities import Quantity, parse
from dds_core.matching.versions import Version


def slice_of(found: model.Slice) -> Slice:
    """A slice of one node. Node selectors, allNodes and node selection by device are not converted."""
    return Slice(
        found.name or found.uid,
        found.driver,
        found.pool,
        found.generation,
        found.slices,
        node=found.node,
        devices=tuple([_device(name, device) for name, device in found.devices.items()]),
        counters=tuple([(name, _amounts(each)) for name, each in found.counters.items()]),
    )


def class_of(found: model.DeviceClass) -> DeviceClass:
    return DeviceClass(found.name, found.selectors, extended_resource=found.extended_resource)


def rule_of(found: model.TaintRule) -> TaintRule:
    return TaintRule(found.name, found.taint, found.driver, found.pool, found.device, found.selects)


def claim_of(found: model.Claim, requests: Sequence[model.ClaimRequest]) -> Claim:
    """The claim with these requests, all or some of its own."""
    constraints = tuple([Constraint(frozenset(one.requests), one.match, one.distinct) for one in found.constraints])
    return Claim(found.name, found.namespace, found.uid, tuple([_request(one) for one in requests]), constraints)


def _request(found: model.ClaimRequest) -> Request:
    alternatives = [_alternative(found.name, one) for one in found.alternatives]
    return Request(found.name, tuple(alternatives), any(one.name for one in found.alternatives))


def _alternative(request: str, found: model.Alternative) -> Alternative:
    return Alternative(
        f"{request}/{found.name}" if found.name else request,
        request,
        found.device_class,
        found.selectors,
        ALL if found.all else EXACT_COUNT,
        found.count,
        admin=found.admin,
        tolerations=found.tolerations,
        capacity={name: parse(text) for name, text in found.capacity.items()} if found.capacity else None,
    )


def _device(name: str, found: model.Device) -> Device:
    return Device(
        name,
        _attributes(found) if found.versions else found.attributes,
        {key: Capacity(parse(text), _policy(found.policies.get(key))) for key, text in found.capacity.items()},
        found.taints,
        {key: _amounts(each) for key, each in found.consumes.items()},
        found.shared,
        conditions=found.binding,
        failures=found.failure,
    )


def _attributes(found: model.Device) -> Mapping[str, Attribute]:
    return {name: Version(value) if name in found.versions else value for name, value in found.attributes.items()}


def _amounts(counters: Mapping[str, str]) -> dict[str, int]:
    return {name: parse(text).nanos for name, text in counters.items()}


def _policy(found: model.CapacityPolicy | None) -> RequestPolicy | None:
    if found is None:
        return None
    least, most, step = _quantity(found.min), _quantity(found.max), _quantity(found.step)
    values = tuple([parse(text) for text in found.values])
    return RequestPolicy(_quantity(found.default), values, found.ranged, least, most, step)


def _quantity(text: str) -> Quantity | None:
    return parse(text) if text else None


def differences(promised: model.Device, listed: model.Device) -> list[str]:
    """In words the values that a pool promises of a model and a node's driver lists otherwise. What only one of them has does not
    count, nor does an empty attribute, which is filled in when the device is there."""
    both = [name for name, value in sorted(promised.attributes.items()) if name in listed.attributes and value != ""]
    told = [(name, _told(promised, name), _told(listed, name)) for name in both]
    amounts = [(name, text, listed.capacity.get(name, text)) for name, text in sorted(promised.capacity.items())]
    told += [one for one in amounts if parse(one[1]) != parse(one[2])]
    return [f"{name} {mine}, the driver lists {theirs}" for name, mine, theirs in told if mine != theirs]


def _told(device: model.Device, name: str) -> str:
    return f"{device.attributes[name]}{' (a version)' if name in device.versions else ''}"
