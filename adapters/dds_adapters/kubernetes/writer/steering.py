"""Hand-over mode `clear`: the node is nominated for the pod, then the allocations that we signalled are cleared, so that the
scheduler allocates afresh and tries that node first.

It is done between a failed binding and the scheduler's next attempt, and at no other time: before, somebody still counts on the
allocations; after, they are not those that we signalled. A claim that is cleared already was cleared by the scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass

from dds_adapters.kubernetes import decode
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.reading import Fault
from dds_adapters.kubernetes.writer.conditions import read_claim
from dds_adapters.kubernetes.writer.live_object import Ended, Live, Ref, Server, settle
from dds_adapters.kubernetes.writer.tasks import Done, Obsolete, Result, Versions
from dds_core.model import RESCHEDULE, Allocation, Claim, DeviceKey, Pod


@dataclass(frozen=True, slots=True)
class Signalled:
    """A claim, the allocation that is to be cleared, and its devices that carry our signal."""

    ref: Ref
    allocation: Allocation
    devices: frozenset[DeviceKey]


@dataclass(frozen=True, slots=True)
class SteerPod:
    """Steered: nominate `node` for the pod and clear the claims."""

    pod: Ref
    node: str
    claims: tuple[Signalled, ...]

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return settle(self._once, api, versions)

    def _once(self, server: Server) -> Result:
        standing = [live for one in self.claims if (live := _standing(server, one)) is not None]
        if not standing:
            return Done(written=False)
        live, pod = _read_pod(server, self.pod)
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
    live, claim = read_claim(server, one.ref)
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


def _read_pod(server: Server, ref: Ref) -> tuple[Live, Pod]:
    live = server.get(ref)
    try:
        return live, decode.pod(live.raw)
    except Fault as fault:
        raise Ended(Obsolete(f"{ref} cannot be read ({fault})")) from None
