"""Orders until their nodes are there, and servers until they are gone."""

from __future__ import annotations

from dds_core.autoscaler.events import NodeOpened, NodeRemoved, OrderFailed, ServerOrdered, ServerReturned, order_stream
from dds_core.autoscaler.records import STARTING, Server
from dds_core.autoscaler.state import Fleet, Work

TIMED_OUT = "ComposeTimeout"
"""Code of a failed order, beside the codes of providers."""


def follow(work: Work, name: str) -> None:
    """Check whether the order has failed, and whether it must be written again after a restart."""
    state = work.state
    order = state.orders.get(name)
    if order is None:
        return
    server = state.cluster.servers.get(state.cluster.server_for.get(name, ""))
    if order.over:
        if server is None:
            _again(work, ServerReturned, name, order.group, void=order.void)
        else:
            _give_late(work, name, order.group, server)
    elif order.code:
        return
    elif server is not None and server.state == "failed":
        _fail(work, name, server.code or "Failed", server.message, out_of_resources=server.out_of_resources)
    elif work.has_come(state.compose_due(name)):
        seconds = state.policy.compose_seconds
        _fail(work, name, TIMED_OUT, f"its node is not there after {seconds} s")
    elif server is None:
        _again(work, ServerOrdered, name, order.group)


def _give_late(work: Work, name: str, group: str, server: Server) -> None:
    """Give back the server that came of an order after the order was given up."""
    state = work.state
    worker = state.node_of(server)
    if server.uid not in state.leaving:
        node = worker.name if worker is not None else ""
        work.emit_once(ServerReturned(name, group, state.mode, server=server.uid, node=node), name)


def _fail(work: Work, name: str, code: str, text: str, *, out_of_resources: bool = False) -> None:
    order, mode = work.state.orders.rows[name], work.state.mode
    work.emit_once(OrderFailed(name, order.group, mode, code=code, text=text, out_of_resources=out_of_resources), name)


def _again(
    work: Work, kind: type[ServerOrdered | ServerReturned], name: str, group: str, *, void: bool = False
) -> None:
    """Write it again if the write failed, or a restart left its outcome open."""
    state = work.state
    if void or (kind.__name__, order_stream(name)) in state.notes.reissue:
        work.emit_once(kind(name, group, state.mode), name)


def give_back(work: Work, uid: str) -> None:
    """The next step for a server that must go: when it is gone, delete its Node."""
    state = work.state
    row, server = state.leaving.get(uid), state.cluster.servers.get(uid)
    if row is None:
        return
    order = server.order if server is not None else ""
    unseen = (ServerReturned.__name__, order_stream(order or uid)) in state.notes.reissue
    if server is not None and (row.void or unseen):
        work.emit_once(ServerReturned(order, row.group, state.mode, server=uid, node=row.node), order or uid)
    worker = state.worker(row.node)
    if server is None and worker is not None and not row.removing:
        work.emit_once(NodeRemoved(worker.name, worker.uid, state.mode), worker.uid)


def remove_startup_taint(work: Work, uid: str) -> None:
    """Remove the start-up taint of a node that has all labels of its group."""
    state = work.state
    worker = state.cluster.workers.get(uid)
    if worker is None or STARTING not in worker.taints or uid in state.opening:
        return
    server = state.server(worker)
    group = state.policy.group(server.group) if server is not None else None
    if group is not None and not lacking(state, worker.labels, group.template.labels):
        work.emit_once(NodeOpened(worker.name, worker.uid, state.mode), worker.uid)


def lacking(state: Fleet, labels: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """The labels of a fresh server that the node lacks."""
    return sorted(key for key, value in wanted.items() if labels.get(key) != value)
