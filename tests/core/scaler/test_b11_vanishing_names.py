"""B11: a pool device that was no longer listed failed the claim that held it; so did every restart of the publisher.

Here what is not published is unknown, not gone: the claim keeps waiting, and its device still counts when it comes.
"""

import pytest

from dds_core.model import Slice
from dds_core.scaler import events as e
from tests.support.world import A100, World, one_node


def publisher_counts_down(world: World) -> None:
    world.pool(A100, 1, generation=2)


def publisher_restarts(world: World) -> None:
    world.gone(world.get(Slice, "nvidia-a100-40-fabric1"))


@pytest.mark.parametrize("gap", [publisher_counts_down, publisher_restarts], ids=lambda gap: gap.__name__)
def test_b11_a_name_that_vanishes_fails_nobody(gap: object) -> None:
    world = one_node("attach", 2, scan_interval_seconds=0)
    world.claim("train", 2)
    world.allocate("train", "node0")
    world.carry_out()
    assert callable(gap)
    gap(world)
    world.tick(60)
    assert not world.events(e.ClaimFailed)
    assert world.state_of("train") == "Attaching"
    world.operate()
    assert world.state_of("train") == "Attached"
    assert len(world.only(e.HandOver).signals[0].entries) == 2


def test_b11_a_gap_in_the_nodes_own_slices_does_not_free_a_device() -> None:
    world = World("detach", no_removal_seconds=10, scan_interval_seconds=0)
    world.node("node0")
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="composability-x")
    world.holds("train", "node0", "gpu-GPU-res")
    world.bind("train")
    world.gone(world.state.inventory.slices.rows["local-node0-gpu.nvidia.com"])
    world.tick(3600)
    assert world.device("res") == "Used"
    assert not world.events(e.VictimMarked)
