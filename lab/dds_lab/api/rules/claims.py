"""ResourceClaim and ResourceClaimTemplate: defaults, checks of spec and status, and who may write which part of the status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.requests import GranularCheck
from dds_lab.api.rules import causes, devices, meta, parts
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

RESULTS = 32
RESULT_CONFIGS = 64
RESERVATIONS = 256
CONDITIONS = 8
ADDRESSES = 16
INTERFACE_LENGTH = 256
HARDWARE_LENGTH = 128
GRANULAR = "DRAResourceClaimGranularStatusAuthorization"
BINDING_FIELDS = "status.allocation or status.reservedFor"
REQUESTS = 32
SUBREQUESTS = 8
CONSTRAINTS = 32
TOLERATIONS = 16
MODES = ("All", "ExactCount")
EXACT = "ExactCount"
OF_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"


# -- the spec: requests, constraints, configuration, and their defaults


def defaulted(spec: Object) -> Object:
    """A claim's spec with its defaults: ExactCount, one device, tolerations with operator Equal."""
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


def names_of(spec: Object) -> dict[str, frozenset[str]]:
    """The names of the requests, each with the names of its subrequests."""
    requests = (spec.get("devices") or {}).get("requests") or ()
    return {
        request.get("name", ""): frozenset(sub.get("name", "") for sub in request.get("firstAvailable") or ())
        for request in requests
    }


def check(spec: Object, at: str) -> Iterator[Cause]:
    """Causes against a claim's spec."""
    claim = spec.get("devices") or {}
    known = names_of(spec)
    where = f"{at}.devices"
    yield from parts.each(claim.get("requests"), f"{where}.requests", REQUESTS, _request, "name")
    yield from parts.each(
        claim.get("constraints"), f"{where}.constraints", CONSTRAINTS, lambda item, spot: _constraint(item, spot, known)
    )
    yield from parts.each(
        claim.get("config"), f"{where}.config", devices.CONFIGS, lambda item, spot: _configuration(item, spot, known)
    )


def _request(request: Object, at: str) -> Iterator[Cause]:
    yield from parts.name(request.get("name") or "", f"{at}.name", names.dns_label)
    first, exactly = request.get("firstAvailable"), request.get("exactly")
    if first:
        yield from parts.each(first, f"{at}.firstAvailable", SUBREQUESTS, _subrequest, "name")
    if exactly is not None:
        yield from _exact(exactly, f"{at}.exactly")
    if first and exactly is not None:
        yield causes.invalid(at, None, f"{ONE_OF}, but multiple fields are set")
    if not first and exactly is None:
        yield causes.required(at, ONE_OF)


def _subrequest(request: Object, at: str) -> Iterable[Cause]:
    return [*parts.name(request.get("name") or "", f"{at}.name", names.dns_label), *_exact(request, at)]


def _exact(exact: Object, at: str) -> Iterator[Cause]:
    yield from parts.name(exact.get("deviceClassName") or "", f"{at}.deviceClassName", names.dns_subdomain)
    yield from devices.selectors(exact.get("selectors"), f"{at}.selectors")
    mode, count = exact.get("allocationMode") or "", exact.get("count", 0)
    if mode not in MODES:
        yield causes.not_supported(f"{at}.allocationMode", mode, MODES)
    elif mode == EXACT and count <= 0:
        yield causes.invalid(f"{at}.count", count, "must be greater than zero")
    elif mode != EXACT and count != 0:
        yield causes.invalid(f"{at}.count", count, "must not be specified when allocationMode is 'All'")
    yield from parts.each(exact.get("tolerations"), f"{at}.tolerations", TOLERATIONS, devices.toleration)
    for name in (exact.get("capacity") or {}).get("requests") or {}:
        yield from devices.qualified(name, f"{at}.capacity.requests[{name}]")


def _constraint(constraint: Object, at: str, known: dict[str, frozenset[str]]) -> Iterator[Cause]:
    yield from _references(constraint.get("requests"), f"{at}.requests", known)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        yield from devices.qualified(match, f"{at}.matchAttribute", with_domain=True)
    if distinct is not None:
        yield from devices.qualified(distinct, f"{at}.distinctAttribute", with_domain=True)
    one_of = "exactly one of `matchAttribute` or `distinctAttribute` is required"
    if match is None and distinct is None:
        yield causes.required(at, one_of)
    elif match is not None and distinct is not None:
        yield causes.invalid(at, constraint, f"{one_of}, but multiple fields are set")


def _configuration(given: Object, at: str, known: dict[str, frozenset[str]]) -> Iterable[Cause]:
    return [*_references(given.get("requests"), f"{at}.requests", known), *devices.configuration(given, at)]


def _references(given: list[str] | None, at: str, known: dict[str, frozenset[str]]) -> Iterator[Cause]:
    if given and len(given) > REQUESTS:
        yield causes.too_many(at, len(given), REQUESTS)
    for index, name in enumerate(given or ()):
        if not refers(name, known, main_too=True):
            yield causes.invalid(f"{at}[{index}]", name, OF_REQUEST)
    yield from parts.unique_texts(given or (), at)


