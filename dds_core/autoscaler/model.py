"""What Cluster Autoscaler is shown: groups of servers, their instances, and templates of fresh servers. A `GroupsView` does not
change between two refreshes. Which servers it has, and why, is decided elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from dds_core.model import Record, Taint

InstanceState = Literal["creating", "running", "deleting"]


class Instance(Record, frozen=True):
    """A server of a group. `id`: its Node's spec.providerID, also before there is a Node. `code`: not empty if the server failed;
    `message` says why, and `out_of_resources` that no server could be had, which Cluster Autoscaler counts apart."""

    id: str
    state: InstanceState
    code: str = ""
    message: str = ""
    out_of_resources: bool = False


class Template(Record, frozen=True):
    """A fresh server, once registered. `capacity`: quantities of cpu, memory, pods, ephemeral-storage and extended resources.
    `taints`: lasting ones."""

    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, str] = {}
    os: str = "linux"
    arch: str = "amd64"
    annotations: Mapping[str, str] = {}


class Group(Record, frozen=True):
    """Servers that are alike. `target`: running and creating ones. `debug`: for people. Without a `template` a fresh server is
    unknown, and an empty group is not scaled up."""

    id: str
    minimum: int
    maximum: int
    target: int
    debug: str = ""
    instances: tuple[Instance, ...] = ()
    template: Template | None = None


class NodeRef(Record, frozen=True):
    """A node as Cluster Autoscaler names it; without a Node, both are the instance's id."""

    name: str
    provider_id: str


class GroupsView(Record, frozen=True, gc=True, dict=True):
    """All groups, and the group of each member node by the node's name. A node without a group is not autoscaled."""

    groups: tuple[Group, ...] = ()
    members: Mapping[str, str] = {}

    def group(self, id: str) -> Group | None:
        return self._groups.get(id)

    def group_of(self, node: NodeRef) -> Group | None:
        """The group of a node by its name; of a node that is no member, and of an instance without a Node, by the id."""
        owner = self.members.get(node.name) or self._owners.get(node.provider_id)
        return None if owner is None else self._groups.get(owner)

    @cached_property
    def _groups(self) -> dict[str, Group]:
        return {one.id: one for one in self.groups}

    @cached_property
    def _owners(self) -> dict[str, str]:
        return {instance.id: one.id for one in self.groups for instance in one.instances}
