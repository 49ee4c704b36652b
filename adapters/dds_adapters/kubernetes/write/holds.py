"""The hold of a device that is to go back: a claim of ours that is allocated all its faces and belongs to its resource.

It is made while the devices are guarded, and they stay so until the guard is over: what a scheduler had decided before it knew of
the hold may be written late. It is cleared before it is deleted: the scheduler wakes the pods that wait when an allocation goes,
not when a claim does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.conditions import CLAIMS
from dds_adapters.kubernetes.write.exchange import LiftGuards, allocation_of
from dds_adapters.kubernetes.write.live_object import Live, Ref, Server, Write, decoded, live_of
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result
from dds_core.matching import allocator as matching
from dds_core.model import OWNER, OWNER_LABEL, DeviceKey

REQUEST = "device"
LATE_WRITES = 2.0
"""Seconds within which a scheduler writes what it had decided, and sees what became of a claim."""


@dataclass(frozen=True, slots=True)
class HoldDevice(Write):
    """DeviceHeld: `claim` is ours, owned by `owner`, and has these devices of the node."""

    claim: Ref
    owner: Ref
    devices: tuple[DeviceKey, ...]
    node: str

    def _once(self, server: Server) -> Result:
        live = server.find(self.claim)
        if live is None:
            live = live_of(self.claim, server.create(self.claim, self._body(server)))
        found = decoded(decoding.claim, live)
        if found.hold != self.owner.uid or found.deleting:
            return Declined(409, "AlreadyExists", f"{self.claim} is there, and is no hold of {self.owner}")
        if found.allocation is None:
            results = [matching.Result(REQUEST, device).to_object() for device in self.devices]
            status = {
                "allocation": allocation_of(results, [], self.node, None),
                "reservedFor": [self._reserved(server)],
            }
            server.merge(live, {"status": status}, "status")
            return Done()
        if {one.key for one in found.allocation.results} != set(self.devices):
            return Obsolete(f"{self.claim} holds other devices")
        return Done(written=False)

    def _body(self, server: Server) -> dict[str, Any]:
        """The claim asks for a DeviceClass that does not exist, and no pod refers to it: no scheduler allocates it."""
        asks = {"deviceClassName": guard.PROBE, "allocationMode": "ExactCount", "count": len(self.devices)}
        owner = {"apiVersion": server.version_of(self.owner.resource), "kind": "ComposableResource"}
        return {
            "apiVersion": server.version_of(CLAIMS),
            "kind": "ResourceClaim",
            "metadata": {
                "name": self.claim.name,
                "namespace": self.claim.namespace,
                "labels": {OWNER_LABEL: OWNER},
                "ownerReferences": [{**owner, "name": self.owner.name, "uid": self.owner.uid}],
            },
            "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": asks}]}},
        }

    def _reserved(self, server: Server) -> dict[str, str]:
        """No pod, so that the claim controller leaves it."""
        group = server.version_of(self.owner.resource).partition("/")[0]
        return {"apiGroup": group, "resource": self.owner.resource, "name": self.owner.name, "uid": self.owner.uid}


@dataclass(frozen=True, slots=True)
class EndHold(Write):
    """HoldEnded: the claim cleared, guards off, the claim deleted. `owner` is the uid of its ComposableResource. Without a
    namespace nothing is known to be there. `young`: a scheduler may have decided on the device before it knew of the hold, and
    write that only now. Its record of devices is a set, so the end of the hold, seen after that, would free the device for a
    third; hence the guard stays until both are over."""

    claim: Ref
    owner: str
    devices: tuple[DeviceKey, ...]
    young: bool = False

    def _once(self, server: Server) -> Result:
        if not self.claim.namespace:
            return Done(written=False)
        live = server.find(self.claim) if self.claim.name else None
        ours = live is not None and self._is_ours(live)
        if live is not None and ours and decoded(decoding.claim, live).allocation is not None:
            cleared = server.merge(live, {"status": {"allocation": None, "reservedFor": None}}, "status")
            live = live_of(self.claim, cleared)
            if self.young:
                server.delete(live)
                return Later(f"a scheduler may not know yet that {self.claim} was given up", LATE_WRITES)
        written = LiftGuards(self.claim.namespace, self.devices).lift(server)
        if live is not None and ours:
            server.delete(live)
        return Done(written or ours)

    def _is_ours(self, live: Live) -> bool:
        return decoded(decoding.claim, live).hold == self.owner
