"""Checks of parts that several kinds have: lists, conditions, taints, tolerations, node selectors, raw JSON, amounts."""

import ipaddress
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes
from dds_lab.api.rules.meta import NameCheck
from dds_lab.api.status import Cause

REASON_LENGTH = 1024
MESSAGE_LENGTH = 32 * 1024
RAW_LENGTH = 10 * 1024
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
SELECTOR_OPERATORS = (*LABEL_OPERATORS, "Gt", "Lt")
STATUSES = ("False", "True", "Unknown")
OWN_DOMAIN = "kubernetes.io/"
WHOLE = frozenset({"pods"})


def each(
    items: Sequence[Any] | None, at: str, most: int, check: Callable[[Any, str], Iterable[Cause]], key: str = ""
) -> Iterator[Cause]:
    """Check every item: at most `most` of them, and no two with the same value of `key` (if given)."""
    if not items:
        return
    if len(items) > most:
        yield causes.too_many(at, len(items), most)
    seen: set[Any] = set()
    for index, item in enumerate(items):
        yield from check(item, f"{at}[{index}]")
        if key:
            value = item.get(key, "")
            if value in seen:
                yield causes.duplicate(f"{at}[{index}].{key}", value)
            seen.add(value)


def choice(value: str | None, at: str, known: Sequence[str]) -> list[Cause]:
    """A required value out of `known`."""
    if not value:
        return [causes.required(at)]
    return [] if value in known else [causes.not_supported(at, value, known)]


