"""What Cluster Autoscaler is shown: intake groups, frozen from one refresh to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import STARTING, Load, Server, Worker
from dds_core.model import AttachRequest, Device, Slice
from tests.core.autoscaler.yard import CAPACITY, LABELS, ROOM, Yard
from tests.support.world import A100, GPU, class_of


@pytest.fixture
def yard() -> Iterator[Yard]:
    found = Yard()
    found.refresh()
    yield found
    found.sound()


def test_bare_nodes_are_members_with_their_servers_as_instances(yard: Yard) -> None:
    assert yard.members == ["node0", "node1"]
    assert (yard.group.minimum, yard.group.maximum, yard.group.target) == (0, 4, 2)
    assert [(one.id, one.state) for one in yard.group.instances] == [("id-node0", "running"), ("id-node1", "running")]
    template = yard.group.template
    assert template is not None and template.labels == LABELS and template.capacity["cpu"] == "16"


@pytest.mark.parametrize("pool", [0, 1])
def test_devices_of_a_fresh_server_are_shown_as_the_extended_resource_of_their_class(pool: int) -> None:
    """KEP-5004: a pod may ask for the class by its extended resource, which Cluster Autoscaler looks for in the template."""
    takes = {A100.model: 8, "none": 3}
    yard = Yard(group={"template": {"capacity": CAPACITY, "labels": LABELS, "devices": takes}})
    yard.pool(pool)
    gpu = class_of(A100)
    yard.see(replace(gpu, extended_resource="nvidia.com/gpu"))
    yard.see(replace(gpu, uid="other", name="other", selectors=("false",), extended_resource="example.com/other"))
    yard.refresh()
    assert yard.group.template is not None
    assert yard.group.template.capacity == {**CAPACITY, "nvidia.com/gpu": "8"}
    yard.sound()


DEVICES: dict[str, Callable[[Yard], None]] = {
    "a device": lambda yard: yard.device("node0"),
    "a device on its way": lambda yard: yard.device("node0", state="Attaching"),
    "an order": lambda yard: yard.see(AttachRequest("req", "req", model=A100.model, size=1, node="node0")),
    "a claim": lambda yard: yard.claim("mine", "node0"),
    "a nominated pod": lambda yard: yard.pod("mine", claim=True, nominated="node0", waiting=""),
    "devices of its own": lambda yard: yard.see(
        Slice("own", "own", GPU, "node0", 1, 1, node="node0", devices={"gpu-0": Device()})
    ),
    "a label less": lambda yard: yard.change("node0", labels={"cohdi.io/fabric": "1"}),
}


@pytest.mark.parametrize("what", DEVICES)
def test_a_node_that_has_or_gets_a_device_leaves_with_its_place_and_comes_again(yard: Yard, what: str) -> None:
    DEVICES[what](yard)
    assert yard.members == ["node0", "node1"], "the view stands until the next refresh"
    yard.refresh()
    assert yard.members == ["node1"]
    assert (yard.group.maximum, yard.group.target) == (3, 1), "no place is left for another in its stead"
    assert "node0" in yard.events(e.GroupShown)[-1].reasons


def test_it_comes_again_when_its_devices_are_back(yard: Yard) -> None:
    yard.device("node0")
    yard.refresh()
    yard.gone(type(yard.state.cluster.resources.rows["res-GPU-1"]), "res-GPU-1")
    yard.refresh()
    assert yard.members == ["node0", "node1"] and yard.group.target == 2


def test_a_node_that_is_about_to_be_removed_stays_a_member(yard: Yard) -> None:
    """A Cluster Autoscaler that starts anew takes its taints off members only."""
    yard.condemn("node0")
    yard.claim("late", "node0")
    yard.refresh()
    assert yard.members == ["node0", "node1"]


def test_a_pod_without_claims_does_not_matter(yard: Yard) -> None:
    yard.see(Load("pod", "default", "plain", nominated="node0"))
    yard.refresh()
    assert yard.members == ["node0", "node1"]


def test_nothing_is_news_when_nothing_has_changed(yard: Yard) -> None:
    steps = len(yard.steps)
    yard.refresh()
    assert len(yard.steps) == steps, "a loop without news is no row"


def test_a_new_node_counts_until_it_has_its_labels_and_its_start_up_taint_goes_then(yard: Yard) -> None:
    yard.on("node2", labels={}, taints=(STARTING,))
    yard.refresh()
    assert yard.members == ["node0", "node1", "node2"]
    assert not yard.events(e.NodeOpened)
    yard.change("node2", labels=LABELS)
    (opened,) = yard.events(e.NodeOpened)
    assert opened.node == "node2"
    yard.tick(1000)
    assert len(yard.events(e.NodeOpened)) == 1, "it is being written"


def test_the_minimum_falls_with_the_nodes_that_left() -> None:
    yard = Yard(group={"minimum": 2})
    yard.device("node0")
    yard.refresh()
    assert (yard.group.minimum, yard.group.target, yard.group.maximum) == (1, 1, 3)
    yard.sound()


def test_a_node_that_registers_before_its_server_is_told_is_opened_too(yard: Yard) -> None:
    yard.see(Worker("node2", "node2", "id-node2", LABELS, (STARTING,), ready=True, room=ROOM))
    assert not yard.events(e.NodeOpened), "nobody knows whose it is"
    yard.see(Server("server-node2", "big", "", "id-node2", "running"))
    assert [one.node for one in yard.events(e.NodeOpened)] == ["node2"]


def test_a_group_that_the_policy_has_no_more_is_hidden_and_in_observe_none_is_shown(yard: Yard) -> None:
    yard.feed(e.PolicyChanged({"mode": "autoscale", "groups": []}))
    assert yard.refresh().groups == ()
    observing = Yard(mode="observe")
    assert observing.refresh().groups == () and observing.grow().startswith("unknown")
