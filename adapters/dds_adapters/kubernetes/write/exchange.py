"""The exchange: dds gives a waiting claim the attached device of its node in place of the pool device, while the scheduler waits.

First dds guards the devices: until the instant written in the ConfigMap `dds-guards`, an admission policy forbids all other users
to allocate them (so no guard outlives a stopped scaler). dds trusts a guard once the API server has refused a probe, a dry run by
dds. Then dds clears the allocation and sets the new one. These are two writes, because an allocation cannot be changed
(validation of resource.k8s.io); in between the scheduler finds none and keeps waiting. dds clears only if it can set the new
one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, field, structs

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.conditions import CLAIMS
from dds_adapters.kubernetes.write.devices import rfc3339
from dds_adapters.kubernetes.write.live_object import (
    MANAGER,
    Ended,
    Live,
    LiveWrite,
    Ref,
    Server,
    declined,
    decoded,
    live_of,
)
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result
from dds_core.errors import InputError
from dds_core.matching.results import choices, chosen_of, configuration, written
from dds_core.model import Allocation, Claim, Consumer, DeviceKey
from dds_core.model import Result as Given
from dds_core.scaler.events import Swap
from dds_core.scaler.model import ANY_VERSION, Pool, gather

MAPS = "configmaps"
CLASSES, SLICES = "deviceclasses", "resourceslices"
LONGEST_KEY = 253
"""Longest key of a ConfigMap (IsConfigMapKey)."""
NOT_GUARDED, NAME_TOO_LONG = "NotGuarded", "NameTooLong"
PROBES = 8
"""Probes in a row: the API server knows a new key within some ten milliseconds, the time of a few answers."""
PROBE_AGAIN = 0.05
LONG_OVER = (24 + 1) * 3_600_000_000
"""Microseconds. A guard lasts a day at most, so one that ends this long before the end of a new guard was left by a process that
is gone; it is removed with the next write."""
BEFORE = 1_000_000
"""Microseconds between a probe's allocationTimestamp and the guard's end: one second, the resolution of that field."""

Object = dict[str, Any]


# -- guards ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GuardDevices(LiveWrite):
    """ExchangeBegun: keep everyone else from these devices until the instant `until` (microseconds), and check that it works.

    It has no time limit of its own: the outbox ends it in time, with `not_guarded`."""

    namespace: str
    devices: tuple[DeviceKey, ...]
    until: int
    node: str

    def _once(self, server: Server) -> Result:
        if not self.devices:
            return Done(written=False)
        keys = [guard.key(*device) for device in self.devices]
        if any(len(key) > LONGEST_KEY for key in keys):
            return Declined(0, NAME_TOO_LONG, f"the names of a device make a key of more than {LONGEST_KEY} characters")
        guards, probe = (
            _there(server, _guards(self.namespace)),
            _there(server, Ref(CLAIMS, guard.PROBE, self.namespace)),
        )
        body = self._probing(probe)
        wanted = dict.fromkeys(keys, rfc3339(self.until, precise=True))
        standing = _data(guards)
        written = any(standing.get(key) != until for key, until in wanted.items())
        if written:  # only dds writes these keys, so changes of other keys do not matter
            over = {key: None for key, end in standing.items() if end < rfc3339(self.until - LONG_OVER, precise=True)}
            server.merge(guards, {"data": {**over, **wanted}}, unchanged=bool(over))
        for _ in range(PROBES):
            answer = server.merged_on_trial(probe, body, "status")
            if _is_refused_by_guard(answer):
                return Done(written)
            if answer.code >= 300:
                return _unexpected(answer)
        return Later("the API server does not guard the devices yet", PROBE_AGAIN)

    def _probing(self, probe: Live) -> Object:
        """An allocation of the first device, valid but for the guard. One write sets all keys, so one probe is enough."""
        driver, pool, device = self.devices[0]
        requests = list(choices(msgspec.json.decode(probe.raw)))
        if len(requests) != 1:
            raise Ended(Declined(0, NOT_GUARDED, f"{probe.ref} is to have one request"))
        result = written(Given(requests[0][0].request, driver, pool, device), {})
        return {"status": {"allocation": allocation_of([result], [], self.node, self.until - BEFORE)}}


def not_guarded(seconds: float) -> Declined:
    """The result for a guard that did not take effect within this time."""
    return Declined(
        0, NOT_GUARDED, f"the API server did not guard the devices within {seconds:g} s: see to policy {guard.NAME}"
    )


@dataclass(frozen=True, slots=True)
class LiftGuards(LiveWrite):
    """GuardLifted: everyone may be allocated these devices again."""

    namespace: str
    devices: tuple[DeviceKey, ...]

    def _once(self, server: Server) -> Result:
        return Done(self.lift(server))

    def lift(self, server: Server) -> bool:
        """Remove the guards; whether there were any."""
        guards = server.find(_guards(self.namespace))
        standing = _data(guards) if guards is not None else {}
        off = {key: None for device in self.devices if (key := guard.key(*device)) in standing}
        if guards is not None and off:
            server.merge(guards, {"data": off})
        return bool(off)


def _guards(namespace: str) -> Ref:
    return Ref(MAPS, guard.CONFIG_MAP, namespace)


def _there(server: Server, ref: Ref) -> Live:
    """An object that the installation brings; without it nothing can be guarded."""
    found = server.find(ref)
    if found is None:
        raise Ended(Declined(404, "NotFound", f"{ref} is not there: it comes with the installation of dds"))
    return found


class _Map(Struct):
    data: dict[str, str] | None = None


_map = msgspec.json.Decoder(_Map)


def _data(guards: Live) -> Mapping[str, str]:
    try:
        return _map.decode(guards.raw).data or {}
    except ValueError:
        raise Ended(Later(f"{guards.ref}: the answer is not a ConfigMap")) from None


def _is_refused_by_guard(answer: Answer) -> bool:
    """A policy's refusal has the status of its reason, by default 422; the message names the policy."""
    return answer.code in (403, 422) and f"ValidatingAdmissionPolicy '{guard.NAME}'".encode() in answer.body


