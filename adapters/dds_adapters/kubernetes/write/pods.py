"""Gets a pod that is no longer watched because it has a node. Writes nothing; the answer goes to the queue of watch events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from dds_adapters.kubernetes.decode import decoding
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.watch.delta_queue import DELETED, MODIFIED
from dds_adapters.kubernetes.write.live_object import Live, LiveWrite, Ref, Server
from dds_adapters.kubernetes.write.tasks import Done, Result, Write
from dds_core.model import FINISHED, Pod

PODS = "pods"


class Sink(Protocol):
    """Where the answer goes: `DeltaQueue`."""

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class AskPod(LiveWrite):
    """Puts MODIFIED with the pod as it is now, or DELETED if it is gone, has finished, or its name belongs to another pod. A
    finished pod counts as gone because its deletion would not be seen."""

    pod: Ref
    outlet: Sink

    def _once(self, server: Server) -> Result:
        live = server.find(self.pod)
        found = _read(live) if live is not None and live.uid == self.pod.uid else None
        if live is None or live.uid != self.pod.uid or (found is not None and found.node and found.phase in FINISHED):
            tell_gone(self.pod.namespace, self.pod.name, self.pod.uid, self.outlet)
        elif found is None or found.node:  # a pod without node is watched: an older answer must not follow newer events
            self.outlet.put(PODS, self.pod.uid, MODIFIED, live.raw)
        return Done(written=False)


def ask_pod(namespace: str, name: str, uid: str, outlet: Sink) -> Write:
    return AskPod(Ref(PODS, name, namespace, uid), outlet)


def tell_gone(namespace: str, name: str, uid: str, outlet: Sink) -> None:
    """Put DELETED; of a deleted object only the identity is read."""
    meta = {"uid": uid, "namespace": namespace, "name": name}
    outlet.put(PODS, uid, DELETED, msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta}))


def _read(live: Live) -> Pod | None:
    try:
        return decoding.pod(live.raw)
    except Fault:  # the translator reports it
        return None
