"""Counts claims, pods, hand-overs and where they landed, and the fabric's attaches and detaches in a run.

It watches claims and pods by an ordinary client. A hand-over here is a claim that the condition FabricDeviceReschedule sent back
to the scheduler and that was then allocated again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dds_lab.actors.ledger import Ledger
from dds_lab.actors.objects import allocation_of, node_of, results
from dds_lab.client import Client, Object

RESCHEDULE = "FabricDeviceReschedule"


@dataclass
class Tally:
    """`claims`, `pods`: all that were created; `bound`: pods that got a node. `stayed`, `moved`: hand-overs that landed on the
    node with the attached device, or elsewhere; `waited`: hand-overs that wait for a pool device again."""

    claims: int = 0
    pods: int = 0
    bound: int = 0
    stayed: int = 0
    moved: int = 0
    waited: int = 0
    allocations: Counter[str] = field(default_factory=Counter)
    """Allocations of devices of a `pool` or of a `node`."""
    _signalled: dict[str, str] = field(default_factory=dict)  # claim uid → node with the attached device
    _handed: dict[str, str] = field(default_factory=dict)  # the same, once the allocation was cleared

    def follow(self, client: Client) -> None:
        client.mirror("resourceclaims").on_change(self._claim)
        client.mirror("pods").on_change(self._pod)

    @property
    def hand_overs(self) -> int:
        return self.stayed + self.moved

    def _pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        self.pods += old is None
        self.bound += bool(new["spec"].get("nodeName")) and not (old and old["spec"].get("nodeName"))

    def _claim(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._signalled.pop(old["metadata"]["uid"], None)
                self._handed.pop(old["metadata"]["uid"], None)
            return
        uid, allocation = new["metadata"]["uid"], allocation_of(new)
        self.claims += old is None
        if allocation is None:
            if uid in self._signalled:
                self._handed[uid] = self._signalled.pop(uid)
        elif allocation_of(old) != allocation:
            self._allocated(uid, new)
        if allocation is not None and _signalled(new):
            self._signalled[uid] = node_of(new)

    def _allocated(self, uid: str, claim: Object) -> None:
        in_pool = any(one.get("bindingConditions") for one in results(claim))
        self.allocations["pool" if in_pool else "node"] += 1
        ready = self._handed.pop(uid, None)
        if ready is not None:
            stayed = node_of(claim) == ready
            self.stayed += stayed
            self.moved += not stayed
            self.waited += in_pool


def _signalled(claim: Object) -> bool:
    entries = (claim.get("status") or {}).get("devices") or ()
    return any(
        one["type"] == RESCHEDULE and one["status"] == "True"
        for entry in entries
        for one in entry.get("conditions") or ()
    )


def moves(ledger: Ledger) -> dict[str, int]:
    """Number of done attaches and detaches, failed orders, and orders without an answer."""
    return {
        "attached": ledger.count("attach", "done"),
        "detached": ledger.count("detach", "done"),
        "failed": ledger.count("attach", "failed") + ledger.count("detach", "failed"),
        "unanswered": len(ledger.unanswered()),
    }
