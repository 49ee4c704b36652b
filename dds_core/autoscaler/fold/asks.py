"""The folds of what is observed, and of what Cluster Autoscaler asks."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import STARTING, Server
from dds_core.autoscaler.state import Fleet
from dds_core.events import Event
from dds_core.kit.work import Fold, config_observed, ending, gone, observed


def _asked(picture: Fleet, event: Event, at: int) -> None:
    picture.dirty.asked.append(event)


def _server_observed(picture: Fleet, event: e.ObjectObserved, at: int) -> None:
    observed(picture, event, at)
    _forget_served(picture, picture.servers.rows[event.uid])


def _server_gone(picture: Fleet, event: e.ObjectGone, at: int) -> None:
    """What was to go is gone, once its Node is. An order whose server went by itself waits for another until its time is over."""
    server, leaving = picture.servers.get(event.uid), picture.leaving.get(event.uid)
    gone(picture, event, at)
    if leaving is not None and picture.worker(leaving.node) is None:
        picture.leaving.drop(event.uid)
    if server is not None and leaving is not None:
        picture.orders.drop(server.order)


def _worker_observed(picture: Fleet, event: e.ObjectObserved, at: int) -> None:
    observed(picture, event, at)
    worker = picture.workers.rows[event.uid]
    if STARTING not in worker.taints:
        picture.opening.drop(event.uid)
    server = picture.server(worker)
    if server is not None:
        _forget_served(picture, server)
        leaving = picture.leaving.get(server.uid)
        if leaving is not None and not leaving.node:
            picture.leaving.put(server.uid, replace(leaving, node=worker.name))


def _forget_served(picture: Fleet, server: Server) -> None:
    """An order is served when the node of its server is there; of one that was given up the server goes all the same."""
    order = picture.orders.get(server.order)
    if order is not None and not order.over and picture.node_of(server) is not None:
        picture.orders.drop(server.order)
        picture.passed.drop(("compose", server.order))


def _load_gone(picture: Fleet, event: e.ObjectGone, at: int) -> None:
    gone(picture, event, at)
    picture.advice.drop(event.uid)


def _worker_gone(picture: Fleet, event: e.ObjectGone, at: int) -> None:
    worker = picture.workers.get(event.uid)
    gone(picture, event, at)
    picture.opening.drop(event.uid)
    for uid, row in list(picture.leaving.rows.items()):
        if worker is not None and row.node == worker.name and uid not in picture.servers:
            picture.leaving.drop(uid)
    for action in (e.NodeRemoved.__name__, e.NodeOpened.__name__):
        picture.refusals.drop((action, event.uid))


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
