"""Writes of ComposabilityRequests: create one, raise or lower its size, stamp a new leader's epoch.

Ordering a device is not idempotent. dds orders only one device for one need because it sets a size only if the request is still
as compared. It lowers a size only if the operator can take nothing but the victims: marked ones, or ones without a device.
"""

from __future__ import annotations

from dataclasses import dataclass

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.write.live_object import Ended, LiveWrite, Ref, Server, decoded
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result
from dds_core.model import BEING_ATTACHED, OWNER, OWNER_LABEL, AttachRequest, FabricResource

REQUESTS = "composabilityrequests"
RESOURCES = "composableresources"
SIZE = "/spec/resource/size"
TERMINATING_SECONDS = 2.0
"""Until dds looks again at a request that is being deleted; the operator needs time for that."""


@dataclass(frozen=True, slots=True)
class RaiseRequest(LiveWrite):
    """AttachOrdered: set the size of the request; create it if there was none (`previous` is None). An order that takes back a
    larger one changes nothing on the server if the larger one was never written."""

    name: str
    uid: str
    type: str
    model: str
    node: str
    size: int
    previous: int | None
    epoch_key: str
    epoch: int
    force_detach: bool = False

    def _once(self, server: Server) -> Result:
        ref = Ref(REQUESTS, self.name, uid=self.uid)
        live = server.find(ref) if self.previous is None else server.get(ref)
        if live is None and not self.size:
            return Done(written=False)
        if live is None:
            server.create(ref, self._body(server))
            return Done()
        request = decoded(decoding.attach_request, live)
        if live.deleting:
            if self.previous is None:
                return Later(f"{ref} is still being deleted", TERMINATING_SECONDS)
            return Obsolete(f"{ref} is being deleted")
        if (request.type, request.model, request.node) != (self.type, self.model, self.node):
            if self.previous is None:
                return Declined(409, "AlreadyExists", f"{ref} is there for something else")
            return Obsolete(f"{ref} is for something else by now")
        if request.size >= self.size:
            return Done(written=False)
        if self._was_lowered(request.size):
            return Obsolete(f"{ref} was lowered to {request.size} by somebody")
        server.replace(live, SIZE, self.size)
        return Done()

    def _was_lowered(self, size: int) -> bool:
        """Whether someone else lowered the size, so that more would be attached than was ordered. If `size` is not above
        `previous`, the order takes a detach back, and dds itself set the lower size."""
        return self.previous is not None and size < self.previous < self.size

    def _body(self, server: Server) -> dict[str, object]:
        return {
            "apiVersion": server.version_of(REQUESTS),
            "kind": "ComposabilityRequest",
            "metadata": {
                "name": self.name,
                "labels": {OWNER_LABEL: OWNER},
                "annotations": {self.epoch_key: str(self.epoch)},
            },
            "spec": {
                "resource": {
                    "type": self.type,
                    "model": self.model,
                    "size": self.size,
                    "target_node": self.node,
                    "allocation_policy": "samenode",
                    **({"force_detach": True} if self.force_detach else {}),
                }
            },
        }


@dataclass(frozen=True, slots=True)
class LowerRequest(LiveWrite):
    """DetachOrdered: from `previous` to `size`, if only the victims (uids of ComposableResources) can be detached. `unattached`:
    the victims have no device yet. Without victims, `size` is the number of existing resources. `stranded`: those (uids) that are
    attaching with a device for long. The operator takes what is attaching without a device first, also if one has just come, then
    what is marked and Online, then what is stranded."""

    name: str
    uid: str
    size: int
    previous: int
    victims: frozenset[str]
    unattached: bool = False
    stranded: frozenset[str] = frozenset()

    def _once(self, server: Server) -> Result:
        ref = Ref(REQUESTS, self.name, uid=self.uid)
        live = server.get(ref)
        request = decoded(decoding.attach_request, live)
        if live.deleting:
            return Obsolete(f"{ref} is being deleted")
        if request.size == self.size:
            return Done(written=False)
        label = f"{decoding.MANAGED_BY}={self.name}"
        owned = [_resource(raw) for raw in server.list(RESOURCES, {"labelSelector": label})]
        against = self._against(request, owned)
        if against:
            return Obsolete(f"{ref}: {against}")
        server.replace(live, SIZE, self.size)
        return Done()

    def _against(self, request: AttachRequest, owned: list[FabricResource]) -> str:
        """Why not to lower it: the operator could detach another device, or none may be detached; "" if it is right."""
        if request.size != self.previous:
            return f"its size is {request.size}, not {self.previous}"
        staying = [one for one in owned if not one.leaving]
        if self.unattached:
            return self._against_calling_off(request, staying)
        attaching = {one.uid for one in owned if one.state in BEING_ATTACHED}
        if not attaching <= self.stranded or (attaching and not self.victims):
            return "a device of it is being attached, and would go first"
        if request.acted_size != request.size or not (request.state == "Running" or attaching):
            return "the operator is not done with it"
        if not self.victims:
            return "" if len(staying) == len(owned) == self.size else f"it has {len(staying)} devices, not {self.size}"
        if len(staying) != request.size:
            return f"it has {len(staying)} devices, not {request.size}"
        marked = {one.uid for one in staying if one.marked}
        if marked != self.victims or self.size != request.size - len(marked):
            return "the marked devices are not those that were to go"
        return ""

    def _against_calling_off(self, request: AttachRequest, staying: list[FabricResource]) -> str:
        if request.acted_size != request.size or len(staying) != request.size:
            return "the operator is not done with it"
        attaching = {one.uid: one for one in staying if one.state in BEING_ATTACHED}
        if not self.victims <= attaching.keys() or any(one.uuid or one.fabric_id for one in attaching.values()):
            return "a device has come for it by now"
        if self.size != request.size - len(self.victims):
            return "those that hang are not those that were to go"
        return ""


@dataclass(frozen=True, slots=True)
class StampEpoch(LiveWrite):
    """A new leader's mark on a request of dds: it changes the version, so that a late write of the previous leader fails."""

    name: str
    uid: str
    key: str
    epoch: int

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(REQUESTS, self.name, uid=self.uid))
        stamped = live.annotations.get(self.key, "")
        if stamped.isascii() and stamped.isdigit() and int(stamped) >= self.epoch:
            return Done(written=False)
        server.merge(live, {"metadata": {"annotations": {self.key: str(self.epoch)}}})
        return Done()


def _resource(raw: bytes) -> FabricResource:
    try:
        return decoding.fabric_resource(raw)
    except Fault as fault:
        raise Ended(Obsolete(f"a device of the request cannot be read ({fault})")) from None