def refers(name: Any, known: dict[str, frozenset[str]], main_too: bool) -> bool:
    """Whether `name` is that of a request or `request/subrequest`. Of a request with subrequests the name alone counts only
    with `main_too`."""
    request, slash, sub = str(name).partition("/")
    if request not in known:
        return False
    return sub in known[request] if slash else main_too or not known[request]


class _Fixed(BuiltIn):
    """A kind whose spec is immutable."""

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        if new.get("spec") is old.get("spec") or new.get("spec") == old.get("spec"):
            return []
        return [causes.immutable("spec", new.get("spec")), *self.check(new)]


class ResourceClaims(_Fixed):
    """Claims. Their spec is immutable; an allocation can only be cleared and then set anew."""

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec")
        if spec is None or (old is not None and spec is old.get("spec")):
            return obj
        made = defaulted(spec)
        return obj if made is spec else {**obj, "spec": made}

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        if old is None or subresource != "status" or new.get("status") is old.get("status"):
            return new
        status = _without_deallocated(new.get("status") or {}, old.get("status") or {})
        return new if status is new.get("status") else {**new, "status": status}

    def check(self, obj: Object) -> Iterable[Cause]:
        return check(obj.get("spec") or {}, "spec")

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        if subresource == "status":
            return _check_status(new, old)
        return super().check_change(new, old, subresource)

    def granular(self, new: Object, old: Object, subresource: str, verb: str) -> list[GranularCheck]:
        if subresource != "status" or not self.gates.on(GRANULAR):
            return []
        return _granular(new, old, verb)


class ResourceClaimTemplates(_Fixed):
    """Templates: an immutable claim's spec, and labels and annotations for the claims made from it."""

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        template = obj.get("spec") or {}
        if old is not None and obj.get("spec") is old.get("spec"):
            return obj
        made = defaulted(template.get("spec") or {})
        return obj if made is template.get("spec") else {**obj, "spec": {**template, "spec": made}}

    def check(self, obj: Object) -> Iterator[Cause]:
        template = obj.get("spec") or {}
        given = template.get("metadata") or {}
        yield from meta.labels(given.get("labels") or {}, "spec.metadata.labels")
        yield from meta.annotations(given.get("annotations") or {}, "spec.metadata.annotations")
        yield from check(template.get("spec") or {}, "spec.spec")


# -- the status


def _results(status: Object) -> list[Object]:
    allocation = status.get("allocation") or {}
    found: list[Object] = (allocation.get("devices") or {}).get("results") or []
    return found


def _without_deallocated(status: Object, before: Object) -> Object:
    """Remove the statuses of devices that this write takes out of the allocation, so that clients need not do it."""
    if not status.get("devices") or status.get("allocation") is before.get("allocation"):
        return status
    kept = {devices.identity(result) for result in _results(status)}
    gone = {devices.identity(result) for result in _results(before)} - kept
    left = [device for device in status["devices"] if devices.identity(device) not in gone]
    if len(left) == len(status["devices"]):
        return status
    made = {**status, "devices": left}
    if not left:
        del made["devices"]
    return made


def _check_status(new: Object, old: Object) -> Iterator[Cause]:
    status, before = new.get("status") or {}, old.get("status") or {}
    if status is before:
        return
    known = names_of(new.get("spec") or {})
    yield from _check_reservations(status, before, bool(new["metadata"].get("deletionTimestamp")))
    allocation, was = status.get("allocation"), before.get("allocation")
    if allocation is not None and was is None:
        yield from _check_allocation(allocation, "status.allocation", known)
    elif allocation is not None and allocation is not was and allocation != was:
        yield causes.immutable("status.allocation", allocation)
    yield from _check_devices(status, before)


def _check_reservations(status: Object, before: Object, deleting: bool) -> Iterator[Cause]:
    at, reserved = "status.reservedFor", status.get("reservedFor") or []
    was = before.get("reservedFor") or []
    if reserved is not was and reserved != was:
        yield from parts.each(reserved, at, RESERVATIONS, _reservation, "uid")
    if reserved and status.get("allocation") is None:
        yield causes.forbidden(at, "may not be specified when `allocated` is not set")
    elif deleting and any(entry not in was for entry in reserved):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield causes.forbidden(at, why)


def _reservation(entry: Object, at: str) -> Iterable[Cause]:
    return [causes.required(f"{at}.{key}") for key in ("resource", "name", "uid") if not entry.get(key)]


def _check_allocation(allocation: Object, at: str, known: dict[str, frozenset[str]]) -> Iterator[Cause]:
    given = allocation.get("devices") or {}
    yield from parts.each(
        given.get("results"), f"{at}.devices.results", RESULTS, lambda item, spot: _result(item, spot, known)
    )
    yield from parts.each(
        given.get("config"),
        f"{at}.devices.config",
        RESULT_CONFIGS,
        lambda item, spot: _result_config(item, spot, known),
    )
    if allocation.get("nodeSelector") is not None:
        yield from parts.node_selector(allocation["nodeSelector"], f"{at}.nodeSelector")


