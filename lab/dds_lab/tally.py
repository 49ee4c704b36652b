"""What came of a run, in numbers: claims, pods, hand-overs and where they landed, and what was moved on the fabric.

It watches claims and pods like anybody else. A hand-over is a claim that was sent back to the scheduler by
FabricDeviceReschedule and then allocated again.
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
    """`claims` and `pods` count what was ever made, `bound` the pods that got a node. `stayed` and `moved`: hand-overs
    that landed on the node that had been made ready, and elsewhere; `waited`: those of them that wait for a pool's device
    anew."""

    claims: int = 0
    pods: int = 0
    bound: int = 0
    stayed: int = 0
    moved: int = 0
    waited: int = 0
    allocations: Counter[str] = field(default_factory=Counter)
    """Allocations by what they are on: `pool` or `node`."""
    _signalled: dict[str, str] = field(default_factory=dict)  # claim uid → node that was made ready
    _handed: dict[str, str] = field(default_factory=dict)  # the same, once the allocation was cleared

    def follow(self, client: Client) -> None:
        """Count from now on."""
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
    """Attaches and detaches that were done, and orders that failed."""
    return {
        "attached": ledger.count("attach", "done"),
        "detached": ledger.count("detach", "done"),
        "failed": ledger.count("attach", "failed") + ledger.count("detach", "failed"),
        "unanswered": len(ledger.unanswered()),
    }
