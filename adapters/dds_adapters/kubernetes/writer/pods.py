"""A question about a pod that is not watched any more, since it has a node: nothing is written, the answer goes where the watch's
news go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from dds_adapters.kubernetes import decode
from dds_adapters.kubernetes.arrivals import DELETED, MODIFIED
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.reading import Fault
from dds_adapters.kubernetes.writer.live_object import Ref, Server, settle
from dds_adapters.kubernetes.writer.tasks import Done, Result, Versions, Work

PODS = "pods"


class Outlet(Protocol):
    """Where the answer goes: `Arrivals`."""

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class AskPod:
    """What became of a pod: MODIFIED with what it is now, or DELETED when it is gone or its name is another's."""

    pod: Ref
    outlet: Outlet

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return settle(self._once, api, versions)

    def _once(self, server: Server) -> Result:
        live = server.find(self.pod)
        if live is None or live.uid != self.pod.uid:
            self.outlet.put(PODS, self.pod.uid, DELETED, _last_of(self.pod))
        elif not _waits(live.raw):  # of one that waits the watch tells, and nobody overtakes it with an older answer
            self.outlet.put(PODS, self.pod.uid, MODIFIED, live.raw)
        return Done(written=False)


def ask_pod(namespace: str, name: str, uid: str, outlet: Outlet) -> Work:
    return AskPod(Ref(PODS, name, namespace, uid), outlet)


def _last_of(pod: Ref) -> bytes:
    """Of an object that is gone only who it was is read."""
    meta = {"uid": pod.uid, "namespace": pod.namespace, "name": pod.name}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta})


def _waits(raw: bytes) -> bool:
    try:
        return not decode.pod(raw).node
    except Fault:  # those who take it say what is wrong with it
        return False
