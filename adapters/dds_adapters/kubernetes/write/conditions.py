"""Writes the conditions by which dds signals the scheduler on a claim's devices, by server-side apply.

An apply replaces all that its manager applied before, so each one carries all entries of dds for the claim. A device's name can
occur again in its pool; therefore dds compares the allocation, and the write carries the version that was compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.live_object import Ended, Live, LiveWrite, Ref, Server, decoded
from dds_adapters.kubernetes.write.tasks import Done, Obsolete, Result
from dds_core.model import RESCHEDULE, Allocation, Claim, DeviceKey, Pod
from dds_core.scaler.events import Entry

CLAIMS = "resourceclaims"


@dataclass(frozen=True, slots=True)
class Telling:
    """A claim, the allocation at the decision, and all entries of dds for it."""

    ref: Ref
    allocation: Allocation | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class TellClaims(LiveWrite):
    """HandOver and FailureSignalled: conditions on one claim, or on all of a group. `when` is RFC 3339.

    If one claim has changed, no condition is set: the scheduler would clear the signalled claims for nothing."""

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
    """The live claim. Raises Ended (Obsolete) if its allocation is not the one of the decision."""
    live = server.get(ref)
    claim = decoded(decoding.claim, live)
    if live.deleting:
        raise Ended(Obsolete(f"{ref} is being deleted"))
    if claim.allocation is None or claim.allocation != allocation:
        raise Ended(Obsolete(f"{ref} is not allocated as it was"))
    return live, claim


def _stands(telling: Telling, claim: Claim) -> bool:
    """Whether all entries are on the claim already."""
    there = {(c.driver, c.pool, c.device, c.share, c.type, c.reason) for c in claim.conditions if c.status == "True"}
    return all((e.driver, e.pool, e.device, e.share, e.condition, e.reason) in there for e in telling.entries)


# -- hand-over mode `clear` --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Signalled:
    """A claim, the allocation to clear, and its devices that carry dds's signal."""

    ref: Ref
    allocation: Allocation
    devices: frozenset[DeviceKey]


@dataclass(frozen=True, slots=True)
class SteerPod(LiveWrite):
    """Steered: nominate `node` for the pod and clear the signalled allocations, so that the scheduler allocates again and tries
    that node first.

    Right only between a failed binding and the scheduler's next attempt: before, the scheduler still uses the allocations; after,
    they are new ones. A claim without allocation was cleared by the scheduler."""

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
        """Why it is not the right time; "" if it is."""
        if pod.node or pod.deleting:
            return f"is on {pod.node}" if pod.node else "is being deleted"
        if pod.waiting != "SchedulerError":
            return f"waits for another reason ({pod.waiting or 'none is told'})"
        if pod.nominated not in ("", self.node):
            return f"is nominated to {pod.nominated}"
        return ""


def _standing(server: Server, one: Signalled) -> Live | None:
    """The live claim to clear; None if it is cleared already."""
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
