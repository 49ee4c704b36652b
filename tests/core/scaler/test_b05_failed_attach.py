"""B5: nobody read the fabric's errors; the claim waited for the scheduler's time-out and then chose the same again.

Here a definite error or a used-up budget fails the claim with reason and the fabric's words, after the cool-down was read back.
"""

from dds_core.scaler import events as e
from tests.support.world import A100, SECOND, World, one_node


def waiting(mode: str = "attach") -> World:
    world = one_node(mode, 4, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.carry_out()
    return world


def test_b05_a_definite_error_fails_the_claim_with_the_fabrics_words() -> None:
    world = waiting()
    request = world.only(e.AttachOrdered).request
    world.resource("res", "node0", request=request, state="Attaching", error="fabric manager: E02 no such port")
    world.tick(9)
    assert not world.events(e.ClaimFailed)
    world.tick(2)
    failed = world.only(e.ClaimFailed)
    assert (failed.reason, failed.message, failed.node) == ("AttachFailed", "fabric manager: E02 no such port", "node0")
    assert world.moves("train")[-1] == ("failed", "Attaching", "Failed")


def test_b05_an_error_that_passes_fails_nobody() -> None:
    world = waiting()
    request = world.only(e.AttachOrdered).request
    world.resource("res", "node0", request=request, state="Attaching", error="timeout")
    world.tick(5)
    world.resource("res", "node0", error="")
    world.tick(20)
    world.resource("res", "node0", error="timeout")
    world.tick(5)
    assert not world.events(e.ClaimFailed)
    world.tick(6)
    assert world.only(e.ClaimFailed).message == "timeout"


def test_b05_an_error_of_a_try_before_the_one_that_brought_the_device_fails_nobody() -> None:
    """Words that stand with an id are the node's, and its next poll may take them back."""
    world = waiting()
    request = world.only(e.AttachOrdered).request
    world.resource("res", "node0", request=request, state="Attaching", error="E02 busy")
    world.tick(2)
    world.resource("res", "node0", uuid="GPU-1")
    world.tick(30)
    world.resource("res", "node0", fabric_id="1", error="the plugin does not start")
    world.tick(34)
    assert len(world.events(e.AttachOrdered)) == 1
    world.tick(1)
    assert [one.size for one in world.events(e.AttachOrdered)] == [1, 2], "another device may have more luck"
    world.tick(60)
    assert not world.events(e.ClaimFailed) and not world.events(e.CoolDown)


def test_b05_a_used_up_budget_fails_the_claim_before_the_scheduler_gives_up() -> None:
    world = waiting()
    world.tick(539)
    assert not world.events(e.ClaimFailed)
    world.tick(2)
    assert world.only(e.ClaimFailed).reason == "AttachTimeout"
    assert world.state_of("train") == "Failed"


def test_b05_the_condition_follows_the_cool_down_and_not_before_it_was_read_back() -> None:
    world = waiting()
    world.tick(541)
    cooled = world.only(e.CoolDown)
    assert (cooled.node, cooled.model) == ("node0", A100.model)
    removed = world.only(e.NodeLabelled)
    assert removed.labels == {"cohdi.io/nvidia-a100-40": None}
    assert not world.events(e.FailureSignalled)
    world.carry_out(e.NodeLabelled)
    signal = world.only(e.FailureSignalled).signal
    assert [(x.pool, x.condition, x.reason) for x in signal.entries] == [
        ("nvidia-a100-40-fabric1", "FabricDeviceFailed", "AttachTimeout")
    ]


def test_b05_the_node_may_be_chosen_again_after_the_cool_down() -> None:
    world = waiting()
    world.tick(541)
    world.carry_out(e.NodeLabelled)
    world.tick(121)
    assert world.only(e.CoolDownOver).node == "node0"
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-a100-40": "true"}


def test_b05_a_fabric_that_fails_again_is_tried_as_soon_as_before() -> None:
    """It may be well at any time; while it is not, the pool is closed."""
    world = waiting()
    world.tick(541)
    world.carry_out()
    world.tick(121)
    world.clear("train")
    world.allocate("train", "node0")
    world.tick(541)
    first, again = world.events(e.CoolDown)
    assert (again.reason, again.times) == (first.reason, 1) == ("AttachTimeout", 1)
    assert 119 <= (again.until - world.now) / SECOND <= 120


def test_b05_another_allocation_after_the_failure_starts_the_next_cycle() -> None:
    world = waiting()
    world.tick(541)
    world.carry_out()
    world.node("node1")
    world.clear("train")
    world.allocate("train", "node1")
    assert world.state_of("train") == "Attaching"
    life = world.state.lifecycle.lives.rows[world.uid("train")]
    assert (life.cycle, life.attempt, life.node) == (2, 1, "node1")
    assert world.uid("train") not in world.state.failing.failures


def test_b05_observe_shows_the_failure_once_and_leaves_the_claim_alone() -> None:
    world = waiting("observe")
    world.tick(3600)
    assert len(world.events(e.ClaimFailed)) == 1
    assert world.state_of("train") == "Pending"
