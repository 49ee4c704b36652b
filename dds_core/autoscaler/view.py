"""The view that Cluster Autoscaler is shown, made from the picture."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.autoscaler.model import Group, Instance, View
from dds_core.autoscaler.records import Shown
from dds_core.autoscaler.rules.asks import INSTANCE
from dds_core.autoscaler.state import Fleet


def view_of(picture: Fleet) -> View:
    """All groups as they were shown last. A caller keeps it until the next refresh or the next accepted call."""
    groups = tuple(_group(picture, name, shown) for name, shown in sorted(picture.groups.rows.items()))
    members = {node: name for name, shown in picture.groups.rows.items() for node in shown.members}
    return View(groups, members)


def _group(picture: Fleet, name: str, shown: Shown) -> Group:
    known = picture.policy.group(name)
    template = known.template.made() if known is not None else None
    debug = shown.closed or f"{len(shown.members)} members"
    return Group(
        name, shown.minimum, shown.maximum, shown.target, debug, tuple(_instances(picture, name, shown)), template
    )


def _instances(picture: Fleet, name: str, shown: Shown) -> Iterator[Instance]:
    for node in shown.members:
        worker = picture.worker(node)
        server = picture.server(worker) if worker is not None else None
        if worker is not None:
            going = server is not None and server.uid in picture.leaving
            yield Instance(worker.provider_id, "deleting" if going else "running")
    for order, row in sorted(picture.orders.rows.items()):
        if row.group == name:
            server = picture.servers.get(picture.server_for.get(order, ""))
            id = server.provider_id if server is not None and server.provider_id else f"{INSTANCE}{order}"
            state = "deleting" if row.over else "creating"
            yield Instance(id, state, row.code, row.message, row.out_of_resources)  # type: ignore[arg-type]
