"""Reads the fabric's ConfigMap for the publisher: its device models, and what to publish of each of their devices.

An entry must be valid for the scaler too, so that both know the same models. The publisher's own keys are checked here as
strictly as by the API server, because one bad device would make it refuse the whole slice. A bad entry is reported, and its model
stays as before: a typing error must not take devices away. No fault quotes a value. docs/device-info.md explains every key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dds_adapters.kubernetes.decode import config, raw_objects
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_core.errors import InputError
from dds_core.matching import versions
from dds_core.matching.quantities import Quantity, parse
from dds_core.publisher.model import Attribute, Capacity, PoolConfig, PoolModel, Range

MOST_VALUES = 32
"""Most attributes and capacities of a device together (resource.k8s.io, Device)."""
MAX_IDENTIFIER = 32
MAX_DOMAIN = 63
MAX_TYPE = 63

TYPED = "attributes"
TEXTS = "dra-attributes"
CAPACITY = "capacity"
SHARED = "allow-multiple-allocations"
TYPE = "res-type"
KEYS = (TYPED, CAPACITY, SHARED, TYPE)
"""The keys of an entry that only the publisher reads; all are optional."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_KINDS = ("string", "int", "bool", "version")
_NAME = (
    f"has a name that is not [domain/]identifier, with an identifier of letters, digits and _, at most {MAX_IDENTIFIER}"
)


def read_pool_config(raw: bytes, previous: PoolConfig | None) -> tuple[PoolConfig, tuple[Fault, ...]]:
    """The configuration, and the faults of its parts. `previous` was in force. Raises Fault if the whole is unusable."""
    found = config.raw_config(raw)
    data = found.data or raw_objects.ConfigData()
    before = previous or PoolConfig(uid=found.metadata.uid)
    faults: list[Fault] = []
    prefix = config.or_before(faults, lambda: config.prefix_of(data.label_prefix), before.prefix)
    models, unread = before.models, before.unread
    try:
        good, bad = config.entries(data.device_info, pool_model)
        broken = [entry for _, entry in bad]
        models = (*good, *config.standing(broken, good, before.models))
        unread = config.strange(broken, before.models)
        faults.extend(fault for fault, _ in bad)
    except Fault as fault:
        unread = unread or previous is None
        faults.append(fault)
    mode, unknown = config.mode_of(data.mode)
    return PoolConfig(found.metadata.uid, prefix, models, mode, unread), (*faults, *unknown)


def pool_model(place: str, entry: Any) -> PoolModel:
    """An entry as the publisher reads it. Raises Fault."""
    base = config.model(place, entry)
    config.refuse_repeated(place, entry, KEYS)
    shared = _flag(f"{place}.{SHARED}", entry.get(SHARED))
    attributes = _attributes(place, base.driver, base.attributes, entry.get(TYPED))
    capacity = _capacities(f"{place}.{CAPACITY}", base.driver, entry.get(CAPACITY), shared)
    if len(attributes) + len(capacity) > MOST_VALUES:
        raise Fault(place, f"has more than {MOST_VALUES} attributes and capacities together")
    return PoolModel(
        index=base.index,
        model=base.model,
        device=base.device,
        driver=base.driver,
        type=_type(f"{place}.{TYPE}", entry.get(TYPE), base.type),
        attributes=attributes,
        capacity=capacity,
        shared=shared,
    )


