"""The ConfigMap as the publisher reads it: which device models the fabric has, and what is published of each of their devices.

An entry has to be good for the scaler too, so that both speak of the same models; what only the publisher reads is judged here,
so that the API server has nothing left to refuse: one bad device would keep its whole slice from being written. A bad entry is
named, and its model stays as it was, since a slip of the pen must not take devices away. Nothing here may quote a value.
docs/device-info.md explains every key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dds_adapters.kubernetes import config, objects, yamltext
from dds_adapters.kubernetes.publishing.capacities import capacity_of
from dds_adapters.kubernetes.reading import Fault
from dds_core.errors import InputError
from dds_core.matching import versions
from dds_core.publishing.model import Attribute, Capacity, PoolConfig, PoolModel

MOST_VALUES = 32
"""Attributes and capacities of a device together (resource.k8s.io, Device)."""
MAX_IDENTIFIER = 32
MAX_DOMAIN = 63
MAX_TYPE = 63

TYPED = "attributes"
TEXTS = "dra-attributes"
CAPACITY = "capacity"
SHARED = "allow-multiple-allocations"
TYPE = "res-type"
KEYS = (TYPED, CAPACITY, SHARED, TYPE)
"""The keys of an entry that the publisher alone reads; all may be left out."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_KINDS = ("string", "int", "bool", "version")
_NAME = (
    f"has a name that is not [domain/]identifier, with an identifier of letters, digits and _, at most {MAX_IDENTIFIER}"
)


def read_pool_config(raw: bytes, previous: PoolConfig | None) -> tuple[PoolConfig, tuple[Fault, ...]]:
    """The configuration, and what is wrong with parts of it. `previous` was in force. Raises Fault for the whole."""
    found = config.raw_config(raw)
    data = found.data or objects.ConfigData()
    before = previous or PoolConfig(uid=found.metadata.uid)
    faults: list[Fault] = []
    prefix, models, unread = before.prefix, before.models, before.unread
    try:
        prefix = config.prefix_of(data.label_prefix)
    except Fault as fault:
        faults.append(fault)
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
        type=_type(f"{place}.{TYPE}", entry.get(TYPE)),
        attributes=attributes,
        capacity=capacity,
        shared=shared,
    )


def _flag(place: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise Fault(place, "is not true or false")
    return bool(value)


def _type(place: str, value: Any) -> str:
    if value is None:
        return PoolModel(0, "", "", "").type
    if not isinstance(value, str) or len(value) > MAX_TYPE or not _TYPE.fullmatch(value):
        raise Fault(place, f"is not a word of at most {MAX_TYPE} characters")
    return value


# -- attributes ----------------------------------------------------------------------------------------------------------


def _attributes(place: str, driver: str, texts: Mapping[str, str], typed: Any) -> dict[str, Attribute]:
    """Those of `dra-attributes`, which are texts, and those of `attributes`, which say their type."""
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
    if not isinstance(value, yamltext.Mapping) or len(value) != 1 or value.repeated:
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
    """Names and values of a mapping that may be left out."""
    if given is None:
        return
    if not isinstance(given, yamltext.Mapping):
        raise Fault(place, "is not a mapping")
    if given.repeated:
        raise Fault(place, "gives a name twice")
    for name, value in given.items():
        if not _is_name(name):  # before it is part of a place: it may be anything
            raise Fault(place, _NAME)
        yield name, value


def _refuse_name(place: str, driver: str, name: str, seen: set[str]) -> None:
    """A name that the API refuses, or that stands for the same as one before it: no domain means the driver's own."""
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
