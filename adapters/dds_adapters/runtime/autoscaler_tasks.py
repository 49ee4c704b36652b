"""The tasks of a committed decision of the autoscaler: orders to the provider of machines, changes of nodes, Kubernetes Events.

`tasks_of` runs on the thread that decides and makes no request; the writes further down are carried out by the writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from dds_adapters.fabric.provider import FabricDenied, FabricError, FabricRefused
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.write.events import EVENTS, POLICY_INVALID, Regarding, TellPeople, Type
from dds_adapters.kubernetes.write.live_object import LiveWrite, Ref, Server
from dds_adapters.kubernetes.write.tasks import (
    Declined,
    Done,
    Later,
    Obsolete,
    Result,
    Task,
    TaskTable,
    Versions,
    tasks_by,
)
from dds_adapters.machines.provider import CONFLICT, Machines, id_of_order
from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import FULL, STARTING
from dds_core.autoscaler.state import Fleet
from dds_core.events import Decision, Event


def tasks_of(decision: Decision, event_id: str, at: int, machines: Machines) -> tuple[Task, ...]:
    """The tasks of a decision, as in `write.tasks.tasks_by`. Servers are ordered from and returned to `machines`."""
    return tasks_by(_TABLE, decision, event_id, at, machines)


def _order(decision: e.ServerOrdered, at: int, machines: Machines) -> Task:
    return _server(ComposeServer(machines, decision.order, decision.group), decision.order)


def _give_back(decision: e.ServerReturned, at: int, machines: Machines) -> Task:
    server = decision.server or id_of_order(decision.group, decision.order)
    return _server(ReturnServer(machines, server), decision.order or decision.server)


def _remove(decision: e.NodeRemoved, at: int, machines: Machines) -> Task:
    return _node(DeleteNode(decision.node, decision.uid), decision.node, decision.uid)


def _open(decision: e.NodeOpened, at: int, machines: Machines) -> Task:
    return _node(OpenNode(decision.node, decision.uid), decision.node, decision.uid)


_TABLE: TaskTable[Machines] = {
    e.ServerOrdered: _order,
    e.ServerReturned: _give_back,
    e.NodeRemoved: _remove,
    e.NodeOpened: _open,
}


def _server(write: ComposeServer | ReturnServer, target: str) -> Task:
    thing = f"servers/{target}"
    return Task(write, (thing,), target=target, replaces=thing)


def _node(write: DeleteNode | OpenNode, name: str, uid: str) -> Task:
    thing = f"nodes/{name}"
    return Task(write, (thing,), target=uid, replaces=thing)


# -- Kubernetes Events -------------------------------------------------------------------------------------------------

_ADVICE = {"device": "DeviceWillDo", "server": "ServerNeeded", "nothing": "NothingWillDo"}


def announce(event: Event, at: int, state: Fleet, config_namespace: str) -> Iterator[Task]:
    """The Kubernetes Events for a fact or decision of the log at the instant `at` (microseconds): on a pod, what would let it
    run; on a node, that its group no longer contains it; on the ConfigMap, that no server came. None in mode `observe`."""
    if not state.live:
        return
    match event:
        case e.PodAdvised() if event.case:
            pod = state.cluster.loads.get(event.pod)
            if pod is not None:
                regarding = Regarding("Pod", "pods", pod.name, pod.uid, pod.namespace, "v1")
                yield _said(regarding, _ADVICE[event.case], "Advise", event.text, at, state)
        case e.GroupShown():
            for name in event.left:
                worker, why = state.worker(name), event.reasons.get(name)
                if worker is not None and why:
                    note = f"group {event.group} no longer contains it, so Cluster Autoscaler leaves it alone: {why}"
                    regarding = Regarding("Node", "nodes", name, worker.uid, "", "v1")
                    yield _said(regarding, "Withdrawn", "Withdraw", note, at, state)
        case e.OrderFailed():
            uid = state.config.uid
            regarding = Regarding("ConfigMap", "configmaps", config.NAME, uid, config_namespace, "v1")
            note = f"no server came for group {event.group} as {event.order}: {event.code}: {event.text}"
            yield _said(regarding, "ServerFailed", "Compose", note, at, state, "Warning", part=event.order)
        case e.Rejected() if event.uid == e.POLICY:
            regarding = Regarding("ConfigMap", "configmaps", config.NAME, state.config.uid, config_namespace, "v1")
            note = f"{event.field}; the last valid policy stays in force"
            yield _said(regarding, POLICY_INVALID, "Read", note, at, state, "Warning")


def _said(
    regarding: Regarding,
    reason: str,
    action: str,
    note: str,
    at: int,
    state: Fleet,
    type: Type = "Normal",
    part: str = "",
) -> Task:
    instance = f"dds-autoscaler-epoch-{state.process.epoch}"
    write = TellPeople(regarding, reason, action, note, type, at, instance, part=part)
    return Task(write, (f"{EVENTS}/{regarding.uid}/{part}",), at=at)


# -- calls to the provider of machines --------------------------------------------------------------------------------

DENIED, OUT_OF_RESOURCES, REFUSED = "Denied", "OutOfResources", "Refused"


class ServerWrite(ABC):
    """A call to a provider of machines. It may be repeated, because the provider knows orders and servers by name."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        try:
            self._ask()
        except FabricDenied as error:
            return Declined(403, DENIED, error.what)
        except FabricRefused as error:
            if error.code == CONFLICT:
                return Later(error.what)
            reason = OUT_OF_RESOURCES if error.code == FULL else error.reason or REFUSED
            return Declined(error.code, reason, error.what)
        except FabricError as error:
            return Later(error.what)
        return Done()

    @abstractmethod
    def _ask(self) -> None:
        """Raises FabricError."""


@dataclass(frozen=True, slots=True)
class ComposeServer(ServerWrite):
    """ServerOrdered."""

    machines: Machines
    order: str
    group: str

    def _ask(self) -> None:
        self.machines.compose(self.order, self.group)


@dataclass(frozen=True, slots=True)
class ReturnServer(ServerWrite):
    """ServerReturned; `server` is the provider's id."""

    machines: Machines
    server: str

    def _ask(self) -> None:
        self.machines.decompose(self.server)


# -- writes to nodes --------------------------------------------------------------------------------------------------

NODES = "nodes"


@dataclass(frozen=True, slots=True)
class DeleteNode(LiveWrite):
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
class OpenNode(LiveWrite):
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
