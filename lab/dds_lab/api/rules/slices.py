"""ResourceSlice: node selection, devices with attributes and capacities, counters, taints, binding conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dds_lab.api import names
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.rules import causes, devices, parts
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

DEVICES = 128
HEAVY_DEVICES = 64
COUNTER_SETS = 8
COUNTERS = 32
CONSUMED_SETS = 2
TAINTS = 16
ATTRIBUTES = 32
ATTRIBUTE_VALUES = 48
VALUE_LENGTH = 64
PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
DEVICE_PLACES = PLACES[:3]
SCALARS = ("int", "bool", "string", "version")
LISTS = ("ints", "bools", "strings", "versions")
VALUES = 10


# -- capacities and their request policies (KEP-5075)


def check(capacity: Object, shared: bool, at: str) -> Iterable[Cause]:
    """Causes against one capacity of a device; `shared` if the device allows several allocations."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    where = f"{at}.requestPolicy"
    if not shared:
        return [causes.forbidden(where, "allowMultipleAllocations must be true to use requestPolicy")]
    whole = names.nanos(capacity.get("value"))
    default, values, bounds = policy.get("default"), policy.get("validValues"), policy.get("validRange")
    if values and bounds is not None:
        why = "exactly one policy can be specified, cannot specify `validValues` and `validRange` at the same time"
        return [causes.forbidden(where, why)]
    if default is None and (values or bounds is not None):
        which = "validValues" if values else "validRange"
        return [causes.required(f"{where}.default", f"must be specified when `{which}` is defined")]
    if default is None:
        return []
    if values:
        return _values(values, default, whole, where)
    if bounds is not None:
        return _range(bounds, default, whole, where)
    if names.nanos(default) > whole:
        return [causes.invalid(f"{where}.default", default, "must not be larger than the capacity value")]
    return []


def _values(values: list[str], default: str, whole: int, at: str) -> Iterator[Cause]:
    spot = f"{at}.validValues"
    if len(values) > VALUES:
        yield causes.too_many(spot, len(values), VALUES)
    for index, value in enumerate(values):
        amount = names.nanos(value)
        if amount > whole:
            yield causes.invalid(f"{spot}[{index}]", value, "must not be larger than the capacity value")
        if index and amount == names.nanos(values[index - 1]):
            yield causes.duplicate(f"{spot}[{index}]", value)
        elif index and amount < names.nanos(values[index - 1]):
            yield causes.invalid(f"{spot}[{index}]", value, "values must be sorted in ascending order")
    if all(names.nanos(value) != names.nanos(default) for value in values):
        yield causes.invalid(f"{at}.default", default, "default value must be one of `validValues`")


def _range(bounds: Object, default: str, whole: int, at: str) -> Iterator[Cause]:
    spot = f"{at}.validRange"
    if bounds.get("min") is None:
        yield causes.required(f"{spot}.min")
        return
    low, start = names.nanos(bounds["min"]), names.nanos(default)
    high = names.nanos(bounds["max"]) if bounds.get("max") is not None else None
    if low > whole:
        yield causes.invalid(f"{spot}.min", bounds["min"], "must not be larger than the capacity value")
    if start < low:
        yield causes.invalid(f"{at}.default", default, "must not be less than `validRange.min`")
    if high is not None and high > whole:
        yield causes.invalid(f"{spot}.max", bounds["max"], "must not be larger than the capacity value")
    if high is not None and high < low:
        yield causes.invalid(f"{spot}.max", bounds["max"], "must not be less than `validRange.min`")
    if start > (whole if high is None else high):
        yield causes.invalid(
            f"{at}.default", default, "must not be larger than the largest amount that can be asked for"
        )
    if bounds.get("step") is not None:
        yield from _step(bounds, default, whole, at)


def _step(bounds: Object, default: str, whole: int, at: str) -> Iterator[Cause]:
    step, low = names.nanos(bounds["step"]), names.nanos(bounds["min"])
    where = f"{at}.validRange"
    if step <= 0:
        yield causes.invalid(f"{where}.step", bounds["step"], "must be greater than zero")
        return
    if low + step > whole:
        yield causes.invalid(
            f"{where}.step", bounds["step"], "one step from the minimum must fit in the capacity value"
        )
    if (names.nanos(default) - low) % step:
        yield causes.invalid(f"{at}.default", default, "must be a multiple of the step from the minimum")
    if bounds.get("max") is not None and (names.nanos(bounds["max"]) - low) % step:
        yield causes.invalid(f"{where}.max", bounds["max"], "must be a multiple of the step from the minimum")


