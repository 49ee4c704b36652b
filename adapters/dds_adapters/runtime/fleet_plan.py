"""The tasks of a committed decision of the autoscaler: orders to the provider of machines, changes of nodes, Kubernetes Events.

Runs on the thread that decides. It makes no request.
"""

from __future__ import annotations

from collections.abc import Iterator

from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.write.events import EVENTS, Regarding, TellPeople, Type
from dds_adapters.kubernetes.write.nodes import DeleteNode, OpenNode
from dds_adapters.kubernetes.write.plan import Plans, planned
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.machines.orders import ComposeServer, ReturnServer
from dds_adapters.machines.provider import Machines, id_of_order
from dds_core.autoscaler import events as e
from dds_core.autoscaler.state import Fleet
from dds_core.events import Decision, Event


def plan(decision: Decision, event_id: str, at: int, state: Fleet, machines: Machines) -> tuple[Task, ...]:
    """The tasks of a decision, as in `write.plan.planned`. Servers are ordered from and returned to `machines`."""

    def order(one: e.ServerOrdered, at: int, state: Fleet) -> Task:
        return _server(ComposeServer(machines, one.order, one.group), one.order)

    def give_back(one: e.ServerReturned, at: int, state: Fleet) -> Task:
        server = one.server or id_of_order(one.group, one.order)
        return _server(ReturnServer(machines, server), one.order or one.server)

    plans: Plans[Fleet] = {
        e.ServerOrdered: order,
        e.ServerReturned: give_back,
        e.NodeRemoved: lambda one, at, state: _node(DeleteNode(one.node, one.uid), one.node, one.uid),
        e.NodeOpened: lambda one, at, state: _node(OpenNode(one.node, one.uid), one.node, one.uid),
    }
    return planned(plans, decision, event_id, at, state)


def _server(work: ComposeServer | ReturnServer, target: str) -> Task:
    thing = f"servers/{target}"
    return Task(work, (thing,), target=target, replaces=thing)


def _node(work: DeleteNode | OpenNode, name: str, uid: str) -> Task:
    thing = f"nodes/{name}"
    return Task(work, (thing,), target=uid, replaces=thing)


# -- Kubernetes Events -------------------------------------------------------------------------------------------------

_ADVICE = {"device": "DeviceWillDo", "server": "ServerNeeded", "nothing": "NothingWillDo"}


def announce(event: Event, at: int, state: Fleet, config_namespace: str) -> Iterator[Task]:
    """The Kubernetes Events for a fact or decision of the log at the instant `at` (microseconds): on a pod, what would let it
    run; on a node, that its group no longer contains it; on the ConfigMap, that no server came. None in mode `observe`."""
    if not state.live:
        return
    match event:
        case e.PodAdvised() if event.case:
            pod = state.loads.get(event.pod)
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
    instance = f"dds-autoscaler-epoch-{state.epoch}"
    work = TellPeople(regarding, reason, action, note, type, at, instance, part=part)
    return Task(work, (f"{EVENTS}/{regarding.uid}/{part}",), at=at)
