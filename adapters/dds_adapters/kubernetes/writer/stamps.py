"""When a device was last used, on its ComposableResource: by it the operator, and the reference scaler beside us, choose."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.writer.live_object import Ref, Server, settle
from dds_adapters.kubernetes.writer.tasks import Done, Result, Versions

LAST_USED = "cohdi.io/last-used-time"
"""The operator's own annotation, whatever prefix the ConfigMap sets."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: int, *, precise: bool = False) -> str:
    """An instant (microseconds) as the API writes it: whole seconds, or `precise` with six digits."""
    when = (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)
    return when.isoformat(timespec="microseconds" if precise else "seconds") + "Z"


@dataclass(frozen=True, slots=True)
class StampUse:
    """UsedStamped; `when` is RFC 3339. A later use that stands there already is kept."""

    name: str
    uid: str
    when: str

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return settle(self._once, api, versions)

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
