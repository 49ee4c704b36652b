"""Writes to devices and nodes: a device's last use, the operator's mark for a detach, node labels of dds.

Mark and last use are annotations of the operator's own, whatever prefix the ConfigMap sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.write.live_object import Changed, LiveWrite, Ref, Server, decoded, last_writers
from dds_adapters.kubernetes.write.tasks import Done, Obsolete, Result

LAST_USED = "cohdi.io/last-used-time"
"""The operator, and a reference scaler that runs too, choose devices by this annotation."""
OPERATOR_LOOK = "dds.cohdi.io/look"
"""An annotation of dds on a ComposableResource: when it asked the operator to look at it (RFC 3339). The operator does not read
it; any change of the object makes it look."""
RESOURCES = "composableresources"
MARK = "cohdi.io/delete-device"
MARKED = "true"
ONLINE = "Online"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: int, *, precise: bool = False) -> str:
    """An instant (microseconds) as the API writes it: whole seconds, or `precise` with six digits."""
    when = (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)
    return when.isoformat(timespec="microseconds" if precise else "seconds") + "Z"


@dataclass(frozen=True, slots=True)
class StampUse(LiveWrite):
    """UsedStamped; `when` is RFC 3339. A later instant on the object is kept."""

    name: str
    uid: str
    when: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref("composableresources", self.name, uid=self.uid))
        if not _is_before(live.annotations.get(LAST_USED, ""), self.when):
            return Done(written=False)
        server.merge(live, {"metadata": {"annotations": {LAST_USED: self.when}}})
        return Done()


@dataclass(frozen=True, slots=True)
class NudgeOperator(LiveWrite):
    """Makes the operator look. `when` is RFC 3339. Written only while the resource is in the `state`: with an id if `named`, else
    without id and error. If others change it meanwhile, the operator looks anyway."""

    name: str
    uid: str
    when: str
    state: str
    named: bool

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(RESOURCES, self.name, uid=self.uid))
        resource = decoded(decoding.fabric_resource, live)
        on_its_way = resource.state == self.state and bool(resource.uuid) == self.named
        harms = not self.named and (resource.error or resource.deleting)
        if not on_its_way or harms or live.annotations.get(OPERATOR_LOOK) == self.when:
            return Done(written=False)
        try:
            server.merge(live, {"metadata": {"annotations": {OPERATOR_LOOK: self.when}}})
        except Changed:
            return Done(written=False)
        return Done()


def _is_before(stamped: str, when: str) -> bool:
    """Whether `stamped` is earlier, or no instant at all."""
    try:
        found = datetime.fromisoformat(stamped)
    except ValueError:
        return True
    return (found if found.tzinfo else found.replace(tzinfo=UTC)) < datetime.fromisoformat(when)


@dataclass(frozen=True, slots=True)
class MarkVictim(LiveWrite):
    """VictimMarked; `device_id` is the UUID that the resource must have."""

    name: str
    uid: str
    device_id: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(RESOURCES, self.name, uid=self.uid))
        resource = decoded(decoding.fabric_resource, live)
        if resource.deleting or resource.state != ONLINE:
            return Obsolete(f"{live.ref} is {resource.state or 'new'}, or being deleted")
        if resource.uuid != self.device_id:
            return Obsolete(f"{live.ref} has another device by now")
        if resource.marked:
            return Done(written=False)
        server.merge(live, {"metadata": {"annotations": {MARK: MARKED}}})
        return Done()


@dataclass(frozen=True, slots=True)
class UnmarkVictim(LiveWrite):
    """VictimUnmarked: the operator no longer prefers this device for a detach."""

    name: str
    uid: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(RESOURCES, self.name, uid=self.uid))
        if MARK not in live.annotations:
            return Done(written=False)
        server.merge(live, {"metadata": {"annotations": {MARK: None}}})
        return Done()


@dataclass(frozen=True, slots=True)
class LabelNode(LiveWrite):
    """NodeLabelled: each label with its value, None to remove it. Only differing labels are written. `again`: say who else writes
    the node."""

    name: str
    uid: str
    labels: tuple[tuple[str, str | None], ...]
    again: bool = False

    def _once(self, server: Server) -> Result:
        live = server.get(Ref("nodes", self.name, uid=self.uid))
        changes = {key: value for key, value in self.labels if live.labels.get(key) != value}
        if not changes:
            return Done(written=False)
        server.merge(live, {"metadata": {"labels": changes}})
        return Done(rivals=last_writers(live) if self.again else "")
