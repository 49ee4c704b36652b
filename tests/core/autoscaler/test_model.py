"""Which group a node is of, by each of the names that Cluster Autoscaler has for it."""

from __future__ import annotations

import pytest

from dds_core.autoscaler.model import Group, Instance, NodeRef, View

A = Group("a", 0, 3, 2, instances=(Instance("dds://1", "running"), Instance("dds://2", "creating")))
B = Group("b", 0, 3, 1, instances=(Instance("dds://3", "deleting"),))
VIEW = View((A, B), {"one": "a", "three": "b", "lost": "gone"})


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
    assert View().group("a") is None
