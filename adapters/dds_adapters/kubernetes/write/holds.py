"""The hold of a device before its detach: a claim of dds, owned by the ComposableResource and allocated all faces of the device.

It is made while the devices are guarded, and the guard stays until its end, since a scheduler that did not know of the hold may
write its allocation late. A hold is cleared before it is deleted: the scheduler retries waiting pods when an allocation is
cleared, not when a claim is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.conditions import CLAIMS
from dds_adapters.kubernetes.write.exchange import LiftGuards, allocation_of
from dds_adapters.kubernetes.write.live_object import LiveWrite, Ref, Server, decoded, live_of
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result
from dds_core.matching.results import written
from dds_core.model import OWNER, OWNER_LABEL, DeviceKey
from dds_core.model import Result as Given

REQUEST = "device"
LATE_WRITES = 2.0
"""Seconds within which a scheduler writes what it had decided, and sees a claim's change."""


@dataclass(frozen=True, slots=True)
class HoldDevice(LiveWrite):
    """DeviceHeld: make `claim` with `owner`, and allocate it these devices of the node."""

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
            results = [written(Given(REQUEST, *device), {}) for device in self.devices]
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
        """The claim requests a DeviceClass that does not exist, and no pod refers to it: no scheduler allocates it."""
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
        """Not a pod, so the claim controller leaves the claim alone."""
        group = server.version_of(self.owner.resource).partition("/")[0]
        return {"apiGroup": group, "resource": self.owner.resource, "name": self.owner.name, "uid": self.owner.uid}


@dataclass(frozen=True, slots=True)
class EndHold(LiveWrite):
    """HoldEnded: clear the claim, lift the guards, delete the claim. `owner` is the uid of its ComposableResource. Without a
    namespace no object is known to exist. `young`: a scheduler that did not know of the hold may still allocate the device. It
    records devices in a set, so the end of the hold, seen after that allocation, would free the device for a third claim; hence
    the guard stays until both are over."""

    claim: Ref
    owner: str
    devices: tuple[DeviceKey, ...]
    young: bool = False

    def _once(self, server: Server) -> Result:
        if not self.claim.namespace:
            return Done(written=False)
        live = server.find(self.claim) if self.claim.name else None
        ours = live is not None and decoded(decoding.claim, live).hold == self.owner
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
