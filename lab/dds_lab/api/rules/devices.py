"""DeviceClass and DeviceTaintRule; and what the kinds of resource.k8s.io share: drivers, pools, attributes, selectors,
configuration, binding conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

from dds_core.matching import cel
from dds_core.matching.errors import SelectorError
from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, parts
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

DRIVER_LENGTH = 63
POOL_LENGTH = 253
IDENTIFIER_LENGTH = 32
DOMAIN_LENGTH = 63
EXPRESSION_LENGTH = 10 * 1024
SELECTORS = 32
CONFIGS = 32
BINDING_CONDITIONS = 4
EFFECTS = ("NoExecute", "NoSchedule", "None")
CONDITIONS = 8
_EXTENDED = re.compile(r"[^/]+/[^/]+")


@lru_cache(maxsize=4096)
def selector_problem(expression: str) -> str:
    """Why the expression is no selector of devices; "" if it is one."""
    try:
        cel.compile(expression)
    except SelectorError as error:
        return f"compilation failed: {error}"
    return ""


toleration = partial(parts.toleration, effects=EFFECTS)
taint = partial(parts.taint, effects=EFFECTS)


def driver(value: str, at: str) -> Iterable[Cause]:
    if not value:
        return [causes.required(at)]
    if len(value) > DRIVER_LENGTH:
        return [causes.too_long(at, DRIVER_LENGTH)]
    return causes.invalids(at, value, names.dns_subdomain(value))


def pool(value: str, at: str) -> Iterable[Cause]:
    """DNS subdomains, separated by slashes."""
    if not value:
        return [causes.required(at)]
    if len(value) > POOL_LENGTH:
        return [causes.too_long(at, POOL_LENGTH)]
    return [cause for part in value.split("/") for cause in causes.invalids(at, part, names.dns_subdomain(part))]


def device(value: str, at: str) -> Iterable[Cause]:
    return parts.name(value, at, names.dns_label)


def qualified(value: str, at: str, with_domain: bool = False) -> Iterator[Cause]:
    """`[domain/]identifier` of an attribute or a capacity."""
    if not value:
        yield causes.required(at, "name required")
        return
    domain, slash, identifier = value.rpartition("/")
    if with_domain and not slash:
        yield causes.invalid(at, value, "must include a domain")
    if slash:
        if not domain:
            yield causes.invalid(at, domain, "the domain must not be empty")
        elif len(domain) > DOMAIN_LENGTH:
            yield causes.too_long(at, DOMAIN_LENGTH)
        else:
            yield from causes.invalids(at, domain, names.dns_subdomain(domain))
    if not identifier:
        yield causes.invalid(at, identifier, "the name must not be empty")
    elif len(identifier) > IDENTIFIER_LENGTH:
        yield causes.too_long(at, IDENTIFIER_LENGTH)
    else:
        yield from causes.invalids(at, identifier, names.c_identifier(identifier))


def selectors(given: list[Object] | None, at: str) -> Iterable[Cause]:
    return parts.each(given, at, SELECTORS, _selector)


def _selector(given: Object, at: str) -> Iterable[Cause]:
    if given.get("cel") is None:
        return [causes.required(f"{at}.cel")]
    expression = given["cel"].get("expression") or ""
    where = f"{at}.cel.expression"
    if not expression:
        return [causes.required(where)]
    if len(expression) > EXPRESSION_LENGTH:
        return [causes.too_long(where, EXPRESSION_LENGTH)]
    problem = selector_problem(expression)
    return [causes.invalid(where, expression, problem)] if problem else []


def configuration(given: Object, at: str) -> Iterator[Cause]:
    opaque = given.get("opaque")
    if opaque is None:
        yield causes.required(at, "exactly one field must be specified")
        return
    yield from driver(opaque.get("driver") or "", f"{at}.opaque.driver")
    yield from parts.raw(opaque.get("parameters"), f"{at}.opaque.parameters")


def binding(given: Object, at: str) -> Iterator[Cause]:
    """Binding conditions of a device or an allocation result: both lists or none, at most four each, no duplicates."""
    ready, failed = given.get("bindingConditions") or [], given.get("bindingFailureConditions") or []
    for field, listed in (("bindingConditions", ready), ("bindingFailureConditions", failed)):
        if len(listed) > BINDING_CONDITIONS:
            yield causes.too_many(f"{at}.{field}", len(listed), BINDING_CONDITIONS)
        for index, kind in enumerate(listed):
            yield from causes.invalids(f"{at}.{field}[{index}]", kind, names.qualified_name(kind))
        yield from parts.unique_texts(listed, f"{at}.{field}")
    for index, kind in enumerate(failed):
        if kind in ready:
            why = "bindingFailureConditions must not overlap with bindingConditions"
            yield causes.invalid(f"{at}.bindingFailureConditions[{index}]", kind, why)
    if ready and not failed:
        why = "bindingFailureConditions are required to use bindingConditions"
        yield causes.invalid(f"{at}.bindingFailureConditions", None, why)
    if failed and not ready:
        why = "bindingConditions are required to use bindingFailureConditions"
        yield causes.invalid(f"{at}.bindingConditions", None, why)


def identity(given: Object) -> tuple[Any, ...]:
    """Driver, pool, device and share of an allocation result or a device status."""
    return (given.get("driver"), given.get("pool"), given.get("device"), given.get("shareID"))


class DeviceClasses(BuiltIn):
    """A change of a class does not affect existing allocations."""

    counted = True

    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        yield from selectors(spec.get("selectors"), "spec.selectors")
        yield from parts.each(spec.get("config"), "spec.config", CONFIGS, configuration)
        name = spec.get("extendedResourceName")
        if name is not None and not _is_extended(name):
            yield causes.invalid("spec.extendedResourceName", name, "must be a valid extended resource name")

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        return [] if new.get("spec") is old.get("spec") else self.check(new)


def _is_extended(name: str) -> bool:
    """`domain/name` outside Kubernetes' own domains, short enough for the name `requests.domain/name` of a quota."""
    domain = name.split("/")[0]
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests.")
    return bool(_EXTENDED.fullmatch(name)) and not own and not names.qualified_name(f"requests.{name}")


class DeviceTaintRules(BuiltIn):
    """Taints that an administrator puts on devices. An empty selector means every device, no selector none."""

    counted = True

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec") or {}
        taint, second = spec.get("taint"), self.second()
        if not taint or taint.get("timeAdded") or not second or (old is not None and spec is old.get("spec")):
            return obj
        return {**obj, "spec": {**spec, "taint": {**taint, "timeAdded": second}}}

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        """A new effect counts from now on, unless its writer said since when."""
        spec, second = new.get("spec") or {}, self.second()
        taint, before = spec.get("taint") or {}, ((old or {}).get("spec") or {}).get("taint") or {}
        same_effect = taint.get("effect") == before.get("effect")
        if old is None or not second or same_effect or taint.get("timeAdded") != before.get("timeAdded"):
            return new
        return {**new, "spec": {**spec, "taint": {**taint, "timeAdded": second}}}

    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        selector = spec.get("deviceSelector")
        if selector is not None:
            for key, test in (("driver", driver), ("pool", pool), ("device", device)):
                if selector.get(key) is not None:
                    yield from test(selector[key], f"spec.deviceSelector.{key}")
        yield from taint(spec.get("taint") or {}, "spec.taint")

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        if subresource == "status":
            conditions = (new.get("status") or {}).get("conditions") or []
            return parts.conditions(conditions, "status.conditions", CONDITIONS)
        return [] if new.get("spec") is old.get("spec") else self.check(new)
