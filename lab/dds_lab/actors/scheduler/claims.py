"""What the scheduler knows of claims: the informer's view, ahead of it what it wrote itself, and allocations in flight.

A device is in use while a claim is known to be allocated to it, or while an allocation of it is in flight. Source:
pkg/scheduler/framework/plugins/dynamicresources (dra_manager.go, dynamicresources.go).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dds_lab.actors import instants
from dds_lab.actors.scheduler.pods import Pod
from dds_lab.time import MICROSECONDS

Object = dict[str, Any]

READY, WAITING, FAILED, TIMED_OUT = "ready", "waiting", "failed", "timed out"
MOST_RESERVATIONS = 256


class Claims:
    """All claims by namespace/name. `use(uid, allocation)` and `free(uid)` are called as devices come into use and out of it."""

    def __init__(self, use: Callable[[str, Object], None], free: Callable[[str], None]) -> None:
        self._use = use
        self._free = free
        self._seen: dict[str, Object] = {}
        self._ahead: dict[str, Object] = {}
        self._in_flight: dict[str, Object] = {}
        self._counted: dict[str, Object] = {}

    def get(self, key: str) -> Object | None:
        """The claim as the scheduler believes it to be."""
        return self._ahead.get(key) or self._seen.get(key)

    def seen(self, key: str, new: Object | None) -> None:
        """The informer tells of a claim: its newest version, or that it is gone."""
        old = self.get(key)
        if new is None:
            self._seen.pop(key, None)
            self._ahead.pop(key, None)
        else:
            self._seen[key] = new
            ahead = self._ahead.get(key)
            if ahead is not None and (_uid(ahead) != _uid(new) or _version(ahead) <= _version(new)):
                del self._ahead[key]
        self._recount(old, self.get(key))

    def wrote(self, key: str, obj: Object) -> None:
        """The scheduler wrote the claim itself and knows the result before its informer does."""
        old = self.get(key)
        seen = self._seen.get(key)
        if seen is None or _version(obj) > _version(seen):
            self._ahead[key] = obj
        self._recount(old, self.get(key))

    def forget(self, key: str) -> None:
        """The scheduler deleted the claim itself."""
        self._ahead.pop(key, None)
        self._recount(self._seen.pop(key, None), None)

    def take_off(self, uid: str, allocation: Object) -> None:
        """An allocation was chosen and is not written yet."""
        self._in_flight[uid] = allocation
        self._count(uid, allocation)

    def land(self, uid: str, claim: Object | None) -> None:
        """The allocation in flight is written, as `claim` now says, or given up."""
        if self._in_flight.pop(uid, None) is not None:
            self._count(uid, _allocation(claim) if claim is not None else None)

    def in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def _recount(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or _uid(old) != _uid(new)):
            self._count(_uid(old), None)
        if new is not None:
            self._count(_uid(new), _allocation(new))

    def _count(self, uid: str, allocation: Object | None) -> None:
        allocation = self._in_flight.get(uid) or allocation
        counted = self._counted.get(uid)
        if allocation is counted or (allocation is not None and allocation == counted):
            return
        if counted is not None:
            self._free(uid)
            del self._counted[uid]
        if allocation is not None:
            self._use(uid, allocation)
            self._counted[uid] = allocation


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a pod may be bound as far as one claim goes; a failure names the condition that says so."""

    state: str
    reason: str = ""
    message: str = ""


def readiness(claim: Object, now: int, timeout: float) -> Readiness:
    """The first of the claim's devices, in the order of its results, that is not ready decides. `now` in microseconds."""
    allocation = _allocation(claim)
    for result in (allocation or {}).get("devices", {}).get("results") or ():
        wanted = result.get("bindingConditions")
        if not wanted:
            continue
        entry = _entry(claim, result)
        conditions = {one["type"]: one for one in (entry or {}).get("conditions") or ()}
        for name in result.get("bindingFailureConditions") or ():
            failure = conditions.get(name)
            if failure is not None and failure["status"] == "True":
                return Readiness(FAILED, failure.get("reason", ""), failure.get("message", ""))
        if any(conditions.get(name, {}).get("status") != "True" for name in wanted):
            return Readiness(TIMED_OUT if _is_late(allocation, now, timeout) else WAITING)
    return Readiness(READY)


def waits(claim: Object) -> bool:
    """Whether a device of the claim has binding conditions."""
    allocation = _allocation(claim) or {}
    return any(one.get("bindingConditions") for one in allocation.get("devices", {}).get("results") or ())


def is_reserved_for(claim: Object, pod: Pod) -> bool:
    return any(one["uid"] == pod.uid for one in reservations(claim))


def can_be_cleared(claim: Object, pod: Pod) -> bool:
    """Whether nobody else's pod holds it."""
    return all(one["uid"] == pod.uid for one in reservations(claim))


def reservations(claim: Object) -> list[Object]:
    return (claim.get("status") or {}).get("reservedFor") or []


def allocation_of(claim: Object) -> Object | None:
    """status.allocation."""
    return _allocation(claim)


def _allocation(claim: Object) -> Object | None:
    found: Object | None = (claim.get("status") or {}).get("allocation")
    return found


def _entry(claim: Object, result: Object) -> Object | None:
    """The first entry for the device; shareID is not compared."""
    for entry in (claim.get("status") or {}).get("devices") or ():
        if all(entry.get(name) == result.get(name) for name in ("driver", "pool", "device")):
            found: Object = entry
            return found
    return None


def _is_late(allocation: Object | None, now: int, timeout: float) -> bool:
    began = (allocation or {}).get("allocationTimestamp")
    return bool(began) and now > instants.read(str(began)) + timeout * MICROSECONDS


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