# -- slices


class ResourceSlices(BuiltIn):
    """Driver, pool and node of a slice are immutable."""

    counted = True

    def __init__(self, resource: Resource, gates: Gates, second: Callable[[], str] = str) -> None:
        super().__init__(resource, gates, second)
        pool = ("spec.pool.name",) if gates.since("1.37") else ()
        self.selectable_names = ("spec.nodeName", "spec.driver", *pool)

    def selectable(self, obj: Object) -> dict[str, str]:
        spec = obj.get("spec") or {}
        pool = (spec.get("pool") or {}).get("name") or ""
        return {
            "spec.nodeName": spec.get("nodeName") or "",
            "spec.driver": spec.get("driver") or "",
            "spec.pool.name": pool,
        }

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec") or {}
        given = spec.get("devices") or []
        if old is not None and spec is old.get("spec"):
            return obj
        second = self.second()
        if not second or not any("timeAdded" not in taint for device in given for taint in device.get("taints") or ()):
            return obj
        return {**obj, "spec": {**spec, "devices": [_timed(device, second) for device in given]}}

    def check(self, obj: Object) -> Iterable[Cause]:
        return _check_spec(obj.get("spec") or {}, None, combined=self.gates.version == "1.34")

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if spec is before:
            return []
        found: list[Cause] = []
        for path, value, was in (
            ("driver", spec.get("driver"), before.get("driver")),
            ("pool.name", (spec.get("pool") or {}).get("name"), (before.get("pool") or {}).get("name")),
            ("nodeName", spec.get("nodeName"), before.get("nodeName")),
        ):
            if value != was:
                found.append(causes.immutable(f"spec.{path}", value))
        return [*_check_spec(spec, before, combined=self.gates.version == "1.34"), *found]


def _timed(device: Object, second: str) -> Object:
    if not device.get("taints"):
        return device
    return {
        **device,
        "taints": [{**taint, "timeAdded": taint.get("timeAdded") or second} for taint in device["taints"]],
    }


def _check_spec(spec: Object, old: Object | None, combined: bool) -> Iterator[Cause]:
    yield from devices.driver(spec.get("driver") or "", "spec.driver")
    yield from _pool(spec.get("pool") or {}, "spec.pool")
    yield from _places(spec, "spec", PLACES)
    given, counters = spec.get("devices") or [], spec.get("sharedCounters") or []
    if given and counters and not combined:
        yield causes.invalid("spec", None, "only one of `sharedCounters` or `devices` is allowed")
    yield from parts.each(counters, "spec.sharedCounters", COUNTER_SETS, _counter_set, "name")
    yield from _devices(given, (old or {}).get("devices") or [], bool(spec.get("perDeviceNodeSelection")))


def _pool(pool: Object, at: str) -> Iterator[Cause]:
    yield from devices.pool(pool.get("name") or "", f"{at}.name")
    if pool.get("resourceSliceCount", 0) <= 0:
        yield causes.invalid(f"{at}.resourceSliceCount", pool.get("resourceSliceCount", 0), "must be greater than zero")
    if pool.get("generation", 0) < 0:
        why = "must be greater than or equal to zero"
        yield causes.invalid(f"{at}.generation", pool["generation"], why)


def _places(given: Object, at: str, fields: tuple[str, ...]) -> Iterator[Cause]:
    """Exactly one of the fields must say where the devices are."""
    known = ", ".join(f"`{field}`" for field in fields)
    present = [field for field in fields if given.get(field) is not None]
    if given.get("nodeName") == "":
        yield causes.invalid(f"{at}.nodeName", "", "must be either unset or set to a non-empty string")
    elif given.get("nodeName"):
        yield from causes.invalids(f"{at}.nodeName", given["nodeName"], names.dns_subdomain(given["nodeName"]))
    if given.get("nodeSelector") is not None:
        yield from parts.node_selector(given["nodeSelector"], f"{at}.nodeSelector", single=True)
    for field in ("allNodes", "perDeviceNodeSelection"):
        if given.get(field) is False:
            yield causes.invalid(f"{at}.{field}", False, "must be either unset or set to true")
    if not present:
        yield causes.required(at, f"exactly one of {known} is required")
    elif len(present) > 1:
        shown = "{" + ", ".join(f"`{field}`" for field in present) + "}"
        yield causes.invalid(at, shown, f"exactly one of {known} is required, but multiple fields are set")


