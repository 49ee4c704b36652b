"""What Cluster Autoscaler is shown and answered. A node that has or gets a device is no member of its group until its devices are
back (intake groups), so that Cluster Autoscaler judges bare servers only. While a device will do for a waiting pod, a group takes
only the servers that other pods need."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.autoscaler import events as e
from dds_core.autoscaler.fold.decisions import MADE
from dds_core.autoscaler.model import Group, GroupsView, Instance, NodeRef
from dds_core.autoscaler.policy import ServerGroup
from dds_core.autoscaler.records import STARTING, Advice, Load, Shown, Worker
from dds_core.autoscaler.rules.fitting import Cycle, extended, servers_for
from dds_core.autoscaler.rules.servers import lacking
from dds_core.autoscaler.state import Fleet, Work
from dds_core.events import Event
from dds_core.kit.policy import MICROSECONDS

MOST_OF_GROUP = 28
"""Characters of a group's name in the names of its orders, which providers limit (49 characters)."""
MOST_ADVISED = 100
"""Waiting pods that are looked at in one loop; the others wait for room as well."""


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


def is_news(state: Fleet) -> bool:
    """Whether the next view differs from the one that is shown. Changes nothing."""
    advice = _advice(state)
    fresh = {group.name: _as_it_is(state, group, advice)[0] for group in state.own_groups()}
    known = {uid: one for uid, one in advice.items() if one.case}
    return fresh != state.groups.rows or known != state.advice.rows


# -- the view ------------------------------------------------------------------------------------------------------------


def _refresh(work: Work) -> None:
    state = work.state
    advice = _advice(state)
    for uid in sorted(advice.keys() | state.advice.rows.keys()):
        new, old = advice.get(uid, Advice("", "it waits no more")), state.advice.get(uid)
        if new != old and (new.case or old is not None):
            work.emit_once(e.PodAdvised(uid, new.case, new.words, state.mode))
    for group in state.own_groups():
        _show(work, group.name, *_as_it_is(state, group, advice))
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


def _as_it_is(state: Fleet, group: ServerGroup, advice: dict[str, Advice]) -> tuple[Shown, dict[str, str]]:
    """The group as it should be shown now, and for each node that is no member why."""
    members, reasons = list[str](), dict[str, str]()
    old = state.groups.get(group.name)
    before = set(old.members if old is not None else ())
    for worker in state.of_group(group.name):
        why = against(state, worker, group, worker.name in before)
        if why:
            reasons[worker.name] = why
        else:
            members.append(worker.name)
    going = {row.node for row in state.leaving.rows.values()}
    target = sum(name not in going for name in members) + len(state.coming(group.name))
    most = max(target, group.maximum - sum(name not in going for name in reasons))
    least = max(0, group.minimum - len(reasons))
    cap, closed = _closed(state, group, advice)
    most = most if cap is None else min(most, target + cap)
    return Shown(min(least, most), most, target, tuple(members), closed), reasons


def against(state: Fleet, worker: Worker, group: ServerGroup, was_member: bool) -> str:
    """Why a node of the group's servers is no member now, "" if it is one. One that is about to be removed keeps its membership:
    a restarted Cluster Autoscaler removes its taints from members only."""
    server = state.server(worker)
    if server is not None and server.uid in state.leaving:
        return "" if was_member else "its server is being given back"
    if worker.is_condemned and was_member:
        return ""
    if worker.deleting:
        return "it is being deleted"
    missing = [] if STARTING in worker.taints else lacking(state, worker.labels, group.template.labels)
    if missing:
        return f"it lacks the label {missing[0]}"
    return needed(state, worker.name)


def needed(state: Fleet, node: str) -> str:
    """Why the node may not be removed, "" if nothing on it concerns devices."""
    if state.resources_at[node]:
        return f"{len(state.resources_at[node])} devices are attached to it, or on their way"
    if any(state.requests.rows[uid].size for uid in state.requests_at[node]):
        return "a device is asked for on it"
    if state.claims_on[node]:
        return "a claim has a device there, or is to get one"
    if any(load.nominated and (load.claims or load.extended_claim) for load in state.loads_at(node)):
        return "a pod that wants a device is nominated to it"
    if any(state.slices.rows[uid].devices for uid in state.slices_on[node]):
        return "its driver lists devices of its own"
    return ""


# -- waiting pods --------------------------------------------------------------------------------------------------------


def _advice(state: Fleet) -> dict[str, Advice]:
    """For the waiting pods, by name, what would let each run."""
    waiting = sorted((state.loads.rows[uid] for uid in state.pending), key=lambda one: (one.namespace, one.name))
    waiting = [one for one in waiting if one.waiting]
    if not waiting or not state.live:
        return {}
    cycle = Cycle(state)
    return {one.uid: cycle.advise(one) for one in waiting[:MOST_ADVISED]}


def _closed(state: Fleet, group: ServerGroup, advice: dict[str, Advice]) -> tuple[int | None, str]:
    """How many more servers the group takes, None for no limit, and why."""
    if not state.policy.close_for_devices:
        return None, ""
    served = list(_of_case(state, advice, "device"))
    if not served:
        return None, ""
    first = served[0]
    count = servers_for(group, _of_case(state, advice, "server"))
    more = f" and {len(served) - 1} more" if len(served) > 1 else ""
    return count, f"a device will do for {first.namespace}/{first.name}{more}: {advice[first.uid].words}"


def _of_case(state: Fleet, advice: dict[str, Advice], case: str) -> Iterator[Load]:
    return (state.loads.rows[uid] for uid, one in advice.items() if one.case == case and uid in state.loads)


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
    server = state.server_for.get(order, "")
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
    server = state.servers.get(state.server_of.get(node.provider_id, ""))
    name = server.order if server is not None else node.provider_id.removeprefix(INSTANCE)
    order = state.orders.get(name)
    return name if order is not None and order.group == group and not order.over else ""


INSTANCE = "dds://order/"
"""Prefix of an order's name in the id of its instance, until its server has an id."""


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


# -- the view ---------------------------------------------------------------------------------------------------------


def view_of(state: Fleet) -> GroupsView:
    """All groups as they were shown last. The caller keeps it until the next refresh or the next accepted call."""
    groups = tuple(_group(state, name, shown) for name, shown in sorted(state.groups.rows.items()))
    members = {node: name for name, shown in state.groups.rows.items() for node in shown.members}
    return GroupsView(groups, members)


def _group(state: Fleet, name: str, shown: Shown) -> Group:
    known = state.policy.group(name)
    template = known.template.made(extended(state, known)) if known is not None else None
    debug = shown.closed or f"{len(shown.members)} members"
    return Group(
        name, shown.minimum, shown.maximum, shown.target, debug, tuple(_instances(state, name, shown)), template
    )


def _instances(state: Fleet, name: str, shown: Shown) -> Iterator[Instance]:
    for node in shown.members:
        worker = state.worker(node)
        server = state.server(worker) if worker is not None else None
        if worker is not None:
            going = server is not None and server.uid in state.leaving
            yield Instance(worker.provider_id, "deleting" if going else "running")
    for order, row in sorted(state.orders.rows.items()):
        if row.group == name:
            server = state.servers.get(state.server_for.get(order, ""))
            id = server.provider_id if server is not None and server.provider_id else f"{INSTANCE}{order}"
            phase = "deleting" if row.over else "creating"
            yield Instance(id, phase, row.code, row.message, row.out_of_resources)  # type: ignore[arg-type]
