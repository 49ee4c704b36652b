"""The folds of observed objects, and of calls of Cluster Autoscaler."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import STARTING, Server
from dds_core.autoscaler.state import Fleet
from dds_core.events import Event
from dds_core.kit.work import Fold, config_observed, ending, gone, observed


def _asked(state: Fleet, event: Event, at: int) -> None:
    state.dirty.asked.append(event)


def _server_observed(state: Fleet, event: e.ObjectObserved, at: int) -> None:
    observed(state, event, at)
    _forget_served(state, state.cluster.servers.rows[event.uid])


def _server_gone(state: Fleet, event: e.ObjectGone, at: int) -> None:
    """Giving back ends with the Node. If a server went by itself, its order waits for another until its time is over."""
    server, leaving = state.cluster.servers.get(event.uid), state.leaving.get(event.uid)
    gone(state, event, at)
    if leaving is not None and state.worker(leaving.node) is None:
        state.leaving.drop(event.uid)
    if server is not None and leaving is not None:
        state.orders.drop(server.order)


def _worker_observed(state: Fleet, event: e.ObjectObserved, at: int) -> None:
    observed(state, event, at)
    worker = state.cluster.workers.rows[event.uid]
    if STARTING not in worker.taints:
        state.opening.drop(event.uid)
    server = state.server(worker)
    if server is not None:
        _forget_served(state, server)
        leaving = state.leaving.get(server.uid)
        if leaving is not None and not leaving.node:
            state.leaving.put(server.uid, replace(leaving, node=worker.name))


def _forget_served(state: Fleet, server: Server) -> None:
    """An order is served when its server has a node; an order that was given up is not: its server must go."""
    order = state.orders.get(server.order)
    if order is not None and not order.over and state.node_of(server) is not None:
        state.orders.drop(server.order)
        state.notes.fired_deadlines.drop(("compose", server.order))


def _load_gone(state: Fleet, event: e.ObjectGone, at: int) -> None:
    gone(state, event, at)
    state.advice.drop(event.uid)


def _worker_gone(state: Fleet, event: e.ObjectGone, at: int) -> None:
    worker = state.cluster.workers.get(event.uid)
    gone(state, event, at)
    state.opening.drop(event.uid)
    for uid, row in list(state.leaving.rows.items()):
        if worker is not None and row.node == worker.name and uid not in state.cluster.servers:
            state.leaving.drop(uid)
    for action in (e.NodeRemoved.__name__, e.NodeOpened.__name__):
        state.notes.refusals.drop((action, event.uid))


FOLDS: dict[type[Event], Fold] = {
    **{kind: observed if issubclass(kind, e.ObjectObserved) else ending() for kind in e.EVENTS if kind in e.KIND_OF},
    e.ConfigObserved: config_observed,
    e.LoadGone: ending(_load_gone),
    e.WorkerObserved: _worker_observed,
    e.WorkerGone: ending(_worker_gone),
    e.ServerObserved: _server_observed,
    e.ServerGone: ending(_server_gone),
    e.Refreshed: _asked,
    e.GrowthAsked: _asked,
    e.ShrinkAsked: _asked,
    e.RemovalAsked: _asked,
}
