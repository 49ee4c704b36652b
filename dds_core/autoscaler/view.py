"""The view of Cluster Autoscaler: what every group should be now, why a node is no member, and the view that is shown. Changes
nothing.

A node that has or gets a device is no member of its group until its devices are back (intake groups), so that Cluster Autoscaler
judges bare servers only. While a device will do for a waiting pod, a group takes only the servers that other pods need."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.autoscaler.model import Group, GroupsView, Instance
from dds_core.autoscaler.policy import ServerGroup
from dds_core.autoscaler.records import STARTING, Advice, Load, Shown, Worker
from dds_core.autoscaler.rules.fitting import Cycle, extended, servers_for
from dds_core.autoscaler.rules.servers import lacking
from dds_core.autoscaler.state import Fleet

INSTANCE = "dds://order/"
"""Prefix of an order's name in the id of its instance, until its server has an id."""
MOST_ADVISED = 100
"""Waiting pods that are looked at in one loop; the others wait for room as well."""


def is_news(state: Fleet) -> bool:
    """Whether the next view differs from the one that is shown. Changes nothing."""
    advice = advice_of(state)
    fresh = {group.name: as_it_is(state, group, advice)[0] for group in state.own_groups()}
    known = {uid: one for uid, one in advice.items() if one.case}
    return fresh != state.groups.rows or known != state.advice.rows


def as_it_is(state: Fleet, group: ServerGroup, advice: dict[str, Advice]) -> tuple[Shown, dict[str, str]]:
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
    if state.cluster.resources_at[node]:
        return f"{len(state.cluster.resources_at[node])} devices are attached to it, or on their way"
    if any(state.cluster.requests.rows[uid].size for uid in state.cluster.requests_at[node]):
        return "a device is asked for on it"
    if state.cluster.claims_on[node]:
        return "a claim has a device there, or is to get one"
    if any(load.nominated and (load.claims or load.extended_claim) for load in state.loads_at(node)):
        return "a pod that wants a device is nominated to it"
    if any(state.cluster.slices.rows[uid].devices for uid in state.cluster.slices_on[node]):
        return "its driver lists devices of its own"
    return ""


# -- waiting pods --------------------------------------------------------------------------------------------------------


def advice_of(state: Fleet) -> dict[str, Advice]:
    """For the waiting pods, by name, what would let each run."""
    waiting = sorted(
        (state.cluster.loads.rows[uid] for uid in state.cluster.pending), key=lambda one: (one.namespace, one.name)
    )
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
    return (
        state.cluster.loads.rows[uid] for uid, one in advice.items() if one.case == case and uid in state.cluster.loads
    )


# -- the view that is shown ---------------------------------------------------------------------------------------------


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
            server = state.cluster.servers.get(state.cluster.server_for.get(order, ""))
            id = server.provider_id if server is not None and server.provider_id else f"{INSTANCE}{order}"
            phase = "deleting" if row.over else "creating"
            yield Instance(id, phase, row.code, row.message, row.out_of_resources)  # type: ignore[arg-type]
