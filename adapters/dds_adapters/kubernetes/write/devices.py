"""Writes to devices and nodes: when a device was last used, the operator's mark on one that is to go, the DeviceTaintRule that
keeps the scheduler from it meanwhile, and our labels of a node.

The annotations are the operator's own, whatever prefix the ConfigMap sets. A rule is made before the mark and never without our
label: one left behind would keep the scheduler from another device that gets the name.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.write.live_object import Ended, Live, Ref, Server, Write, decoded
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result
from dds_core.model import OWNER, OWNER_LABEL, DeviceKey

LAST_USED = "cohdi.io/last-used-time"
"""When a device was last used: by it the operator, and the reference scaler beside us, choose."""
RESOURCES = "composableresources"
RULES = "devicetaintrules"
MARK = "cohdi.io/delete-device"
MARKED = "true"
ONLINE = "Online"
RULE_SECONDS = 2.0
"""Until a rule of ours that is being deleted is looked at again."""
_SLUG = re.compile(r"[^a-z0-9]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: int, *, precise: bool = False) -> str:
    """An instant (microseconds) as the API writes it: whole seconds, or `precise` with six digits."""
    when = (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)
    return when.isoformat(timespec="microseconds" if precise else "seconds") + "Z"


@dataclass(frozen=True, slots=True)
class StampUse(Write):
    """UsedStamped; `when` is RFC 3339. A later use that stands there already is kept."""

    name: str
    uid: str
    when: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref("composableresources", self.name, uid=self.uid))
        if not _is_before(live.annotations.get(LAST_USED, ""), self.when):
            return Done(written=False)
        server.merge(live, {"metadata": {"annotations": {LAST_USED: self.when}}})
        return Done()


def _is_before(stamped: str, when: str) -> bool:
    """Whether what stands there is earlier, or no instant at all."""
    try:
        found = datetime.fromisoformat(stamped)
    except ValueError:
        return True
    return (found if found.tzinfo else found.replace(tzinfo=UTC)) < datetime.fromisoformat(when)


def rule_name(resource: str, key: DeviceKey) -> str:
    """The name of our rule for a device, from the name of its ComposableResource: another name of the device, another rule."""
    digest = hashlib.sha256("\0".join((resource, *key)).encode()).hexdigest()[:10]
    slug = _SLUG.sub("-", resource.lower()).strip("-")[:60].strip("-")
    return f"dds-{slug}-{digest}"


@dataclass(frozen=True, slots=True)
class MarkVictim(Write):
    """VictimMarked. `key` is the device as claims would name it; `taint` asks for a rule, with taint key `taint_key`."""

    name: str
    uid: str
    device_id: str
    key: DeviceKey
    taint: bool
    taint_key: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(RESOURCES, self.name, uid=self.uid))
        resource = decoded(decoding.fabric_resource, live)
        if resource.deleting or resource.state != ONLINE:
            return Obsolete(f"{live.ref} is {resource.state or 'new'}, or being deleted")
        if resource.uuid != self.device_id:
            return Obsolete(f"{live.ref} has another device by now")
        written = self.taint and self._tainted(server)
        if not resource.marked:
            server.merge(live, {"metadata": {"annotations": {MARK: MARKED}}})
            written = True
        return Done(written)

    def _tainted(self, server: Server) -> bool:
        """Have the rule there; whether it had to be made."""
        if not server.serves(RULES):
            raise Ended(Obsolete(f"{RULES} are not served any more"))
        ref = Ref(RULES, rule_name(self.name, self.key))
        live = server.listed(ref)
        if live is None:
            server.create(ref, self._rule(server, ref))
            return True
        if live.deleting:
            raise Ended(Later(f"{ref} is still being deleted", RULE_SECONDS))
        if live.labels.get(OWNER_LABEL) != OWNER or _key_of(live) != self.key:
            raise Ended(Declined(409, "AlreadyExists", f"{ref} is not ours, or for another device"))
        return False

    def _rule(self, server: Server, ref: Ref) -> dict[str, Any]:
        driver, pool, device = self.key
        return {
            "apiVersion": server.version_of(RULES),
            "kind": "DeviceTaintRule",
            "metadata": {"name": ref.name, "labels": {OWNER_LABEL: OWNER}},
            "spec": {
                "deviceSelector": {"driver": driver, "pool": pool, "device": device},
                "taint": {"key": self.taint_key, "effect": "NoSchedule"},
            },
        }


@dataclass(frozen=True, slots=True)
class UnmarkVictim(Write):
    """VictimUnmarked: the operator picks it no more than any other."""

    name: str
    uid: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(RESOURCES, self.name, uid=self.uid))
        if MARK not in live.annotations:
            return Done(written=False)
        server.merge(live, {"metadata": {"annotations": {MARK: None}}})
        return Done()


@dataclass(frozen=True, slots=True)
class LiftTaint(Write):
    """TaintLifted: delete the rule of that uid."""

    name: str
    uid: str

    def _once(self, server: Server) -> Result:
        if not server.serves(RULES):
            return Obsolete(f"{RULES} are not served any more")
        live = server.listed(Ref(RULES, self.name))
        if live is None or live.uid != self.uid or live.deleting:
            return Done(written=False)
        if live.labels.get(OWNER_LABEL) != OWNER:
            return Obsolete(f"{live.ref} is not ours any more")
        server.delete(live)
        return Done()


@dataclass(frozen=True, slots=True)
class LabelNode(Write):
    """NodeLabelled: each label with its value, None for one that has to go. Written only where they differ."""

    name: str
    uid: str
    labels: tuple[tuple[str, str | None], ...]

    def _once(self, server: Server) -> Result:
        live = server.get(Ref("nodes", self.name, uid=self.uid))
        changes = {key: value for key, value in self.labels if live.labels.get(key) != value}
        if not changes:
            return Done(written=False)
        server.merge(live, {"metadata": {"labels": changes}})
        return Done()


def _key_of(live: Live) -> DeviceKey | None:
    try:
        rule = decoding.taint_rule(live.raw)
    except Fault:
        return None
    return (rule.driver, rule.pool, rule.device)
