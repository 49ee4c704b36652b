"""What Cluster Autoscaler is answered, and the events that bring its view up to date."""

from __future__ import annotations

from dds_core.autoscaler import events as e
from dds_core.autoscaler.fold.decisions import MADE
from dds_core.autoscaler.model import NodeRef
from dds_core.autoscaler.records import Advice, Shown, Worker
from dds_core.autoscaler.state import Fleet, Work
from dds_core.autoscaler.view import INSTANCE, advice_of, as_it_is, needed
from dds_core.events import Event
from dds_core.kit.policy import MICROSECONDS

MOST_OF_GROUP = 28
"""Characters of a group's name in the names of its orders, which providers limit (49 characters)."""


def answer(work: Work, asked: Event) -> None:
    match asked:
        case e.Refreshed():
            _refresh(work)
        case e.GrowthAsked():
            _grow(work, asked)
        case e.ShrinkAsked():
            _shrink(work, asked)
        case e.RemovalAsked():
            _remove(work, asked)


# -- the view ------------------------------------------------------------------------------------------------------------


def _refresh(work: Work) -> None:
    state = work.state
    advice = advice_of(state)
    for uid in sorted(advice.keys() | state.advice.rows.keys()):
        new, old = advice.get(uid, Advice("", "it waits no more")), state.advice.get(uid)
        if new != old and (new.case or old is not None):
            work.emit_once(e.PodAdvised(uid, new.case, new.words, state.mode))
    for group in state.own_groups():
        _show(work, group.name, *as_it_is(state, group, advice))
    for name in sorted(state.groups.rows.keys() - {group.name for group in state.own_groups()}):
        work.emit_once(e.GroupHidden(name, state.mode))


def _show(work: Work, name: str, new: Shown, reasons: dict[str, str]) -> None:
    old = work.state.groups.get(name)
    if new == old:
        return
    before = set(old.members if old is not None else ())
    joined, left = sorted(set(new.members) - before), sorted(before - set(new.members))
    why = {node: reasons[node] for node in left if node in reasons}
    shown = e.GroupShown(
        name,
        work.state.mode,
        minimum=new.minimum,
        maximum=new.maximum,
        target=new.target,
        joined=tuple(joined),
        left=tuple(left),
        closed=new.closed,
        reasons=why,
    )
    work.emit_once(shown)


# -- calls of Cluster Autoscaler -------------------------------------------------------------------------------------------


def _grow(work: Work, asked: e.GrowthAsked) -> None:
    state, shown = work.state, work.state.groups.get(asked.group)
    if shown is None or asked.delta < 1:
        _refuse(work, asked, *_unknown(asked.group) if shown is None else ("bad", f"{asked.delta} is no growth"))
        return
    if shown.target + asked.delta > shown.maximum:
        why = shown.closed or f"its maximum is {shown.maximum}"
        _refuse(work, asked, "refused", f"{asked.group} takes no {asked.delta} more than {shown.target}: {why}")
        return
    for _ in range(asked.delta):
        order = _new_order(work, asked.group)
        work.emit_once(e.ServerOrdered(order, asked.group, state.mode), order)
    _retarget(work, asked.group, shown, asked.delta)


def _new_order(work: Work, group: str) -> str:
    """A name that no order ever had, not even in a lost log: providers remember names."""
    number = (work.state.counters.get(MADE) or 0) + 1
    return f"{group[:MOST_OF_GROUP]}-{work.at // MICROSECONDS:x}-{number}"


def _shrink(work: Work, asked: e.ShrinkAsked) -> None:
    state, shown = work.state, work.state.groups.get(asked.group)
    if shown is None or asked.delta < 1:
        _refuse(
            work, asked, *_unknown(asked.group) if shown is None else ("bad", f"{asked.delta} is no number of servers")
        )
        return
    coming = state.coming(asked.group)
    if asked.delta > len(coming):
        _refuse(work, asked, "refused", f"{len(coming)} servers of {asked.group} are still to come, not {asked.delta}")
        return
    for order in coming[-asked.delta :]:
        _give_up(work, asked.group, order)
    _retarget(work, asked.group, shown, -asked.delta)


def _give_up(work: Work, group: str, order: str) -> None:
    state = work.state
    server = state.cluster.server_for.get(order, "")
    work.emit_once(e.ServerReturned(order, group, state.mode, server=server), order)


def _remove(work: Work, asked: e.RemovalAsked) -> None:
    """All of them, or none."""
    state, shown = work.state, work.state.groups.get(asked.group)
    if shown is None:
        _refuse(work, asked, *_unknown(asked.group))
        return
    orders, nodes = list[str](), list[Worker]()
    for one in asked.nodes:
        order = order_of(state, asked.group, one)
        worker = state.worker(one.name) if one.name in shown.members else None
        server = state.server(worker) if worker is not None else None
        if order:
            orders.append(order)
        elif worker is None or server is None:
            if _is_leaving(state, asked.group, one):
                continue
            _refuse(work, asked, "unknown", f"{one.name} is no node of {asked.group}")
            return
        elif server.uid not in state.leaving:
            why = needed(state, worker.name)
            if why:
                _refuse(work, asked, "refused", f"{worker.name} may not be removed: {why}")
                return
            nodes.append(worker)
    left = shown.target - len(orders) - len(nodes)
    if nodes and left < shown.minimum:
        _refuse(
            work, asked, "refused", f"{asked.group} would have {left} servers, less than its minimum of {shown.minimum}"
        )
        return
    for order in orders:
        _give_up(work, asked.group, order)
    for worker in nodes:
        server = state.server(worker)
        if server is not None:
            returned = e.ServerReturned(server.order, asked.group, state.mode, server=server.uid, node=worker.name)
            work.emit_once(returned, server.order or server.uid)
    if orders or nodes:
        _retarget(work, asked.group, shown, -len(orders) - len(nodes))


def order_of(state: Fleet, group: str, node: NodeRef) -> str:
    """The order of an instance without a Node: by its own name, or by its server's provider id; "" for none."""
    server = state.cluster.servers.get(state.cluster.server_of.get(node.provider_id, ""))
    name = server.order if server is not None else node.provider_id.removeprefix(INSTANCE)
    order = state.orders.get(name)
    return name if order is not None and order.group == group and not order.over else ""


def _is_leaving(state: Fleet, group: str, node: NodeRef) -> bool:
    """Whether its removal has begun or is over: the call is a repetition."""
    given_back = any(row.group == group and row.node == node.name for row in state.leaving.rows.values())
    order = state.orders.get(node.provider_id.removeprefix(INSTANCE))
    return given_back or (order is not None and order.over)


def _retarget(work: Work, name: str, shown: Shown, by: int) -> None:
    """Show only the effect of the call."""
    target = shown.target + by
    changed = Shown(shown.minimum, max(shown.maximum, target), target, shown.members, shown.closed)
    _show(work, name, changed, {})


def _unknown(group: str) -> tuple[e.Refusal, str]:
    return "unknown", f"there is no group {group}"


def _refuse(work: Work, asked: e.OfGroup, kind: e.Refusal, text: str) -> None:
    work.emit_once(e.AskRefused(asked.group, work.state.mode, kind=kind, text=text))