def _flag(place: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise Fault(place, "is not true or false")
    return bool(value)


def _type(place: str, value: Any, asked: str) -> str:
    """The fabric's name of the type; by default the type of the operator's requests."""
    if value is None:
        return asked or PoolModel(0, "", "", "").type
    if not isinstance(value, str) or len(value) > MAX_TYPE or not _TYPE.fullmatch(value):
        raise Fault(place, f"is not a word of at most {MAX_TYPE} characters")
    return value


# -- attributes ----------------------------------------------------------------------------------------------------------


def _attributes(place: str, driver: str, texts: Mapping[str, str], typed: Any) -> dict[str, Attribute]:
    """The attributes of `dra-attributes` (text) and of `attributes` (typed)."""
    found: dict[str, Attribute] = {}
    seen: set[str] = set()
    for name, text in texts.items():
        _refuse_name(f"{place}.{TEXTS}", driver, name, seen)
        found[name] = Attribute(string=text)
    for name, value in _entries(f"{place}.{TYPED}", typed):
        _refuse_name(f"{place}.{TYPED}", driver, name, seen)
        found[name] = _attribute(f"{place}.{TYPED}.{name}", value)
    return found


def _attribute(place: str, value: Any) -> Attribute:
    if not isinstance(value, config.Mapping) or len(value) != 1 or value.repeated:
        raise Fault(place, f"is not a mapping of one type ({', '.join(_KINDS)}) to a value")
    ((kind, one),) = value.items()
    if kind == "string":
        return Attribute(string=_short(place, one, "put numbers in quotes"))
    if kind == "int":
        if not config.whole(one):
            raise Fault(place, "is not a whole number of 64 bits")
        return Attribute(integer=one)
    if kind == "bool":
        if not isinstance(one, bool):
            raise Fault(place, "is not true or false")
        return Attribute(boolean=one)
    if kind == "version":
        return Attribute(version=_version(place, one))
    raise Fault(place, f"is of a type that is not known (known: {', '.join(_KINDS)})")


def _version(place: str, value: Any) -> str:
    text = _short(place, value, "put it in quotes")
    try:
        versions.order(text)
    except InputError:
        raise Fault(place, "is not a semantic version (three numbers, as 1.2.3)") from None
    return text


def _short(place: str, value: Any, fix: str) -> str:
    if not isinstance(value, str) or len(value.encode()) > config.MAX_ATTRIBUTE:
        raise Fault(place, f"is not a text of at most {config.MAX_ATTRIBUTE} bytes ({fix})")
    return value


# -- capacities ----------------------------------------------------------------------------------------------------------


def _capacities(place: str, driver: str, given: Any, shared: bool) -> dict[str, Capacity]:
    found: dict[str, Capacity] = {}
    seen: set[str] = set()
    for name, value in _entries(place, given):
        _refuse_name(place, driver, name, seen)
        found[name] = capacity_of(f"{place}.{name}", value, shared)
    return found


# -- names ---------------------------------------------------------------------------------------------------------------


def _entries(place: str, given: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of an optional mapping."""
    if given is None:
        return
    if not isinstance(given, config.Mapping):
        raise Fault(place, "is not a mapping")
    if given.repeated:
        raise Fault(place, "gives a name twice")
    for name, value in given.items():
        if not _is_name(name):  # check it before it becomes part of a fault's place
            raise Fault(place, _NAME)
        yield name, value


def _refuse_name(place: str, driver: str, name: str, seen: set[str]) -> None:
    """Raise Fault for a name that the API refuses, or that was given before: without a domain it is in the driver's."""
    if not _is_name(name):
        raise Fault(place, _NAME)
    whole = name if "/" in name else f"{driver}/{name}"
    if whole in seen:
        raise Fault(f"{place}.{name}", "is given before (without a domain it is the driver's)")
    seen.add(whole)


def _is_name(name: str) -> bool:
    domain, slash, identifier = name.rpartition("/")
    if slash and (len(domain) > MAX_DOMAIN or not config.DNS_SUBDOMAIN.fullmatch(domain)):
        return False
    return len(identifier) <= MAX_IDENTIFIER and _IDENTIFIER.fullmatch(identifier) is not None


# -- a capacity ----------------------------------------------------------------------------------------------------------

MOST_VALID_VALUES = 10

_CAPACITY = ("value", "requestPolicy")
_POLICY = ("default", "validValues", "validRange")
_RANGE = ("min", "max", "step")


def capacity_of(place: str, given: Any, shared: bool) -> Capacity:
    """A capacity: a quantity, or a mapping with `value` and `requestPolicy`. Raises Fault."""
    if not isinstance(given, config.Mapping):
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


def _mapping(place: str, given: Any, keys: tuple[str, ...]) -> config.Mapping:
    if not isinstance(given, config.Mapping):
        raise Fault(place, "is not a mapping")
    _only(place, given, keys)
    return given


def _only(place: str, given: config.Mapping, keys: tuple[str, ...]) -> None:
    """Only these keys, each once. A misspelt key would otherwise go unnoticed until a claim requests too much."""
    config.refuse_repeated(place, given, keys)
    if given.keys() - set(keys):
        raise Fault(place, f"has another key than {', '.join(keys)}")
