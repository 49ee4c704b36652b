"""B30: a claim allocated from the pool for its second choice was not reconsidered when its first choice became free on the node.

One that is free elsewhere changes nothing: the scheduler has chosen the node.
"""

from msgspec.structs import replace

from dds_core.model import Claim
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, World, asks


def second_choice(first: str) -> World:
    """`train` would rather have an H100, waits on node0 for an A100, and an H100 is free on the node `first`."""
    world = World("detach", no_removal_seconds=3600, scan_interval_seconds=0)
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    world.online("first-choice", first, H100)
    world.claim("train", requests=(asks("gpu", H100.device, A100.device),))
    world.allocate("train", "node0", replace(pool_results(0)[0], request=f"gpu/{A100.device}"))
    return world


def test_b30_the_first_choice_that_is_free_on_the_node_is_given() -> None:
    world = second_choice("node0")
    assert world.reserved("train") == ["GPU-first-choice"]
    assert not world.decisions(e.AttachOrdered)
    moved = next(move for move in world.events(e.ClaimMoved) if move.trigger == "device_ready")
    assert moved.promises[0].request == f"gpu/{H100.device}"
    assert moved.cause == f"GPU-first-choice is there and free, for gpu/{H100.device} instead of gpu/{A100.device}"


def test_b30_the_choice_is_recorded_and_served_as_it_is() -> None:
    world = second_choice("node1")
    claim = world.get(Claim, "train")
    facts = [step.fact for step in world.steps if isinstance(step.fact, e.ClaimObserved)]
    again = e.decode("ClaimObserved", e.encode(facts[0]))
    assert isinstance(again, e.ClaimObserved)
    assert [one.device_class for one in again.changes.requests[0].alternatives] == [H100.device, A100.device]
    assert claim.allocation is not None
    assert claim.allocation.results[0].request == f"gpu/{A100.device}"
    world.settle()
    assert world.only(e.AttachOrdered).model == A100.model
    assert world.state_of("train") == "Attached"
    assert not world.decisions(e.ClaimFailed, e.VictimMarked)
    assert world.device("first-choice") == "Idle"


def test_a_worse_choice_that_is_free_on_the_node_is_not_given() -> None:
    """The scheduler would choose the pool's device again, and be told of the other in vain."""
    world = World("detach", no_removal_seconds=3600, scan_interval_seconds=0)
    world.node("node0")
    world.pool(H100, 4)
    world.online("second-choice", "node0", A100)
    world.claim("train", requests=(asks("gpu", H100.device, A100.device),))
    world.allocate("train", "node0", replace(pool_results(0, model=H100)[0], request=f"gpu/{H100.device}"))
    assert world.reserved("train") == []
    assert world.only(e.AttachOrdered).model == H100.model
