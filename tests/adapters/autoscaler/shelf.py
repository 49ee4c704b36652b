"""A provider in memory: groups on a shelf, changed by calls and replaced by what `next` holds at a refresh."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from dds_adapters.autoscaler.provider import Refused, Unknown
from dds_core.autoscaler.model import Group, GroupsView, Instance, NodeRef, Template
from dds_core.model import Taint

TEMPLATE = Template(
    labels={"cohdi.io/pool": "a100", "topology.kubernetes.io/zone": "z1"},
    taints=(Taint("dds", "new", "NoSchedule"),),
    capacity={"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"},
    arch="arm64",
    annotations={"made-by": "dds"},
)
FAILED = Instance("dds://s3", "creating", "NoServer", "no server is left", out_of_resources=True)
ODD = Instance("dds://s4", "creating", "Timeout", "it did not answer")
INTAKE = Group(
    "intake",
    1,
    10,
    4,
    "servers without devices",
    (Instance("dds://s1", "running"), Instance("dds://s2", "deleting"), FAILED, ODD),
    TEMPLATE,
)
BARE = Group("bare", 0, 3, 0)
START = GroupsView((INTAKE, BARE), {"node-1": "intake"})


class Shelf:
    """`before` is called at the start of each method but `view`, with the method's name."""

    def __init__(self, view: GroupsView = START) -> None:
        self._view = self.next = view
        self._lock = threading.Lock()
        self.before: Callable[[str], None] = lambda name: None
        self.deleted: list[NodeRef] = []
        self.refreshed = 0

    def refresh(self) -> None:
        self.before("refresh")
        with self._lock:
            self._view = self.next
            self.refreshed += 1

    def view(self) -> GroupsView:
        return self._view

    def increase(self, group: str, delta: int) -> None:
        self.before("increase")
        self._change(group, delta)

    def decrease(self, group: str, delta: int) -> None:
        self.before("decrease")
        self._change(group, -delta)

    def delete(self, group: str, nodes: Sequence[NodeRef]) -> None:
        self.before("delete")
        view = self.view()
        for node in nodes:
            owner = view.group_of(node)
            if owner is None or owner.id != group:
                raise Unknown(f"no node {node.name} here", where=f"group {group}")
        with self._lock:
            self.deleted += nodes
        self._change(group, -len(nodes))

    def _change(self, group: str, by: int) -> None:
        with self._lock:
            one = self._view.group(group)
            if one is None:
                raise Unknown("there is no such group", where=f"group {group}")
            if not one.minimum <= one.target + by <= one.maximum:
                raise Refused(f"{one.target + by} is beyond its bounds", where=f"group {group}")
            groups = tuple(replace(one, target=one.target + by) if it is one else it for it in self._view.groups)
            self._view = replace(self._view, groups=groups)
