"""Capacities of a device model: how much there is, and for a shared device how much of it may be asked for.

The rules are those of the API server (KEP-5075, validation of ResourceSlice), so that it has nothing left to refuse. Nothing here
may quote a value.
"""

from __future__ import annotations

from typing import Any

from dds_adapters.kubernetes import config, yamltext
from dds_adapters.kubernetes.reading import Fault
from dds_core.errors import InputError
from dds_core.matching.quantities import Quantity, parse
from dds_core.publishing.model import Capacity, Range

MOST_VALID_VALUES = 10

_CAPACITY = ("value", "requestPolicy")
_POLICY = ("default", "validValues", "validRange")
_RANGE = ("min", "max", "step")


def capacity_of(place: str, given: Any, shared: bool) -> Capacity:
    """A capacity: a quantity, or a mapping with `value` and `requestPolicy`. Raises Fault."""
    if not isinstance(given, yamltext.Mapping):
        return Capacity(str(_quantity(place, given)))
    _only(place, given, _CAPACITY)
    value = _quantity(f"{place}.value", given.get("value"))
    if given.get("requestPolicy") is None:
        return Capacity(str(value))
    place = f"{place}.requestPolicy"
    if not shared:
        raise Fault(place, "is for devices with allow-multiple-allocations: true")
    return _policy(place, given["requestPolicy"], value)


def _policy(place: str, given: Any, whole: Quantity) -> Capacity:
    policy = _mapping(place, given, _POLICY)
    values, bounds = policy.get("validValues"), policy.get("validRange")
    if values is not None and bounds is not None:
        raise Fault(place, "has both validValues and validRange")
    if policy.get("default") is None:
        if values is not None or bounds is not None:
            raise Fault(f"{place}.default", "is missing")
        return Capacity(str(whole))
    default = _quantity(f"{place}.default", policy["default"])
    _no_more(f"{place}.default", default, whole, "the value")
    if values is not None:
        return Capacity(str(whole), str(default), _valid_values(place, values, default, whole))
    if bounds is not None:
        return Capacity(str(whole), str(default), valid_range=_valid_range(place, bounds, default, whole))
    return Capacity(str(whole), str(default))


def _valid_values(place: str, given: Any, default: Quantity, whole: Quantity) -> tuple[str, ...]:
    spot = f"{place}.validValues"
    if not isinstance(given, list) or not 0 < len(given) <= MOST_VALID_VALUES:
        raise Fault(spot, f"is not a list of 1 to {MOST_VALID_VALUES} quantities")
    values = [_quantity(f"{spot}[{position}]", one) for position, one in enumerate(given)]
    for position, one in enumerate(values):
        _no_more(f"{spot}[{position}]", one, whole, "the value")
        if position and one.nanos <= values[position - 1].nanos:
            raise Fault(f"{spot}[{position}]", "is not larger than the one before it")
    if default.nanos not in {one.nanos for one in values}:
        raise Fault(f"{place}.default", "is not one of validValues")
    return tuple(str(one) for one in values)


def _valid_range(place: str, given: Any, default: Quantity, whole: Quantity) -> Range:
    spot = f"{place}.validRange"
    bounds = _mapping(spot, given, _RANGE)
    if bounds.get("min") is None:
        raise Fault(f"{spot}.min", "is missing")
    low = _quantity(f"{spot}.min", bounds["min"])
    high = _quantity(f"{spot}.max", bounds["max"]) if bounds.get("max") is not None else None
    step = _quantity(f"{spot}.step", bounds["step"]) if bounds.get("step") is not None else None
    _no_more(f"{spot}.min", low, default, "default")
    if high is not None:
        _no_more(f"{spot}.max", high, whole, "the value")
        _no_more(f"{place}.default", default, high, "validRange.max")
    if step is not None:
        _check_step(place, low, high, step, default, whole)
    return Range(str(low), str(high) if high is not None else "", str(step) if step is not None else "")


def _check_step(
    place: str, low: Quantity, high: Quantity | None, step: Quantity, default: Quantity, whole: Quantity
) -> None:
    spot = f"{place}.validRange"
    if step.nanos == 0:
        raise Fault(f"{spot}.step", "is not above zero")
    if low.nanos + step.nanos > whole.nanos:
        raise Fault(f"{spot}.step", "is too large: min and one step are more than the value")
    for where, one in ((f"{place}.default", default), (f"{spot}.max", high)):
        if one is not None and (one.nanos - low.nanos) % step.nanos:
            raise Fault(where, "is not min and a number of whole steps")


# -- parts -----------------------------------------------------------------------------------------------------------------


def _quantity(place: str, given: Any) -> Quantity:
    if isinstance(given, str) or config.whole(given):
        try:
            found = parse(str(given))
        except InputError:
            pass
        else:
            if found.nanos >= 0:
                return found
    raise Fault(place, "is not a quantity, as 80Gi, 1500m or 64, of at least 0")


def _no_more(place: str, one: Quantity, than: Quantity, name: str) -> None:
    if one.nanos > than.nanos:
        raise Fault(place, f"is more than {name}")


def _mapping(place: str, given: Any, keys: tuple[str, ...]) -> yamltext.Mapping:
    if not isinstance(given, yamltext.Mapping):
        raise Fault(place, "is not a mapping")
    _only(place, given, keys)
    return given


def _only(place: str, given: yamltext.Mapping, keys: tuple[str, ...]) -> None:
    """Nothing but these keys, each once: what is misspelt here would not be missed before somebody asks for too much."""
    config.refuse_repeated(place, given, keys)
    if given.keys() - set(keys):
        raise Fault(place, f"has another key than {', '.join(keys)}")
