"""Writes to nodes for the autoscaler: delete the Node of a server that is gone; remove the start-up taint of a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dds_adapters.kubernetes.write.live_object import Ref, Server, Write
from dds_adapters.kubernetes.write.tasks import Done, Obsolete, Result
from dds_core.autoscaler.records import STARTING

NODES = "nodes"


@dataclass(frozen=True, slots=True)
class DeleteNode(Write):
    """NodeRemoved."""

    name: str
    uid: str

    def _once(self, server: Server) -> Result:
        live = server.find(Ref(NODES, self.name, uid=self.uid))
        if live is None or live.deleting:
            return Done(written=False)
        server.delete(live)
        return Done()


@dataclass(frozen=True, slots=True)
class OpenNode(Write):
    """NodeOpened: remove the taint with this key and effect, keep all others."""

    name: str
    uid: str

    def _once(self, server: Server) -> Result:
        live = server.get(Ref(NODES, self.name, uid=self.uid))
        taints = _taints(live.raw)
        if taints is None:
            return Obsolete(f"{live.ref} has taints that cannot be read")
        left = [taint for taint in taints if (taint.get("key"), taint.get("effect")) != _STARTING]
        if len(left) == len(taints):
            return Done(written=False)
        server.merge(live, {"spec": {"taints": left or None}})
        return Done()


_STARTING = (STARTING.key, STARTING.effect)


class _Spec(msgspec.Struct):
    taints: list[dict[str, Any]] | None = None


class _Node(msgspec.Struct):
    spec: _Spec | None = None


def _taints(raw: bytes) -> list[dict[str, Any]] | None:
    """The taints of a Node with all their fields; None if they cannot be read."""
    try:
        spec = msgspec.json.decode(raw, type=_Node).spec
    except ValueError:
        return None
    return (spec.taints or []) if spec is not None else []
