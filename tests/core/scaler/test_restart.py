"""A restart: what was decided and is not seen in the cluster is decided again, marked as re-issued; what is seen is not."""

import pytest

from dds_core.model import Pod
from dds_core.scaler import events as e
from tests.support.world import World, one_node


def restart(world: World) -> list[e.Decision]:
    """The process is gone with its unsent writes, another takes over; what it decides at once."""
    world.carry_out(e.Alerted)  # the writes that were under way are lost
    world.feed(e.Started("2", "f", 1, 2, world.state.mode))
    return world.feed(e.Synced()).decisions


def waiting(mode: str = "attach") -> World:
    world = one_node(mode, 8, no_removal_seconds=60, scan_interval_seconds=0)
    world.waits("train", "node0")
    return world


def victim() -> World:
    world = World("detach", no_removal_seconds=60, scan_interval_seconds=0)
    world.node("node0")
    world.request("ours", "node0", labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1)
    world.online("res", "node0", request="ours")
    world.tick(61)
    return world


def test_an_order_that_never_arrived() -> None:
    world = waiting()
    first = world.only(e.AttachOrdered)
    again = restart(world)
    assert [type(d) for d in again] == [e.AttachOrdered]
    assert again[0].reissued
    assert world.events(e.AttachOrdered)[-1].request == first.request


def test_an_order_that_arrived() -> None:
    world = waiting()
    world.carry_out()
    assert restart(world) == []


def test_a_hand_over_that_never_arrived() -> None:
    world = waiting()
    world.carry_out()
    world.operate()
    promised = world.reserved("train")
    again = restart(world)
    assert [type(d) for d in again] == [e.HandOver]
    assert again[0].reissued
    assert world.reserved("train") == promised, "the promise stands"


def test_a_hand_over_that_arrived() -> None:
    world = waiting()
    world.settle()
    assert restart(world) == []


def test_a_steering_that_never_arrived() -> None:
    world = waiting()
    world.settle()
    world.unreserve("train")
    world.pod("train", waiting="SchedulerError")
    again = restart(world)
    assert [type(d) for d in again] == [e.Steered]
    assert again[0].reissued


def test_a_label_and_a_failure_that_never_arrived() -> None:
    world = waiting()
    world.carry_out()
    world.tick(541)
    again = restart(world)
    assert [type(d) for d in again] == [e.NodeLabelled]
    assert again[0].reissued
    world.relabel("node0", {"cohdi.io/nvidia-a100-40": None})
    assert len(world.events(e.FailureSignalled)) == 1
    again = restart(world)
    assert [type(d) for d in again] == [e.FailureSignalled]
    assert again[0].reissued
    world.carry_out()
    assert restart(world) == []


def test_a_mark_that_never_arrived() -> None:
    world = victim()
    again = restart(world)
    assert [type(d) for d in again] == [e.VictimMarked]
    assert again[0].reissued


def test_a_mark_that_was_wanted_again_before_it_came_off_stays() -> None:
    world = victim()
    world.carry_out(e.VictimMarked)
    world.claim("soon")
    world.pod("soon", nominated="node0")
    world.only(e.VictimUnmarked)
    world.gone(world.get(Pod, "soon"))
    world.tick(1)
    assert len(world.events(e.VictimMarked)) == 2
    restart(world)
    world.only(e.VictimUnmarked)


def test_a_fence_that_nobody_watched_starts_anew() -> None:
    world = victim()
    world.carry_out()
    world.tick(20)
    assert restart(world) == []
    since = world.state.give_back.fences.rows["res"].since
    assert since == world.now
    world.tick(29)
    assert not world.events(e.ClaimsListWanted)
    world.tick(2)
    world.carry_out()
    assert world.only(e.DetachOrdered).victims == ("res",)


def test_a_detach_that_never_arrived_is_fenced_again_first() -> None:
    world = victim()
    world.carry_out()
    world.tick(31)
    world.carry_out(e.ClaimsListWanted)
    assert len(world.events(e.DetachOrdered)) == 1
    restart(world)
    world.holds("train", "node0", "gpu-GPU-res")
    world.tick(600)
    assert len(world.events(e.DetachOrdered)) == 1
    assert world.device("res") == "Used"


def test_a_mark_that_was_to_come_off() -> None:
    world = victim()
    world.carry_out()
    world.holds("train", "node0", "gpu-GPU-res")
    assert len(world.events(e.VictimUnmarked)) == 1
    again = restart(world)
    assert [type(d) for d in again] == [e.VictimUnmarked]
    world.carry_out()
    assert not world.state.fleet.resources.rows["res"].marked
    assert restart(world) == []


@pytest.mark.parametrize("mode", ["observe", "attach", "detach"])
def test_restarting_twice_changes_nothing_more(mode: str) -> None:
    world = waiting(mode)
    world.settle()
    restart(world)
    world.settle()
    before = dict(world.state.lifecycle.lives.rows), dict(world.state.hand_over.reservations.rows)
    assert restart(world) == []
    assert (dict(world.state.lifecycle.lives.rows), dict(world.state.hand_over.reservations.rows)) == before


def test_what_changed_while_nobody_watched_is_decided_at_synced_and_not_before() -> None:
    world = waiting()
    world.settle()
    world.feed(e.Started("2", "f", 1, 2, "attach"))
    world.waits("second", "node0")
    before = len(world.decisions())
    world.tick(30)
    assert len(world.decisions()) == before
    decided = world.feed(e.Synced()).decisions
    assert e.AttachOrdered in {type(d) for d in decided}
