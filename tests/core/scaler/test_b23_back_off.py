"""B23: a claim failed for the node's limit, and the scheduler chose the same node again at once, for ever.

Here the pool label goes and is read back before the failure is told; while the node is full it stays away.
"""

from dds_core.scaler import events as e
from tests.support.world import A100, H100, World, one_node


def full_node() -> World:
    world = World("attach", cool_down_seconds=120, scan_interval_seconds=0)
    world.node("node0", labels={"cohdi.io/nvidia-a100-40-size-max": "1"})
    world.pool(A100, 4)
    for name in ("fits", "over"):
        world.waits(name, "node0")
    return world


def test_b23_the_failure_is_told_only_after_the_label_was_seen_gone() -> None:
    world = full_node()
    failed = world.only(e.ClaimFailed)
    assert (failed.claim, failed.reason) == (world.uid("over"), "NodeLimit")
    assert not world.events(e.FailureSignalled)
    world.carry_out(e.AttachOrdered)
    assert not world.events(e.FailureSignalled)
    world.relabel("node0", {"cohdi.io/nvidia-a100-40": None})
    assert world.only(e.FailureSignalled).claim == world.uid("over")


def test_b23_the_label_stays_away_while_the_node_is_full_even_after_the_cool_down() -> None:
    world = full_node()
    world.settle()
    world.tick(3600)
    assert [list(x.labels.values()) for x in world.events(e.NodeLabelled)] == [[None]]


def test_b23_the_label_comes_back_with_room() -> None:
    world = full_node()
    world.settle()
    world.tick(121)
    world.relabel("node0", {"cohdi.io/nvidia-a100-40-size-max": "2"})
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-a100-40": "true"}


def test_b23_a_label_that_nobody_removes_leaves_the_failure_untold() -> None:
    world = full_node()
    world.tick(3600)
    assert not world.events(e.FailureSignalled)


def test_b23_the_model_that_did_not_come_cools_down_and_not_the_one_that_did() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.pool(H100, 4)
    world.claim("train", 2)
    world.allocate("train", "node0", (A100, 1), (H100, 1))
    world.carry_out(e.AttachOrdered)
    request = next(r.name for r in world.picture.requests.rows.values() if r.model == A100.model)
    world.online("res", "node0", request=request)
    world.tick(600)
    assert world.only(e.ClaimFailed).model == H100.model
    assert world.only(e.CoolDown).model == H100.model