def _unexpected(answer: Answer) -> Result:
    refusal = declined(answer)
    if answer.code == 409:
        return Later(f"{guard.PROBE} was changed")
    return Declined(refusal.code, refusal.reason, f"the guard cannot be probed: {refusal.text}")


# -- the two writes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClearAllocation(LiveWrite):
    """AllocationCleared: clear allocation and reservations of a claim that is still as it was decided on, if all results of
    `swap` can be made.

    A claim without allocation that is otherwise unchanged was cleared by dds, whose answer was lost. If the scheduler cleared it
    (after a failed binding), it allocates again and finds the new devices, or the claim's version has changed."""

    ref: Ref
    allocation: Allocation
    consumers: tuple[Consumer, ...]
    swap: Swap

    def _once(self, server: Server) -> Result:
        live, claim = _live_claim(server, self.ref)
        if not claim.protected:
            return Obsolete(f"{self.ref} has no finalizer {decoding.PROTECTION}")
        if claim.allocation is None and not claim.consumers:
            return Done(written=False, version=live.version)
        against = self._against(live, claim)
        if against:
            return Obsolete(f"{self.ref} {against}")
        before = {one.request for one in self.allocation.results}
        if decoding.config_digest(_config(server, live, before)) != claim.config:
            return Obsolete(f"{self.ref}: its configuration cannot be made anew")
        _given(server, live, self.swap)
        gone, whole = self._unlisted(server)
        if gone and not whole:
            return Later(f"{self.ref}: the slices that are to list {gone} are being published")
        if gone:
            return Obsolete(f"{self.ref}: {gone} is not listed any more")
        cleared = server.merge(live, {"status": {"allocation": None, "reservedFor": None}}, "status")
        return Done(version=live_of(self.ref, cleared).version)

    def _unlisted(self, server: Server) -> tuple[str, bool]:
        """A device of the new allocation that its driver no longer lists ("" if there is none), and whether its pool is complete.
        The slices in the state may be older than the claim, and a pod bound with a missing device never starts."""
        had = {one.key for one in self.allocation.results}
        new = [one for one in self.swap.results if one.key not in had]
        for driver, pool in sorted({one.key[:2] for one in new}):
            selected = f"spec.driver={driver}"
            there = _pool(server, pool, f"{selected},spec.nodeName={self.allocation.node}") or _pool(
                server, pool, selected
            )
            for one in new:
                if one.key[:2] == (driver, pool) and (there is None or one.device not in there.devices):
                    return one.device, there is None or there.usable
        return "", True

    def _against(self, live: Live, claim: Claim) -> str:
        """Why it may not be cleared; "" if it may."""
        if claim.allocation != self.allocation:
            return "is not allocated as it was"
        if claim.consumers != self.consumers:
            return "is not reserved as it was"
        staying = {one.key for one in self.swap.results} & {one.key for one in self.allocation.results}
        if staying & set(claim.told):
            return "has an entry for a device that stays"
        tellers = _tellers(live)
        if tellers - {MANAGER} or (claim.told and not tellers):
            return "has an entry of another manager"
        return ""


def _pool(server: Server, name: str, selected: str) -> Pool | None:
    """The pool of this name, from the readable slices that a field selector finds; None without any."""
    found = []
    for raw in server.list(SLICES, {"fieldSelector": selected}):
        with suppress(decoding.Fault):
            found.append(decoding.resource_slice(raw))
    return gather(one for one in found if one.pool == name)


