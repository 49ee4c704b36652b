"""What we tell the scheduler of a claim's devices: our conditions, by server-side apply.

An apply replaces all that its manager applied before, so each carries the full set of our entries of the claim. A device's name
in a pool recurs; the allocation that was decided on is compared, and the version in the write keeps it compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.live_object import Ended, Live, Ref, Server, Write, decoded
from dds_adapters.kubernetes.write.tasks import Done, Obsolete, Result
from dds_core.model import RESCHEDULE, Allocation, Claim, DeviceKey, Pod
from dds_core.scaler.events import Entry

CLAIMS = "resourceclaims"


@dataclass(frozen=True, slots=True)
class Telling:
    """One claim, the allocation that the decision was made for, and the full set of our entries."""

    ref: Ref
    allocation: Allocation | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class TellClaims(Write):
    """HandOver and FailureSignalled: conditions on one claim, or on all of a group. `when` is RFC 3339.

    None is told when one of them has moved on: the scheduler would clear those that were told, for nothing."""

    claims: tuple[Telling, ...]
    when: str

    def _once(self, server: Server) -> Result:
        found = [(one, *claim_as_decided(server, one.ref, one.allocation)) for one in self.claims]
        written = False
        for telling, live, claim in found:
            if not _stands(telling, claim):
                server.apply(live, "ResourceClaim", {"status": {"devices": self._devices(telling)}}, "status")
                written = True
        return Done(written)

    def _devices(self, telling: Telling) -> list[dict[str, Any]]:
        devices: dict[tuple[str, ...], dict[str, Any]] = {}
        for entry in telling.entries:
            named = {"driver": entry.driver, "pool": entry.pool, "device": entry.device}
            shared = {"shareID": entry.share} if entry.share else {}
            device = devices.setdefault((*named.values(), entry.share), {**named, **shared, "conditions": []})
            device["conditions"].append(
                {
                    "type": entry.condition,
                    "status": "True",
                    "reason": entry.reason,
                    "message": entry.message,
                    "lastTransitionTime": self.when,
                }
            )
        return list(devices.values())


def claim_as_decided(server: Server, ref: Ref, allocation: Allocation | None) -> tuple[Live, Claim]:
    """The live claim; a write to one that is allocated otherwise by now is obsolete."""
    live = server.get(ref)
    claim = decoded(decoding.claim, live)
    if live.deleting:
        raise Ended(Obsolete(f"{ref} is being deleted"))
    if claim.allocation is None or claim.allocation != allocation:
        raise Ended(Obsolete(f"{ref} is not allocated as it was"))
    return live, claim


def _stands(telling: Telling, claim: Claim) -> bool:
    """Whether all of it is on the claim already."""
    there = {(c.driver, c.pool, c.device, c.share, c.type, c.reason) for c in claim.conditions if c.status == "True"}
    return all((e.driver, e.pool, e.device, e.share, e.condition, e.reason) in there for e in telling.entries)


# -- hand-over mode `clear` --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Signalled:
    """A claim, the allocation that is to be cleared, and its devices that carry our signal."""

    ref: Ref
    allocation: Allocation
    devices: frozenset[DeviceKey]


@dataclass(frozen=True, slots=True)
class SteerPod(Write):
    """Steered: nominate `node` for the pod and clear the allocations that we signalled, so that the scheduler allocates afresh
    and tries that node first.

    Done between a failed binding and the scheduler's next attempt, and at no other time: before, somebody still counts on the
    allocations; after, they are not those that we signalled. A claim that is cleared already was cleared by the scheduler."""

    pod: Ref
    node: str
    claims: tuple[Signalled, ...]

    def _once(self, server: Server) -> Result:
        standing = [live for one in self.claims if (live := _standing(server, one)) is not None]
        if not standing:
            return Done(written=False)
        live = server.get(self.pod)
        pod = decoded(decoding.pod, live)
        against = self._against(pod)
        if against:
            return Obsolete(f"{self.pod} {against}")
        if pod.nominated != self.node:
            server.merge(live, {"status": {"nominatedNodeName": self.node}}, "status")
        for claim in standing:
            server.merge(claim, {"status": {"allocation": None}}, "status")
        return Done()

    def _against(self, pod: Pod) -> str:
        """Why it is not the time any more, "" while it is."""
        if pod.node or pod.deleting:
            return f"is on {pod.node}" if pod.node else "is being deleted"
        if pod.waiting != "SchedulerError":
            return f"waits for another reason ({pod.waiting or 'none is told'})"
        if pod.nominated not in ("", self.node):
            return f"is nominated to {pod.nominated}"
        return ""


def _standing(server: Server, one: Signalled) -> Live | None:
    """The live claim that is to be cleared, None when it is cleared already."""
    live = server.get(one.ref)
    claim = decoded(decoding.claim, live)
    if claim.allocation is None:
        return None
    against = _against_clearing(one, claim)
    if against:
        raise Ended(Obsolete(f"{one.ref} {against}"))
    return live


def _against_clearing(one: Signalled, claim: Claim) -> str:
    if claim.deleting:
        return "is being deleted"
    if claim.allocation != one.allocation:
        return "is not allocated as it was"
    if claim.consumers:
        return "is reserved for a pod"
    if not {(*key, RESCHEDULE) for key in one.devices} <= claim.true_conditions:
        return "does not carry our signal any more"
    return ""
