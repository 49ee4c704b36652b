"""B15: the idle clock was a note renewed by scans; an outage aged all devices, and each used one was written every minute.

Here it starts at the fact of the release, is written once then, and never before the first sight of the cluster.
"""

from dds_core.scaler import events as e
from tests.support.world import World, one_node


def used_device() -> World:
    world = one_node("detach", 4, no_removal_seconds=600, scan_interval_seconds=60)
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="composability-x")
    world.holds("train", "node0", "gpu-GPU-res")
    world.bind("train")
    return world


def test_b15_the_clock_starts_at_the_release() -> None:
    world = used_device()
    world.tick(7200)
    world.finish("train")
    world.tick(590)
    assert not world.events(e.VictimMarked)
    world.tick(11)
    assert world.only(e.VictimMarked).resource == "res"


def test_b15_it_is_written_once_at_the_release_and_never_while_in_use() -> None:
    world = used_device()
    world.tick(7200)
    assert not world.events(e.UsedStamped)
    world.finish("train")
    world.tick(300)
    stamp = world.only(e.UsedStamped)
    life = world.state.lifecycle.devices.rows["res"]
    assert (stamp.resource, stamp.at) == ("res", life.idle_since)


def test_b15_an_outage_ages_nothing_in_use_and_no_deadline_passes_meanwhile() -> None:
    world = used_device()
    world.feed(e.Stale("resourceclaims", 30))
    before = len(world.steps)
    world.tick(7200)
    assert len(world.steps) == before
    world.feed(e.Synced())
    world.finish("train")
    world.tick(590)
    assert not world.events(e.VictimMarked)


def test_b15_with_an_empty_log_idle_clocks_start_at_synced() -> None:
    world = one_node("detach", 4, synced=False, no_removal_seconds=600)
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="composability-x")
    world.tick(3600)
    assert not world.events(e.Event)
    world.feed(e.Synced())
    assert world.state.lifecycle.devices.rows["res"].idle_since == world.now
    world.tick(599)
    assert not world.events(e.VictimMarked)
    world.tick(2)
    assert world.events(e.VictimMarked)


def test_b15_a_diverted_claims_old_device_idles_from_the_diversion() -> None:
    world = used_device()
    world.node("node1")
    world.tick(5000)
    world.claim("stray")
    world.online("other", "node0", request="composability-x")
    world.allocate("stray", "node0")
    assert world.reserved("stray") == ["GPU-other"]
    world.tick(50)
    world.clear("stray")
    world.allocate("stray", "node1")
    assert world.reserved("stray") == []
    assert world.state.lifecycle.devices.rows["other"].idle_since == world.now
