"""Which group a node is of, by each of the names that Cluster Autoscaler has for it."""

from __future__ import annotations

import msgspec
import pytest

from dds_core.autoscaler.model import Group, GroupsView, Instance, NodeRef, Template
from dds_core.model import Taint

A = Group("a", 0, 3, 2, instances=(Instance("dds://1", "running"), Instance("dds://2", "creating")))
B = Group("b", 0, 3, 1, instances=(Instance("dds://3", "deleting"),))
VIEW = GroupsView((A, B), {"one": "a", "three": "b", "lost": "gone"})


@pytest.mark.parametrize(
    ("node", "group"),
    [
        (NodeRef("one", "dds://1"), A),
        (NodeRef("one", "dds://3"), A),  # the name is the Node's identity
        (NodeRef("dds://2", "dds://2"), A),
        (NodeRef("three", ""), B),
        (NodeRef("unlisted", "dds://3"), B),
        (NodeRef("other", "dds://9"), None),
        (NodeRef("", ""), None),
        (NodeRef("lost", "dds://9"), None),
    ],
)
def test_the_group_of_a_node(node: NodeRef, group: Group | None) -> None:
    assert VIEW.group_of(node) is group


def test_groups_by_id() -> None:
    assert VIEW.group("b") is B
    assert VIEW.group("") is None
    assert GroupsView().group("a") is None


def test_a_view_is_the_same_once_it_was_written_down() -> None:
    template = Template({"pool": "a"}, (Taint("new", "", "NoSchedule"),), {"cpu": "4"}, annotations={"by": "dds"})
    view = GroupsView((msgspec.structs.replace(A, template=template), B), VIEW.members)
    assert view.group_of(NodeRef("one", "")) is view.groups[0]  # what was looked up is no part of it
    assert msgspec.json.decode(msgspec.json.encode(view), type=GroupsView) == view
