"""B24: a claim allocated without a node (a pool device without bindsToNode) was never handled, and nobody was told.

Here the pod's nomination tells the node; without one a person is told, once, and the budget fails the claim in time.
"""

from dds_core.model import Allocation, Claim, Consumer, Pod
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import World, one_node


def allocated_nowhere() -> World:
    world = one_node("attach", 4, scan_interval_seconds=60)
    world.claim("train")
    claim = world.get(Claim, "train")
    allocation = Allocation(pool_results(0), "", selector='{"nodeSelectorTerms":[]}')
    world.update(claim, allocation=allocation, consumers=(Consumer("pod-default-train", "train"),))
    return world


def test_b24_a_person_is_told_once() -> None:
    world = allocated_nowhere()
    world.tick(400)
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == (world.uid("train"), "NoNode")
    assert "default/train" in alert.text


def test_b24_the_nomination_tells_the_node() -> None:
    world = allocated_nowhere()
    world.pod("train", nominated="node0")
    assert world.only(e.AttachOrdered).node == "node0"
    world.settle()
    assert world.state_of("train") == "Attached"
    assert world.only(e.HandOver).node == "node0"


def test_b24_without_one_the_claim_fails_in_time() -> None:
    world = allocated_nowhere()
    world.tick(541)
    assert world.state_of("train") == "Failed"
    assert world.only(e.FailureSignalled).claim == world.uid("train")
    assert world.get(Pod, "train").node == ""


def test_b24_a_failure_that_could_not_be_told_is_told_again() -> None:
    world = allocated_nowhere()
    world.tick(541)
    world.feed(e.WriteRefused("id", "FailureSignalled", world.uid("train"), 409, "Conflict"))
    world.tick(31)
    assert len(world.events(e.FailureSignalled)) == 2
