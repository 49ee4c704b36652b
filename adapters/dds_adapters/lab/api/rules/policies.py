"""Capacities of devices and the policies by which shares of them are asked for (KEP-5075)."""

from dds_adapters.lab.api import quantities
from dds_adapters.lab.api.kinds import Object
from dds_adapters.lab.api.rules import causes
from dds_adapters.lab.api.status import Cause

VALUES = 10


def check(capacity: Object, shared: bool, at: str) -> list[Cause]:
    """One capacity of a device; `shared` says whether the device allows several allocations."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    where = f"{at}.requestPolicy"
    if not shared:
        return [causes.forbidden(where, "allowMultipleAllocations must be true to use requestPolicy")]
    whole = quantities.nanos(capacity.get("value"))
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
    if quantities.nanos(default) > whole:
        return [causes.invalid(f"{where}.default", default, "must not be larger than the capacity value")]
    return []


def _values(values: list[str], default: str, whole: int, at: str) -> list[Cause]:
    spot = f"{at}.validValues"
    found = [causes.too_many(spot, len(values), VALUES)] if len(values) > VALUES else []
    for index, value in enumerate(values):
        amount = quantities.nanos(value)
        if amount > whole:
            found.append(causes.invalid(f"{spot}[{index}]", value, "must not be larger than the capacity value"))
        if index and amount == quantities.nanos(values[index - 1]):
            found.append(causes.duplicate(f"{spot}[{index}]", value))
        elif index and amount < quantities.nanos(values[index - 1]):
            found.append(causes.invalid(f"{spot}[{index}]", value, "values must be sorted in ascending order"))
    if all(quantities.nanos(value) != quantities.nanos(default) for value in values):
        found.append(causes.invalid(f"{at}.default", default, "default value must be one of `validValues`"))
    return found


def _range(bounds: Object, default: str, whole: int, at: str) -> list[Cause]:
    spot = f"{at}.validRange"
    if bounds.get("min") is None:
        return [causes.required(f"{spot}.min")]
    low, start = quantities.nanos(bounds["min"]), quantities.nanos(default)
    high = quantities.nanos(bounds["max"]) if bounds.get("max") is not None else None
    found: list[Cause] = []
    if low > whole:
        found.append(causes.invalid(f"{spot}.min", bounds["min"], "must not be larger than the capacity value"))
    if start < low:
        found.append(causes.invalid(f"{at}.default", default, "must not be less than `validRange.min`"))
    if high is not None and high > whole:
        found.append(causes.invalid(f"{spot}.max", bounds["max"], "must not be larger than the capacity value"))
    if high is not None and high < low:
        found.append(causes.invalid(f"{spot}.max", bounds["max"], "must not be less than `validRange.min`"))
    if start > (whole if high is None else high):
        found.append(
            causes.invalid(f"{at}.default", default, "must not be larger than the largest amount that can be asked for")
        )
    if bounds.get("step") is not None:
        found += _step(bounds, default, whole, at)
    return found


def _step(bounds: Object, default: str, whole: int, at: str) -> list[Cause]:
    step, low = quantities.nanos(bounds["step"]), quantities.nanos(bounds["min"])
    where = f"{at}.validRange"
    if step <= 0:
        return [causes.invalid(f"{where}.step", bounds["step"], "must be greater than zero")]
    found: list[Cause] = []
    if low + step > whole:
        found.append(
            causes.invalid(f"{where}.step", bounds["step"], "one step from the minimum must fit in the capacity value")
        )
    if (quantities.nanos(default) - low) % step:
        found.append(causes.invalid(f"{at}.default", default, "must be a multiple of the step from the minimum"))
    if bounds.get("max") is not None and (quantities.nanos(bounds["max"]) - low) % step:
        found.append(causes.invalid(f"{where}.max", bounds["max"], "must be a multiple of the step from the minimum"))
    return found
