"""What becomes of decisions: a view that is shown, orders until their nodes are there, servers until they are gone."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import Advice, Leaving, Order, Shown
from dds_core.autoscaler.state import Fleet
from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.state import Key
from dds_core.kit.work import Fold

FULL = 507
"""Code of a refusal by a provider that has no server to spare (HTTP: insufficient storage)."""
MADE = "orders"
"""Under it `counters` has how many orders were ever made."""


def _shown(picture: Fleet, event: e.GroupShown, at: int) -> None:
    before = picture.groups.get(event.group)
    members = set(before.members if before is not None else ()) - set(event.left) | set(event.joined)
    picture.groups.put(
        event.group, Shown(event.minimum, event.maximum, event.target, tuple(sorted(members)), event.closed)
    )


def _hidden(picture: Fleet, event: e.GroupHidden, at: int) -> None:
    picture.groups.drop(event.group)


def _ordered(picture: Fleet, event: e.ServerOrdered, at: int) -> None:
    if event.order in picture.orders:
        return  # written once more after a restart
    picture.orders.put(event.order, Order(event.group, at))
    picture.counters.put(MADE, (picture.counters.get(MADE) or 0) + 1)


def _order_failed(picture: Fleet, event: e.OrderFailed, at: int) -> None:
    order = picture.orders.get(event.order)
    if order is not None:
        failed = replace(order, code=event.code, message=event.text, out_of_resources=event.out_of_resources)
        picture.orders.put(event.order, failed)


def _returned(picture: Fleet, event: e.ServerReturned, at: int) -> None:
    order = picture.orders.get(event.order)
    if order is not None:
        picture.orders.put(event.order, replace(order, over=True, void=False))
    if event.server:
        picture.leaving.put(event.server, Leaving(event.group, event.node, at))


def _node_removed(picture: Fleet, event: e.NodeRemoved, at: int) -> None:
    _mark_removing(picture, event.node, True)


def _mark_removing(picture: Fleet, node: str, removing: bool) -> None:
    for uid, row in list(picture.leaving.rows.items()):
        if row.node == node and row.removing != removing:
            picture.leaving.put(uid, replace(row, removing=removing))


def _node_opened(picture: Fleet, event: e.NodeOpened, at: int) -> None:
    picture.opening.put(event.uid, at)


def _advised(picture: Fleet, event: e.PodAdvised, at: int) -> None:
    if event.case:
        picture.advice.put(event.pod, Advice(event.case, event.text))
    else:
        picture.advice.drop(event.pod)


def void_unseen(picture: Fleet, at: int) -> set[Key]:
    """After a restart whatever is under way is decided again: providers know orders by their names, and a server that is gone
    cannot be given back twice."""
    unseen: set[Key] = {(e.ServerOrdered.__name__, e.order_stream(name)) for name in picture.orders}
    unseen |= {(e.ServerReturned.__name__, e.order_stream(_order_of(picture, uid) or uid)) for uid in picture.leaving}
    for row in list(picture.leaving.rows.values()):
        _mark_removing(picture, row.node, False)
    picture.opening.drop_where(lambda uid: True)
    return unseen


def _order_of(picture: Fleet, server: str) -> str:
    row = picture.servers.get(server)
    return row.order if row is not None else ""


def _write_failed(picture: Fleet, event: e.WriteRefused | e.WriteObsolete, at: int) -> None:
    """The same is not decided again before the pause is over. A server that a provider will not give has failed for good."""
    kit.try_later(picture, event, at)
    match event.action:
        case e.ServerOrdered.__name__ if isinstance(event, e.WriteRefused):
            order = picture.orders.get(event.target)
            if order is not None:
                failed = replace(order, code=event.reason, message=event.text, out_of_resources=event.code == FULL)
                picture.orders.put(event.target, failed)
        case e.ServerReturned.__name__:
            _mark_void(picture, event.target)
        case e.NodeRemoved.__name__:
            worker = picture.workers.get(event.target)
            _mark_removing(picture, worker.name if worker is not None else "", False)
        case e.NodeOpened.__name__:
            picture.opening.drop(event.target)


def _mark_void(picture: Fleet, target: str) -> None:
    """It is to be given back all the same: no server is lost. `target` is its order, or itself where it has none."""
    order = picture.orders.get(target)
    if order is not None:
        picture.orders.put(target, replace(order, void=True))
    server = picture.server_for.get(target, target)
    leaving = picture.leaving.get(server)
    if leaving is not None:
        picture.leaving.put(server, replace(leaving, void=True))


def _write_done(picture: Fleet, event: e.WriteDone, at: int) -> None:
    """An order that was taken back before a server came of it is forgotten."""
    kit.write_done(picture, event)
    order = picture.orders.get(event.target)
    taken_back = event.action == e.ServerReturned.__name__ and order is not None and order.over
    if taken_back and event.target not in picture.server_for:
        picture.orders.drop(event.target)


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
