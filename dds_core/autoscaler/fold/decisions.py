"""The folds of decisions: the view that is shown, orders until their nodes are there, servers until they are gone."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import FULL, Advice, Leaving, Order, Shown
from dds_core.autoscaler.state import Fleet
from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.state import Key
from dds_core.kit.work import Fold

MADE = "orders"
"""Key of `counters`: how many orders were ever made."""


def _shown(state: Fleet, event: e.GroupShown, at: int) -> None:
    before = state.groups.get(event.group)
    members = set(before.members if before is not None else ()) - set(event.left) | set(event.joined)
    state.groups.put(
        event.group, Shown(event.minimum, event.maximum, event.target, tuple(sorted(members)), event.closed)
    )


def _hidden(state: Fleet, event: e.GroupHidden, at: int) -> None:
    state.groups.drop(event.group)


def _ordered(state: Fleet, event: e.ServerOrdered, at: int) -> None:
    if event.order in state.orders:
        return  # written once more after a restart
    state.orders.put(event.order, Order(event.group, at))
    state.counters.put(MADE, (state.counters.get(MADE) or 0) + 1)


def _order_failed(state: Fleet, event: e.OrderFailed, at: int) -> None:
    order = state.orders.get(event.order)
    if order is not None:
        failed = replace(order, code=event.code, message=event.text, out_of_resources=event.out_of_resources)
        state.orders.put(event.order, failed)


def _returned(state: Fleet, event: e.ServerReturned, at: int) -> None:
    order = state.orders.get(event.order)
    if order is not None:
        state.orders.put(event.order, replace(order, over=True, void=False))
    if event.server:
        state.leaving.put(event.server, Leaving(event.group, event.node, at))


def _node_removed(state: Fleet, event: e.NodeRemoved, at: int) -> None:
    _mark_removing(state, event.node, True)


def _mark_removing(state: Fleet, node: str, removing: bool) -> None:
    for uid, row in list(state.leaving.rows.items()):
        if row.node == node and row.removing != removing:
            state.leaving.put(uid, replace(row, removing=removing))


def _node_opened(state: Fleet, event: e.NodeOpened, at: int) -> None:
    state.opening.put(event.uid, at)


def _advised(state: Fleet, event: e.PodAdvised, at: int) -> None:
    if event.case:
        state.advice.put(event.pod, Advice(event.case, event.text))
    else:
        state.advice.drop(event.pod)


def void_unseen(state: Fleet, at: int) -> set[Key]:
    """After a restart all that is under way is decided again: providers know orders by name, and remove a server only once."""
    unseen: set[Key] = {(e.ServerOrdered.__name__, e.order_stream(name)) for name in state.orders}
    unseen |= {(e.ServerReturned.__name__, e.order_stream(_order_of(state, uid) or uid)) for uid in state.leaving}
    for row in list(state.leaving.rows.values()):
        _mark_removing(state, row.node, False)
    state.opening.drop_where(lambda uid: True)
    return unseen


def _order_of(state: Fleet, server: str) -> str:
    row = state.cluster.servers.get(server)
    return row.order if row is not None else ""


def _write_failed(state: Fleet, event: e.WriteRefused | e.WriteObsolete, at: int) -> None:
    """Do not decide the same again before a pause. A server that the provider refuses has failed for good."""
    kit.try_later(state, event, at)
    match event.action:
        case e.ServerOrdered.__name__ if isinstance(event, e.WriteRefused):
            order = state.orders.get(event.target)
            if order is not None:
                failed = replace(order, code=event.reason, message=event.text, out_of_resources=event.code == FULL)
                state.orders.put(event.target, failed)
        case e.ServerReturned.__name__:
            _mark_void(state, event.target)
        case e.NodeRemoved.__name__:
            worker = state.cluster.workers.get(event.target)
            _mark_removing(state, worker.name if worker is not None else "", False)
        case e.NodeOpened.__name__:
            state.opening.drop(event.target)


def _mark_void(state: Fleet, target: str) -> None:
    """It must still be given back: no server is lost. `target`: its order, or the server itself if it has none."""
    order = state.orders.get(target)
    if order is not None:
        state.orders.put(target, replace(order, void=True))
    server = state.cluster.server_for.get(target, target)
    leaving = state.leaving.get(server)
    if leaving is not None:
        state.leaving.put(server, replace(leaving, void=True))


def _write_done(state: Fleet, event: e.WriteDone, at: int) -> None:
    """Forget an order that was taken back before a server came of it."""
    kit.write_done(state, event)
    order = state.orders.get(event.target)
    taken_back = event.action == e.ServerReturned.__name__ and order is not None and order.over
    if taken_back and event.target not in state.cluster.server_for:
        state.orders.drop(event.target)


FOLDS: dict[type[Event], Fold] = {
    e.GroupShown: _shown,
    e.GroupHidden: _hidden,
    e.AskRefused: kit.nothing,
    e.ServerOrdered: _ordered,
    e.OrderFailed: _order_failed,
    e.ServerReturned: _returned,
    e.NodeRemoved: _node_removed,
    e.NodeOpened: _node_opened,
    e.PodAdvised: _advised,
    e.WriteDone: _write_done,
    e.WriteRefused: _write_failed,
    e.WriteObsolete: _write_failed,
}
