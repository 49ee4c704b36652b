"""A claim that wants two models which may not share a node can be served nowhere: it fails with words, nothing is attached for
it, no node is kept from others on its account, and each time that the scheduler tries all the same it is told later."""

import pytest
from msgspec.structs import replace

from dds_core.model import Model, Result
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, GPU, H100, World, asks, class_of

T4 = Model(9, "T4", "tesla-t4", GPU, {"productName": "Tesla T4"})
RIVALS = (replace(A100, conflicts=(2,)), H100)


def fleet() -> World:
    world = World("attach", models=RIVALS, cool_down_seconds=120, scan_interval_seconds=0)
    for name in ("node0", "node1"):
        world.node(name)
    for model in RIVALS:
        world.pool(model, 4)
    return world


def test_it_is_told_at_once_and_no_node_cools_down() -> None:
    world = fleet()
    world.waits("train", "node0", (A100, 1), (H100, 1))
    failed = world.only(e.ClaimFailed)
    assert (failed.reason, failed.model) == ("Coexistence", "")
    assert "A100 40G and H100 80G may not share a node" in failed.message
    assert world.only(e.FailureSignalled).claim == world.uid("train")
    assert not world.decisions(e.AttachOrdered, e.CoolDown, e.NodeLabelled)


def test_each_time_that_the_scheduler_tries_all_the_same_it_is_told_later() -> None:
    world = fleet()
    world.claim("train")
    for again, pause in enumerate((0, 120, 240, 480)):
        world.allocate("train", f"node{again % 2}", (A100, 1), (H100, 1))
        if pause:
            world.tick(pause - 1)
            assert len(world.events(e.FailureSignalled)) == again
            world.tick(2)
        assert len(world.events(e.FailureSignalled)) == again + 1
        world.carry_out()
        world.unreserve("train")
        world.clear("train")
    assert not world.decisions(e.AttachOrdered, e.CoolDown, e.NodeLabelled)


def test_nothing_is_ordered_for_a_pod_whose_other_claim_wants_the_rival() -> None:
    """The scheduler writes one allocation after the other; what the second will be is known before."""
    world = fleet()
    world.claim("first", pod="both", requests=(asks("r0", A100.device),))
    world.claim("second", pod="both", requests=(asks("r0", H100.device),))
    world.allocate("first", "node0")
    world.allocate("second", "node0", (H100, 1))
    assert {failed.claim for failed in world.events(e.ClaimFailed)} == {world.uid("first"), world.uid("second")}
    assert not world.decisions(e.AttachOrdered, e.CoolDown)


@pytest.mark.parametrize("claims", [1, 2])
def test_what_has_its_device_on_the_node_wants_none_of_a_pool(claims: int) -> None:
    """Its second choice could not come there, but it has its first."""
    world = fleet()
    world.observe(class_of(T4))
    world.plug("node0", "gpu-t4", "GPU-T4", T4)
    small, large = asks("small", T4.device, A100.device), asks("large", H100.device)
    has = Result(f"small/{T4.device}", GPU, "node0", "gpu-t4")
    wants = replace(pool_results(0, model=H100)[0], request="large")
    if claims == 1:
        world.claim("train", requests=(small, large))
        world.allocate("train", "node0", has, wants)
    else:
        world.claim("first", pod="both", requests=(small,))
        world.claim("second", pod="both", requests=(large,))
        world.allocate("first", "node0", has)
        world.allocate("second", "node0", wants)
    assert world.only(e.AttachOrdered).model == H100.model
    assert not world.events(e.ClaimFailed)


def test_one_that_could_have_something_else_is_led_there_by_the_nodes_label() -> None:
    """Any model would do for the second request: what cools down is the choice that was made."""
    world = fleet()
    world.claim("train", requests=(asks("r0", A100.device), asks("r1", H100.device, A100.device)))
    world.allocate("train", "node0", (A100, 1), (H100, 1))
    assert world.only(e.ClaimFailed).reason == "Coexistence"
    assert world.only(e.CoolDown).node == "node0"


def test_a_node_that_has_both_gives_them() -> None:
    world = fleet()
    for name, model in (("gpu-0", A100), ("gpu-1", H100)):
        world.plug("node0", name, f"GPU-{name}", model)
    world.waits("train", "node0", (A100, 1), (H100, 1))
    assert world.state_of("train") == "Attached"
