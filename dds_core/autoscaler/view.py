"""The view that Cluster Autoscaler is shown, made from the state."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.autoscaler.model import Group, GroupsView, Instance
from dds_core.autoscaler.records import Shown
from dds_core.autoscaler.rules.asks import INSTANCE
from dds_core.autoscaler.state import Fleet


def view_of(state: Fleet) -> GroupsView:
    """All groups as they were shown last. The caller keeps it until the next refresh or the next accepted call."""
    groups = tuple(_group(state, name, shown) for name, shown in sorted(state.groups.rows.items()))
    members = {node: name for name, shown in state.groups.rows.items() for node in shown.members}
    return GroupsView(groups, members)


def _group(state: Fleet, name: str, shown: Shown) -> Group:
    known = state.policy.group(name)
    template = known.template.made() if known is not None else None
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