def unique_texts(items: Iterable[str], at: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item in seen:
            yield causes.duplicate(f"{at}[{index}]", item)
        seen.add(item)


def name(value: str, at: str, check: NameCheck, words: str = "") -> list[Cause]:
    """A required name."""
    return causes.invalids(at, value, check(value)) if value else [causes.required(at, words)]


def conditions(given: list[Object], at: str, most: int | None = None) -> Iterator[Cause]:
    """Standard conditions, one of each type."""
    if most is not None and len(given) > most:
        yield causes.too_many(at, len(given), most)
    seen: set[str] = set()
    for index, condition in enumerate(given):
        where = f"{at}[{index}]"
        kind = condition.get("type") or ""
        if kind in seen:
            yield causes.duplicate(f"{where}.type", kind)
        seen.add(kind)
        yield from _condition(condition, kind, where)


def _condition(condition: Object, kind: str, at: str) -> Iterator[Cause]:
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    yield from causes.invalids(f"{at}.type", kind, names.qualified_name(kind))
    if condition.get("status") not in STATUSES:
        yield causes.not_supported(f"{at}.status", condition.get("status") or "", STATUSES)
    if condition.get("observedGeneration", 0) < 0:
        why = "must be greater than or equal to zero"
        yield causes.invalid(f"{at}.observedGeneration", condition["observedGeneration"], why)
    if not condition.get("lastTransitionTime"):
        yield causes.required(f"{at}.lastTransitionTime", "must be set")
    if not reason:
        yield causes.required(f"{at}.reason", "must be set")
    else:
        yield from causes.invalids(f"{at}.reason", reason, names.condition_reason(reason))
        if len(reason) > REASON_LENGTH:
            yield causes.too_long(f"{at}.reason", REASON_LENGTH)
    if len(message) > MESSAGE_LENGTH:
        yield causes.too_long(f"{at}.message", MESSAGE_LENGTH)


def taint(given: Object, at: str, effects: Sequence[str]) -> Iterator[Cause]:
    yield from name(given.get("key") or "", f"{at}.key", names.qualified_name)
    yield from causes.invalids(f"{at}.value", given.get("value") or "", names.label_value(given.get("value") or ""))
    yield from choice(given.get("effect"), f"{at}.effect", effects)


def toleration(given: Object, at: str, effects: Sequence[str]) -> Iterator[Cause]:
    key, operator, value = (given.get(field) or "" for field in ("key", "operator", "value"))
    if key:
        yield from causes.invalids(f"{at}.key", key, names.qualified_name(key))
    if not key and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield causes.invalid(f"{at}.operator", operator, why)
    if operator in ("Equal", ""):
        yield from causes.invalids(f"{at}.value", value, names.label_value(value))
    elif operator == "Exists":
        if value:
            yield causes.invalid(f"{at}.value", value, "value must be empty when `operator` is 'Exists'")
    else:
        yield causes.not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
    if given.get("effect") and given["effect"] not in effects:
        yield causes.not_supported(f"{at}.effect", given["effect"], effects)


def node_selector(given: Object, at: str, single: bool = False) -> Iterator[Cause]:
    """`single` demands exactly one term."""
    terms = given.get("nodeSelectorTerms") or []
    where = f"{at}.nodeSelectorTerms"
    if not terms:
        yield causes.required(where, "must have at least one node selector term")
        return
    if single and len(terms) != 1:
        yield causes.invalid(where, terms, f"must have exactly one term, but has {len(terms)}")
    for index, term in enumerate(terms):
        for number, expression in enumerate(term.get("matchExpressions") or ()):
            yield from _requirement(expression, f"{where}[{index}].matchExpressions[{number}]")
        for number, expression in enumerate(term.get("matchFields") or ()):
            yield from _field_requirement(expression, f"{where}[{index}].matchFields[{number}]")


def label_selector(given: Object, at: str) -> Iterator[Cause]:
    for key, value in (given.get("matchLabels") or {}).items():
        yield from causes.invalids(f"{at}.matchLabels", key, names.qualified_name(key))
        yield from causes.invalids(f"{at}.matchLabels", value, names.label_value(value))
    for number, each in enumerate(given.get("matchExpressions") or ()):
        yield from _requirement(each, f"{at}.matchExpressions[{number}]", LABEL_OPERATORS)


def _requirement(given: Object, at: str, known: Sequence[str] = SELECTOR_OPERATORS) -> Iterator[Cause]:
    operator, values = given.get("operator") or "", given.get("values") or []
    if operator not in known:
        yield causes.invalid(f"{at}.operator", operator, "not a valid selector operator")
    elif operator in ("In", "NotIn") and not values:
        yield causes.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield causes.forbidden(f"{at}.values", why)
    elif operator in ("Gt", "Lt") and len(values) != 1:
        yield causes.required(f"{at}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    key = given.get("key") or ""
    yield from causes.invalids(f"{at}.key", key, names.qualified_name(key))
    for index, value in enumerate(values):
        yield from causes.invalids(f"{at}.values[{index}]", value, names.label_value(value))


def _field_requirement(given: Object, at: str) -> Iterator[Cause]:
    operator, values = given.get("operator") or "", given.get("values") or []
    if operator not in ("In", "NotIn"):
        yield causes.invalid(f"{at}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield causes.required(f"{at}.values", why)
    if given.get("key") != "metadata.name":
        yield causes.invalid(f"{at}.key", given.get("key") or "", "not a valid field selector key")
    for index, value in enumerate(values):
        yield from causes.invalids(f"{at}.values[{index}]", value, names.dns_subdomain(value))


def raw(value: Any, at: str) -> list[Cause]:
    """Free JSON: an object of at most 10 KiB."""
    if value is None:
        return [causes.required(at)]
    if len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) > RAW_LENGTH:
        return [causes.too_long(at, RAW_LENGTH)]
    if not isinstance(value, dict):
        return [causes.invalid(at, "<value omitted>", "parameters must be a valid JSON object")]
    return []


def interface_address(value: str, at: str) -> list[Cause]:
    """An IP address with its prefix length, in canonical form."""
    try:
        found = ipaddress.ip_interface(value) if "/" in value else None
    except ValueError:
        found = None
    if found is None:
        return [causes.invalid(at, value, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")]
    if found.with_prefixlen != value:
        return [causes.invalid(at, value, f'must be in canonical form ("{found.with_prefixlen}")')]
    return []


def is_extended(name: str) -> bool:
    """Whether a resource's name has a domain that is not Kubernetes' own."""
    return "/" in name and OWN_DOMAIN not in name and not name.startswith("requests.")


def amount(name: str, value: str, at: str) -> Iterator[Cause]:
    """The name and amount of a resource. Amounts are not negative; those of pods and extended resources are whole."""
    yield from causes.invalids(at, name, names.qualified_name(name))
    exact = names.nanos(value)
    if exact < 0:
        yield causes.invalid(at, value, "must be greater than or equal to 0")
    elif (name in WHOLE or is_extended(name)) and exact % names.NANO:
        yield causes.invalid(at, value, "must be an integer")
