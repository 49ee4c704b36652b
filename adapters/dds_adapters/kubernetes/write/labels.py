"""Labels of ours on a node, written only where they differ."""

from __future__ import annotations

from dataclasses import dataclass

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.write.live_object import Ref, Server, settle
from dds_adapters.kubernetes.write.tasks import Done, Result, Versions


@dataclass(frozen=True, slots=True)
class LabelNode:
    """NodeLabelled: each label with its value, None for one that has to go."""

    name: str
    uid: str
    labels: tuple[tuple[str, str | None], ...]

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return settle(self._once, api, versions)

    def _once(self, server: Server) -> Result:
        live = server.get(Ref("nodes", self.name, uid=self.uid))
        changes = {key: value for key, value in self.labels if live.labels.get(key) != value}
        if not changes:
            return Done(written=False)
        server.merge(live, {"metadata": {"labels": changes}})
        return Done()
