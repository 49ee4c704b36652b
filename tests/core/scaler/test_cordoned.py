"""A claim whose node takes its pod no more, since it was cordoned or tainted while the pod waits: it is told, so that it is
served elsewhere, unless an exchange binds the pod all the same. Nobody waits for the scheduler's binding timeout in silence."""

from typing import Any

import pytest

from dds_core.model import CORDON, Node, Taint, Toleration
from dds_core.scaler import events as e
from tests.support.world import World, one_node

WAYS: dict[str, dict[str, Any]] = {
    "cordoned": {"unschedulable": True, "taints": (CORDON,)},
    "tainted": {"taints": (Taint("maintenance", "", "NoSchedule"),)},
    "being deleted": {"deleting": True},
}
WORDS = {
    "cordoned": "node0 is cordoned",
    "tainted": "node0 has the taint maintenance:NoSchedule",
    "being deleted": "node0 is being deleted",
}


def waiting(**policy: Any) -> World:
    """The claim `train` waits on node0, its device is ordered, and the scheduler has to hand over."""
    world = one_node("attach", 8, scan_interval_seconds=0, **policy)
    world.node("node1")
    world.waits("train", "node0")
    world.carry_out()
    return world


def cordon(world: World, on: bool = True) -> None:
    world.update(world.get(Node, "node0"), unschedulable=on, taints=(CORDON,) if on else ())


@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_came_to_a_node_that_takes_the_pod_no_more(way: str) -> None:
    world = waiting()
    world.update(world.get(Node, "node0"), **WAYS[way])
    assert not world.events(e.ClaimFailed), "the device is on its way"
    world.operate()
    failed = world.only(e.ClaimFailed)
    assert (failed.reason, failed.message.partition(",")[0]) == ("NodeUnschedulable", WORDS[way])
    world.carry_out(e.NodeLabelled)
    assert world.only(e.FailureSignalled).claim == world.uid("train")
    assert not world.events(e.HandOver)


def test_every_claim_of_the_pod_lets_go() -> None:
    world = one_node("attach", 8, synced=False, scan_interval_seconds=0)
    for name in ("one", "two"):
        world.claim(name, pod="both")
        world.allocate(name, "node0")
    world.sync()
    world.carry_out()
    cordon(world)
    world.operate()
    assert {failed.claim for failed in world.events(e.ClaimFailed)} == {world.uid("one"), world.uid("two")}


@pytest.mark.parametrize("way", WAYS)
def test_a_claim_for_which_nothing_was_ordered_yet_is_told_at_once(way: str) -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.update(world.get(Node, "node0"), **WAYS[way])
    world.waits("train", "node0")
    assert world.only(e.ClaimFailed).reason == "NodeUnschedulable"
    assert not world.events(e.AttachOrdered)


def test_the_node_may_be_chosen_again_once_it_is_uncordoned() -> None:
    world = waiting()
    cordon(world)
    world.operate()
    world.carry_out(e.NodeLabelled)
    cordon(world, on=False)
    assert world.events(e.CoolDownOver)
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-a100-40": "true"}


def test_a_cool_down_for_another_reason_stays() -> None:
    world = waiting(limit={"max": 1})
    world.waits("over", "node0")
    assert world.only(e.ClaimFailed).reason == "NodeLimit"
    cordon(world)
    cordon(world, on=False)
    assert not world.events(e.CoolDownOver)


def test_a_pod_that_tolerates_the_cordon_is_served() -> None:
    """Kubernetes' NodeUnschedulable lets such a pod onto a cordoned node; it would come back for ever."""
    world = one_node("attach", 8, scan_interval_seconds=0)
    cordon(world)
    world.claim("train")
    world.pod("train", tolerations=(Toleration("", "Exists"),))
    world.allocate("train", "node0")
    world.settle()
    assert world.events(e.HandOver)
    assert not world.events(e.ClaimFailed)


def test_where_devices_are_exchanged_the_pod_is_bound_all_the_same() -> None:
    world = one_node("attach", 8, exchange=True, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.carry_out()
    cordon(world)
    world.operate()
    world.tick(1)
    world.carry_out()
    assert world.events(e.ExchangeBegun)
    assert not world.events(e.ClaimFailed)


def test_a_node_that_is_not_ready_for_a_while_fails_nobody() -> None:
    world = waiting()
    not_ready = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
    world.update(world.get(Node, "node0"), taints=(not_ready,))
    world.operate()
    assert not world.events(e.ClaimFailed) and not world.events(e.HandOver)
    world.update(world.get(Node, "node0"), taints=())
    assert world.events(e.HandOver)