@dataclass(frozen=True, slots=True)
class GiveDevices(LiveWrite):
    """DevicesGiven: set the allocation of `swap` on `node`, if the claim still has the version that the clearing left; if that is
    unknown (ANY_VERSION), if it has no allocation."""

    ref: Ref
    swap: Swap
    node: str
    version: str

    def _once(self, server: Server) -> Result:
        live, claim = _live_claim(server, self.ref)
        if claim.allocation is not None and self._is_given(claim.allocation):
            return Done(written=False, version=live.version)
        if claim.allocation is not None or self.version not in (live.version, ANY_VERSION):
            return Obsolete(f"{self.ref} was changed since its allocation was cleared")
        results, config = _given(server, live, self.swap)
        status = {
            "allocation": allocation_of(results, config, self.node, self.swap.timestamp),
            "reservedFor": [_consumer(one) for one in self.swap.consumers],
        }
        # No merge patch: it would drop the null values in a driver's parameters.
        given = server.replace(live, "/status", status, "status")
        return Done(version=live_of(self.ref, given).version)

    def _is_given(self, allocation: Allocation) -> bool:
        return allocation.node == self.node and _named(allocation.results) == _named(self.swap.results)


def _live_claim(server: Server, ref: Ref) -> tuple[Live, Claim]:
    live = server.get(ref)
    if live.deleting:
        raise Ended(Obsolete(f"{ref} is being deleted"))
    return live, decoded(decoding.claim, live)


def _named(results: tuple[Given, ...]) -> list[Given]:
    """Without the amounts, which the server may write in another form; a share has an identity of its own."""
    return [structs.replace(one, consumed={}) for one in results]


def _given(server: Server, live: Live, swap: Swap) -> tuple[list[Object], list[Object]]:
    """Results and config of `swap` as JSON. Raises Ended (Obsolete) if the claim does not request them, or if its configuration
    is not the one of the decision.

    If another alternative of a request is chosen than before, the configuration was not known at the decision."""
    config = _config(server, live, {one.request for one in swap.results})
    alternatives = any("/" in one.request for one in swap.results)
    if decoding.config_digest(config) != swap.config and (swap.config or not alternatives):
        raise Ended(Obsolete(f"{live.ref}: its configuration is not the one that was decided on"))
    asked = {one.name: one.asked for options in choices(msgspec.json.decode(live.raw)) for one in options}
    if not asked.keys() >= {one.request for one in swap.results}:
        raise Ended(Obsolete(f"{live.ref} does not ask for what it is to be given"))
    given = ((one, asked[one.request]) for one in swap.results)
    return [written(structs.replace(one, admin=bool(asks.get("adminAccess"))), asks) for one, asks in given], config


def _config(server: Server, live: Live, names: Collection[str]) -> list[Object]:
    """The configuration that the scheduler would write for results of these names (of requests, or request/alternative)."""
    try:
        asks = msgspec.json.decode(live.raw)
        needed = dict.fromkeys(one.asked.get("deviceClassName") or "" for one in chosen_of(asks, names))
        found = {name: server.listed(Ref(CLASSES, name)) for name in needed}
        classes = {name: msgspec.json.decode(one.raw) for name, one in found.items() if one is not None}
        config = configuration(asks, names, classes)
        msgspec.json.encode(config)
        return config
    except InputError as error:
        why = f" ({error.what})"
    except (ValueError, OverflowError):  # numbers that cannot be decoded or encoded
        why = ""
    raise Ended(Obsolete(f"{live.ref}: its configuration cannot be made anew{why}"))


def allocation_of(results: list[Object], config: list[Object], node: str, at: int | None) -> Object:
    """The JSON of an allocation on one node, made at the instant `at` (microseconds)."""
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results, **({"config": config} if config else {})},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        **({"allocationTimestamp": rfc3339(at)} if at is not None else {}),
    }


def _consumer(one: Consumer) -> Object:
    named = {"resource": one.resource, "name": one.name, "uid": one.uid}
    return {"apiGroup": one.group, **named} if one.group else named


# -- who has an entry in status.devices --------------------------------------------------------------------------------


class _StatusFields(Struct):
    devices: msgspec.Raw | UnsetType = field(name="f:devices", default=UNSET)


class _Fields(Struct):
    status: _StatusFields | None = field(name="f:status", default=None)


class _Manager(Struct):
    manager: str = ""
    fields: _Fields | None = field(name="fieldsV1", default=None)


class _Meta(Struct):
    managers: list[_Manager] | None = field(name="managedFields", default=None)


class _Managed(Struct):
    metadata: _Meta


_managed = msgspec.json.Decoder(_Managed)


def _tellers(live: Live) -> set[str]:
    """The managers that own an entry in status.devices. If dds wrote such an entry back, dds would own it, and the next apply of
    its manager would get a 409."""
    try:
        managers = _managed.decode(live.raw).metadata.managers or ()
    except ValueError:
        raise Ended(Obsolete(f"{live.ref}: it cannot be told who manages what of it")) from None
    return {
        one.manager
        for one in managers
        if one.fields is not None and one.fields.status is not None and one.fields.status.devices is not UNSET
    }
