"""What we tell the scheduler of a claim's devices: our conditions, by server-side apply.

An apply replaces all that its manager applied before, so each carries the full set of our entries of the claim. A device's name
in a pool recurs; the allocation that was decided on is compared, and the version in the write keeps it compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dds_adapters.kubernetes import decode
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.reading import Fault
from dds_adapters.kubernetes.writer.live_object import Ended, Live, Ref, Server, settle
from dds_adapters.kubernetes.writer.tasks import Done, Obsolete, Result, Versions
from dds_core.events import Entry
from dds_core.model import Allocation, Claim

CLAIMS = "resourceclaims"


@dataclass(frozen=True, slots=True)
class Telling:
    """One claim, the allocation that the decision was made for, and the full set of our entries."""

    ref: Ref
    allocation: Allocation | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class TellClaims:
    """HandOver and FailureSignalled: conditions on one claim, or on all of a group. `when` is RFC 3339.

    None is told when one of them has moved on: the scheduler would clear those that were told, for nothing."""

    claims: tuple[Telling, ...]
    when: str

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return settle(self._once, api, versions)

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
    live, claim = read_claim(server, ref)
    if live.deleting:
        raise Ended(Obsolete(f"{ref} is being deleted"))
    if claim.allocation is None or claim.allocation != allocation:
        raise Ended(Obsolete(f"{ref} is not allocated as it was"))
    return live, claim


def read_claim(server: Server, ref: Ref) -> tuple[Live, Claim]:
    live = server.get(ref)
    try:
        return live, decode.claim(live.raw)
    except Fault as fault:
        raise Ended(Obsolete(f"{ref} cannot be read ({fault})")) from None


def _stands(telling: Telling, claim: Claim) -> bool:
    """Whether all of it is on the claim already."""
    there = {(c.driver, c.pool, c.device, c.share, c.type, c.reason) for c in claim.conditions if c.status == "True"}
    return all((e.driver, e.pool, e.device, e.share, e.condition, e.reason) in there for e in telling.entries)