def _devices(given: list[Object], before: list[Object], per_device: bool) -> Iterator[Cause]:
    """Check the devices that are not the same Python object as before."""
    at = "spec.devices"
    heavy = len(given) > HEAVY_DEVICES and any(_is_heavy(device) for device in given)
    most = HEAVY_DEVICES if heavy else DEVICES
    known = {device.get("name"): device for device in before}
    if len(given) > most:
        yield causes.too_many(at, len(given), most)
    seen: set[Any] = set()
    for index, device in enumerate(given):
        where, name = f"{at}[{index}]", device.get("name") or ""
        if device is not known.get(name):
            yield from devices.device(name, f"{where}.name")
            yield from _device(device, where)
        yield from _device_places(device, where, per_device)
        if name in seen:
            yield causes.duplicate(f"{where}.name", name)
        seen.add(name)


def _is_heavy(device: Object) -> bool:
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(key in value for value in (device.get("attributes") or {}).values() for key in LISTS)


def _device_places(device: Object, at: str, per_device: bool) -> Iterable[Cause]:
    if per_device:
        return _places(device, at, DEVICE_PLACES)
    return [
        causes.invalid(f"{at}.{field}", None, f"`{field}` can only be set if `perDeviceNodeSelection` is true")
        for field in DEVICE_PLACES
        if device.get(field) is not None
    ]


def _device(device: Object, at: str) -> Iterator[Cause]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > ATTRIBUTES:
        why = f"the total number of attributes and capacities must not exceed {ATTRIBUTES}"
        yield causes.invalid(at, len(attributes) + len(capacity), why)
    for name, value in attributes.items():
        yield from devices.qualified(name, f"{at}.attributes[{name}]")
        yield from _attribute(value, f"{at}.attributes[{name}]")
    values = sum(len(value.get(key) or ()) for value in attributes.values() for key in LISTS)
    if (
        values
        and values + sum(1 for value in attributes.values() if any(key in value for key in SCALARS)) > ATTRIBUTE_VALUES
    ):
        yield causes.invalid(f"{at}.attributes", values, f"must not have more than {ATTRIBUTE_VALUES} values in all")
    shared = bool(device.get("allowMultipleAllocations"))
    for name, value in capacity.items():
        yield from devices.qualified(name, f"{at}.capacity[{name}]")
        yield from check(value, shared, f"{at}.capacity[{name}]")
    yield from parts.each(device.get("taints"), f"{at}.taints", TAINTS, devices.taint)
    yield from parts.each(
        device.get("consumesCounters"), f"{at}.consumesCounters", CONSUMED_SETS, _consumption, "counterSet"
    )
    if device.get("bindingConditions") or device.get("bindingFailureConditions"):
        yield from devices.binding(device, at)


def _attribute(value: Object, at: str) -> Iterator[Cause]:
    present = [key for key in (*SCALARS, *LISTS) if value.get(key) is not None]
    if not present:
        yield causes.required(at, "exactly one value must be specified")
        return
    if len(present) > 1:
        yield causes.invalid(at, value, "exactly one value must be specified")
        return
    key = present[0]
    given = value[key] if key in LISTS else [value[key]]
    for index, item in enumerate(given):
        where = f"{at}.{key}[{index}]" if key in LISTS else f"{at}.{key}"
        if isinstance(item, str) and len(item) > VALUE_LENGTH:
            yield causes.too_long(where, VALUE_LENGTH)
        elif key.startswith("version"):
            yield from causes.invalids(where, item, names.semantic_version(item))


def _counter_set(given: Object, at: str) -> Iterable[Cause]:
    return [*parts.name(given.get("name") or "", f"{at}.name", names.dns_label), *_counters(given, at)]


def _consumption(given: Object, at: str) -> Iterable[Cause]:
    return [*parts.name(given.get("counterSet") or "", f"{at}.counterSet", names.dns_label), *_counters(given, at)]


def _counters(given: Object, at: str) -> Iterator[Cause]:
    counters = given.get("counters") or {}
    if not counters:
        yield causes.required(f"{at}.counters")
        return
    if len(counters) > COUNTERS:
        yield causes.too_many(f"{at}.counters", len(counters), COUNTERS)
    for name in counters:
        yield from causes.invalids(f"{at}.counters", name, names.dns_label(name))
