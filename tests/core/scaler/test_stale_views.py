"""While a view is stale nothing that rests on time passed is decided, whatever else is told meanwhile."""

from typing import Any

from dds_core.model import AttachRequest, FabricResource
from dds_core.scaler import events as e
from tests.support.world import World, one_node

OURS = {"app.kubernetes.io/managed-by": "dds"}


def idle_device(**policy: Any) -> World:
    world = one_node("detach", 4, scan_interval_seconds=0, no_removal_seconds=60, **policy)
    world.request("own", "node0", labels=OURS, state="Running", acted_size=1)
    world.online("res", "node0", request="own")
    return world


def test_no_victim_is_chosen_on_a_stale_view() -> None:
    world = idle_device()
    world.feed(e.Stale("resourceclaims", 90))
    world.tick(100)
    world.node("node0", unschedulable=True)
    assert world.events(e.VictimMarked) == []
    world.feed(e.Synced())
    assert world.only(e.VictimMarked).resource == "res"


def test_no_size_is_lowered_on_a_stale_view_though_the_fence_was_confirmed() -> None:
    world = idle_device()
    world.tick(61)
    world.carry_out()
    world.tick(30)
    request = world.get(AttachRequest, "own")
    world.update(request, state="Updating")
    world.carry_out()
    world.feed(e.Stale("resourceclaims", 90))
    world.update(request, state="Running")
    assert world.get(FabricResource, "res").marked
    assert world.events(e.DetachOrdered) == []
    world.feed(e.Synced())
    assert world.only(e.DetachOrdered).victims == ("res",)


def test_no_claim_is_failed_on_a_stale_view() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.feed(e.Stale("resourceslices", 90))
    world.tick(1000)
    world.pod("train", nominated="node0")
    assert world.events(e.ClaimFailed) == []
    world.feed(e.Synced())
    assert world.only(e.ClaimFailed).reason == "AttachTimeout"