def _result(result: Object, at: str, known: dict[str, frozenset[str]]) -> Iterator[Cause]:
    if not refers(result.get("request") or "", known, main_too=False):
        yield causes.invalid(f"{at}.request", result.get("request") or "", OF_REQUEST)
    yield from devices.driver(result.get("driver") or "", f"{at}.driver")
    yield from devices.pool(result.get("pool") or "", f"{at}.pool")
    yield from devices.device(result.get("device") or "", f"{at}.device")
    yield from devices.binding(result, at)
    yield from parts.each(result.get("tolerations"), f"{at}.tolerations", TOLERATIONS, devices.toleration)
    yield from _share(result, at)


def _share(given: Object, at: str) -> Iterable[Cause]:
    share = given.get("shareID")
    return [] if share is None else causes.invalids(f"{at}.shareID", share, names.lower_uuid(share))


def _result_config(given: Object, at: str, known: dict[str, frozenset[str]]) -> Iterator[Cause]:
    yield from parts.choice(given.get("source"), f"{at}.source", ("FromClaim", "FromClass"))
    for index, name in enumerate(given.get("requests") or ()):
        if not refers(name, known, main_too=True):
            yield causes.invalid(f"{at}.requests[{index}]", name, OF_REQUEST)
    yield from devices.configuration(given, at)


def _check_devices(status: Object, before: Object) -> Iterator[Cause]:
    """A device's status must be of an allocated device, and each device has at most one."""
    given, was = status.get("devices") or [], before.get("devices") or []
    if not given or (given is was and status.get("allocation") is before.get("allocation")):
        return
    allocated = {devices.identity(result) for result in _results(status)}
    old = {devices.identity(device): device for device in was}
    seen: set[Any] = set()
    for index, device in enumerate(given):
        at, key = f"status.devices[{index}]", devices.identity(device)
        if key in seen:
            yield causes.duplicate(at, _shown(device))
        seen.add(key)
        if key not in allocated:
            yield causes.invalid(at, _shown(device), "must be an allocated device in the claim")
        if device is not old.get(key):
            yield from _device_status(device, at)


def _shown(device: Object) -> Object:
    names_of = (("Driver", "driver"), ("Pool", "pool"), ("Device", "device"), ("ShareID", "shareID"))
    return {shown: device.get(key) or "" for shown, key in names_of}


def _device_status(device: Object, at: str) -> Iterator[Cause]:
    yield from _share(device, at)
    if device.get("conditions"):
        yield from parts.conditions(device["conditions"], f"{at}.conditions", CONDITIONS)
    if device.get("data") is not None:
        yield from parts.raw(device["data"], f"{at}.data")
    network = device.get("networkData")
    if network:
        yield from _network(network, f"{at}.networkData")


def _network(network: Object, at: str) -> Iterator[Cause]:
    for key, most in (("interfaceName", INTERFACE_LENGTH), ("hardwareAddress", HARDWARE_LENGTH)):
        if len(network.get(key) or "") > most:
            yield causes.too_long(f"{at}.{key}", most)
    addresses = network.get("ips") or []
    if len(addresses) > ADDRESSES:
        yield causes.too_many(f"{at}.ips", len(addresses), ADDRESSES)
    yield from parts.unique_texts(addresses, f"{at}.ips")
    for index, address in enumerate(addresses):
        yield from parts.interface_address(address, f"{at}.ips[{index}]")


# -- who may write what


def _granular(new: Object, old: Object, verb: str) -> list[GranularCheck]:
    """Kubernetes 1.36: a write of allocation or reservations needs `resourceclaims/binding` (the scheduler has it); a write of
    a device's status needs `resourceclaims/driver` with the driver's name as the resource's (the driver has it)."""
    status, before = new.get("status") or {}, old.get("status") or {}
    found: list[GranularCheck] = []
    for key in ("allocation", "reservedFor"):
        if status.get(key) is not before.get(key) and status.get(key) != before.get(key):
            check = GranularCheck("resourceclaims/binding", (verb,), "", "", f"status.{key}", what=BINDING_FIELDS)
            found.append(check)
            break
    if status.get("allocation") is None or status.get("devices") is before.get("devices"):
        return found
    after = {devices.identity(device): device for device in status.get("devices") or ()}
    was = {devices.identity(device): device for device in before.get("devices") or ()}
    changed = {key[0] for key in {*after, *was} if after.get(key) != was.get(key)}
    node = _node_of(status["allocation"])
    verbs = (f"associated-node:{verb}", f"arbitrary-node:{verb}") if node else (f"arbitrary-node:{verb}",)
    namespace = new["metadata"].get("namespace", "")
    for driver in sorted(str(name) for name in changed):
        found.append(GranularCheck("resourceclaims/driver", verbs, driver, namespace, "status.devices", node))
    return found


def _node_of(allocation: Object) -> str:
    """The name of the node that an allocation is bound to, "" if it is not bound to one."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    fields = terms[0].get("matchFields") or [] if len(terms) == 1 else []
    if len(fields) != 1 or fields[0].get("key") != "metadata.name" or fields[0].get("operator") != "In":
        return ""
    values = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""
