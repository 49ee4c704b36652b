"""The spec of resource claims and of their templates: requests, constraints, configuration, and their defaults."""

from typing import Any

from dds_adapters.lab.api import names
from dds_adapters.lab.api.kinds import Object
from dds_adapters.lab.api.rules import causes, devices, parts
from dds_adapters.lab.api.status import Cause

REQUESTS = 32
SUBREQUESTS = 8
CONSTRAINTS = 32
TOLERATIONS = 16
MODES = ("All", "ExactCount")
EXACT = "ExactCount"
ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"


# -- defaults ---------------------------------------------------------------------------------------------------


def defaulted(spec: Object) -> Object:
    """A claim's spec with its defaults: ExactCount, one device, tolerations that compare values."""
    claim = spec.get("devices") or {}
    requests = claim.get("requests")
    if not requests:
        return spec
    made = [_defaulted_request(request) for request in requests]
    if all(one is other for one, other in zip(made, requests, strict=True)):
        return spec
    return {**spec, "devices": {**claim, "requests": made}}


def _defaulted_request(request: Object) -> Object:
    changes: Object = {}
    if request.get("exactly") is not None:
        exactly = _defaulted_exact(request["exactly"])
        if exactly is not request["exactly"]:
            changes["exactly"] = exactly
    if request.get("firstAvailable"):
        changes["firstAvailable"] = [_defaulted_exact(part) for part in request["firstAvailable"]]
    return {**request, **changes} if changes else request


def _defaulted_exact(exact: Object) -> Object:
    changes: Object = {}
    mode = exact.get("allocationMode") or EXACT
    if not exact.get("allocationMode"):
        changes["allocationMode"] = EXACT
    if mode == EXACT and not exact.get("count"):
        changes["count"] = 1
    tolerations = exact.get("tolerations")
    if tolerations and not all(toleration.get("operator") for toleration in tolerations):
        changes["tolerations"] = [{**part, "operator": part.get("operator") or "Equal"} for part in tolerations]
    return {**exact, **changes} if changes else exact


# -- checks -----------------------------------------------------------------------------------------------------


def names_of(spec: Object) -> dict[str, frozenset[str]]:
    """Names of requests, each with those of its subrequests."""
    requests = (spec.get("devices") or {}).get("requests") or ()
    return {
        request.get("name", ""): frozenset(sub.get("name", "") for sub in request.get("firstAvailable") or ())
        for request in requests
    }


def check(spec: Object, at: str) -> list[Cause]:
    """A claim's spec."""
    claim = spec.get("devices") or {}
    known = names_of(spec)
    where = f"{at}.devices"
    found = parts.each(claim.get("requests"), f"{where}.requests", REQUESTS, _request, "name")
    found += parts.each(
        claim.get("constraints"), f"{where}.constraints", CONSTRAINTS, lambda item, spot: _constraint(item, spot, known)
    )
    found += parts.each(
        claim.get("config"), f"{where}.config", devices.CONFIGS, lambda item, spot: _configuration(item, spot, known)
    )
    return found


def _request(request: Object, at: str) -> list[Cause]:
    found = parts.name(request.get("name") or "", f"{at}.name", names.dns_label)
    first, exactly = request.get("firstAvailable"), request.get("exactly")
    if first:
        found += parts.each(first, f"{at}.firstAvailable", SUBREQUESTS, _subrequest, "name")
    if exactly is not None:
        found += _exact(exactly, f"{at}.exactly")
    if first and exactly is not None:
        found.append(causes.invalid(at, None, f"{ONE_OF}, but multiple fields are set"))
    if not first and exactly is None:
        found.append(causes.required(at, ONE_OF))
    return found


def _subrequest(request: Object, at: str) -> list[Cause]:
    return [*parts.name(request.get("name") or "", f"{at}.name", names.dns_label), *_exact(request, at)]


def _exact(exact: Object, at: str) -> list[Cause]:
    found = parts.name(exact.get("deviceClassName") or "", f"{at}.deviceClassName", names.dns_subdomain)
    found += devices.selectors(exact.get("selectors"), f"{at}.selectors")
    mode, count = exact.get("allocationMode") or "", exact.get("count", 0)
    if mode not in MODES:
        found.append(causes.not_supported(f"{at}.allocationMode", mode, MODES))
    elif mode == EXACT and count <= 0:
        found.append(causes.invalid(f"{at}.count", count, "must be greater than zero"))
    elif mode != EXACT and count != 0:
        found.append(causes.invalid(f"{at}.count", count, "must not be specified when allocationMode is 'All'"))
    found += parts.each(exact.get("tolerations"), f"{at}.tolerations", TOLERATIONS, devices.toleration)
    for name in (exact.get("capacity") or {}).get("requests") or {}:
        found += devices.qualified(name, f"{at}.capacity.requests[{name}]")
    return found


def _constraint(constraint: Object, at: str, known: dict[str, frozenset[str]]) -> list[Cause]:
    found = _references(constraint.get("requests"), f"{at}.requests", known)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        found += devices.qualified(match, f"{at}.matchAttribute", with_domain=True)
    if distinct is not None:
        found += devices.qualified(distinct, f"{at}.distinctAttribute", with_domain=True)
    one_of = "exactly one of `matchAttribute` or `distinctAttribute` is required"
    if match is None and distinct is None:
        found.append(causes.required(at, one_of))
    elif match is not None and distinct is not None:
        found.append(causes.invalid(at, constraint, f"{one_of}, but multiple fields are set"))
    return found


def _configuration(given: Object, at: str, known: dict[str, frozenset[str]]) -> list[Cause]:
    return [*_references(given.get("requests"), f"{at}.requests", known), *devices.configuration(given, at)]


def _references(given: list[str] | None, at: str, known: dict[str, frozenset[str]]) -> list[Cause]:
    found: list[Cause] = []
    if given and len(given) > REQUESTS:
        found.append(causes.too_many(at, len(given), REQUESTS))
    for index, name in enumerate(given or ()):
        if not refers(name, known, main_too=True):
            why = (
                "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
            )
            found.append(causes.invalid(f"{at}[{index}]", name, why))
    return found + parts.unique_texts(given or (), at)


def refers(name: Any, known: dict[str, frozenset[str]], main_too: bool) -> bool:
    """Whether `name` is that of a request, or `request/subrequest`; a request with subrequests counts itself only if
    `main_too`."""
    request, slash, sub = str(name).partition("/")
    if request not in known:
        return False
    return sub in known[request] if slash else main_too or not known[request]
