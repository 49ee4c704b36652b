"""How long an attach may take: per scheduler, learned downwards from what was seen twice, and never from a claim's timestamp."""

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.model import Claim, Pod
from dds_core.scaler import events as e
from tests.support.world import A100, FAILED, H100, SECOND, World, asks, one_node


def waiting(**policy: Any) -> World:
    world = one_node("attach", 8, scan_interval_seconds=0, **policy)
    world.waits("train", "node0")
    return world


def failed_after(world: World, at_most: int = 1000) -> int:
    """Whole seconds from the start of the attempt to its failure."""
    world.tick(at_most)
    failed = next(s for s in world.steps if any(isinstance(d, e.ClaimFailed) for d in s.decisions))
    return (failed.at - world.state.lifecycle.lives.rows[world.uid("train")].began) // SECOND


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        ({}, 540),
        ({"scheduler": {"binding_timeout_seconds": 40}}, 30),
        ({"scheduler": {"attach_budget_seconds": 90}}, 90),
        ({"schedulers": {"default-scheduler": {"binding_timeout_seconds": 200}}}, 150),
        ({"schedulers": {"other": {"binding_timeout_seconds": 200}}}, 540),
    ],
    ids=["default", "a quarter at most", "an own budget", "by name", "another's name"],
)
def test_the_budget_follows_the_scheduler_of_the_pod(policy: dict[str, Any], seconds: int) -> None:
    assert failed_after(waiting(**policy)) == seconds


def gives_up(world: World, claim: str, seconds: float) -> None:
    """The scheduler empties the reservation so long after the allocation, and later takes the allocation back."""
    world.waits(claim, "node0")
    world.tick(seconds - 0.1)
    world.unreserve(claim)
    world.finish(claim)


def test_two_waits_that_end_alike_tell_the_binding_timeout() -> None:
    world = waiting()
    gives_up(world, "a", 120)
    assert not world.state.lifecycle.timeouts.rows["default-scheduler"].learned
    gives_up(world, "b", 121)
    assert world.state.lifecycle.timeouts.rows["default-scheduler"].learned == 120 * SECOND
    assert world.state_of("train") == "Failed", "the new budget holds for those that wait already"
    world.claim("next")
    world.node("node1")
    world.allocate("next", "node1")
    life = world.state.lifecycle.lives.rows[world.uid("next")]
    world.tick(91)
    assert world.events(e.ClaimFailed)[-1].claim == world.uid("next")
    assert "90 s" in world.events(e.ClaimFailed)[-1].message
    assert life.state == "Attaching"


def test_waits_that_differ_tell_nothing() -> None:
    world = waiting()
    for name, seconds in (("a", 20), ("b", 80), ("c", 140)):
        gives_up(world, name, seconds)
    assert not world.state.lifecycle.timeouts.rows["default-scheduler"].learned
    assert world.state_of("train") == "Attaching"


def nothing_learned(world: World) -> bool:
    found = world.state.lifecycle.timeouts.rows.get("default-scheduler")
    return found is None or not found.learned


def test_two_claims_of_a_pod_that_end_together_are_one_wait() -> None:
    world = waiting()
    world.claim("left", pod="both")
    world.claim("right", pod="both")
    for name in ("left", "right"):
        world.allocate(name, "node0")
    world.tick(120)
    for name in ("left", "right"):
        world.unreserve(name)
    assert nothing_learned(world)
    assert world.state_of("train") == "Attaching"


def test_waits_that_end_together_may_have_one_cause() -> None:
    world = waiting()
    for name in ("a", "b", "c"):
        world.waits(name, "node0")
    world.tick(120)
    for name in ("a", "b", "c"):
        world.unreserve(name)
    assert nothing_learned(world)


def test_pods_that_are_deleted_while_they_wait_tell_nothing() -> None:
    world = waiting()
    for name in ("a", "b"):
        world.waits(name, "node0")
        world.tick(30)
        world.update(world.get(Pod, name), deleting=True)
        world.unreserve(name)
        world.finish(name)
    assert nothing_learned(world)


def test_waits_of_a_moment_tell_nothing() -> None:
    world = waiting()
    for name, seconds in (("a", 0.2), ("b", 1.9), ("c", 1.0)):
        gives_up(world, name, seconds)
    assert nothing_learned(world)


def test_another_timeout_in_the_policy_is_believed_until_it_proves_wrong() -> None:
    """So that what was learned does not outlive the scheduler's configuration."""
    world = waiting()
    for name in ("a", "b"):
        gives_up(world, name, 120)
    assert not nothing_learned(world)
    world.change_policy(detaches_per_hour=7, scheduler={"attach_budget_seconds": 80})
    assert not nothing_learned(world), "that is no news of the scheduler's timeout"
    world.change_policy(schedulers={"default-scheduler": {"binding_timeout_seconds": 300}})
    assert nothing_learned(world)
    gives_up(world, "c", 200)
    gives_up(world, "d", 201)
    assert world.state.lifecycle.timeouts.rows["default-scheduler"].learned == 200 * SECOND


def test_a_wait_that_a_condition_ended_tells_nothing() -> None:
    world = waiting()
    for name in ("a", "b"):
        world.waits(name, "node0")
        world.tick(120)
        world.condition(name, FAILED)
        world.unreserve(name)
        world.finish(name)
    assert not world.state.lifecycle.timeouts.rows


def test_the_budget_counts_from_the_observation_and_not_from_the_timestamp() -> None:
    """The scheduler's clock is an hour behind: the claim is not failed for it."""
    world = waiting()
    claim = world.get(Claim, "train")
    allocation = claim.allocation
    assert allocation is not None and allocation.timestamp is not None
    world.update(claim, allocation=replace(allocation, timestamp=allocation.timestamp - 3600 * SECOND))
    world.tick(500)
    assert not world.events(e.ClaimFailed)


def test_what_a_start_finds_is_as_old_as_its_timestamp_once_the_skew_is_known() -> None:
    world = waiting()
    world.claim("found")
    world.tick(5)
    world.feed(e.Started("1", "f", 1, 2, "attach"))
    world.allocate("found", "node0")
    world.tick(300)
    world.feed(e.Synced())
    life = world.state.lifecycle.lives.rows[world.uid("found")]
    assert (world.now - life.began) / SECOND == pytest.approx(300, abs=1)
    world.tick(250)
    assert world.uid("found") in {f.claim for f in world.events(e.ClaimFailed)}


def test_what_a_start_finds_is_not_older_because_the_clock_was_behind_before() -> None:
    """Seed 91103: the clock of the host was two minutes behind and was set right; all claims that a new process found failed."""
    world = waiting()
    claim = world.get(Claim, "train")
    assert claim.allocation is not None
    world.update(claim, allocation=replace(claim.allocation, timestamp=world.now + 120 * SECOND))
    world.claim("found")
    world.tick(600)
    world.feed(e.Started("1", "f", 1, 2, "attach"))
    world.allocate("found", "node0")
    world.tick(10)
    world.feed(e.Synced())
    assert (world.now - world.state.lifecycle.lives.rows[world.uid("found")].began) / SECOND == pytest.approx(10, abs=1)


@pytest.mark.parametrize("ahead", [86_400, 3_600])
def test_one_odd_timestamp_does_not_count_for_ever(ahead: int) -> None:
    """All that a later start found was taken to be as much older, and each guard ended as much later."""
    world = waiting()
    claim = world.get(Claim, "train")
    assert claim.allocation is not None
    odd = replace(claim.allocation, timestamp=world.now + ahead * SECOND)
    world.update(claim, allocation=odd)
    world.claim("next")
    world.allocate("next", "node0")
    world.claim("found")
    world.feed(e.Started("1", "f", 1, 2, "attach"))
    world.allocate("found", "node0")
    world.feed(e.Synced())
    assert world.now - world.state.lifecycle.lives.rows[world.uid("found")].began < 2 * SECOND


def test_the_clock_of_a_scheduler_that_is_far_ahead_is_known_all_the_same() -> None:
    world = waiting()
    for name in ("one", "two"):
        world.claim(name)
        world.allocate(name, "node0")
        claim = world.get(Claim, name)
        assert claim.allocation is not None
        world.update(claim, allocation=replace(claim.allocation, timestamp=world.now + 3_600 * SECOND))
    assert world.state.settings.skew is not None and world.state.settings.skew < -3_590 * SECOND


def test_a_clock_that_is_ahead_is_known_from_what_a_start_finds() -> None:
    """Seed 61242: the guard of the first exchange was over before it began, and the scheduler gave the device to another pod."""
    world = waiting()
    world.feed(e.Started("1", "f", 1, 2, "attach"))
    claim = world.get(Claim, "train")
    assert claim.allocation is not None
    world.update(claim, allocation=replace(claim.allocation, timestamp=world.now + 600 * SECOND))
    world.feed(e.Synced())
    assert world.state.settings.skew is not None and world.state.settings.skew < -599 * SECOND


def test_an_attached_claim_has_no_attach_budget() -> None:
    world = waiting()
    world.settle()
    world.tick(3600)
    assert not world.events(e.ClaimFailed)


def came_in_part(**policy: Any) -> World:
    """Of the two devices of a claim one came in time; the attempt was failed, and the scheduler has cleared the claim."""
    given = {
        "no_removal_seconds": 0,
        "scan_interval_seconds": 0,
        "scheduler": {"binding_timeout_seconds": 60},
        **policy,
    }
    world = one_node("detach", 8, **given)
    world.claim("a", 2, pod="p")
    world.allocate("a", "node0")
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("slow", "node0", request=request, state="Attaching")
    world.online("soon", "node0", request=request)
    world.tick(46)
    world.carry_out()
    assert world.only(e.ClaimFailed).reason == "AttachTimeout"
    world.clear("a")
    return world


def test_what_came_for_a_claim_too_late_stays_for_its_next_attempt() -> None:
    """A claim of several on a fabric that brings one after the other would begin from nothing each time."""
    world = came_in_part()
    world.tick(119)
    assert not world.events(e.VictimMarked)
    world.tick(40)
    assert world.events(e.VictimMarked)


def test_what_came_in_time_stays_when_the_other_request_of_the_claim_was_late() -> None:
    world = World("detach", no_removal_seconds=0, scan_interval_seconds=0, scheduler={"binding_timeout_seconds": 60})
    world.node("node0")
    world.pool(A100, 4)
    world.pool(H100, 4)
    world.claim("a", pod="p", requests=(asks("r0", A100.device), asks("r1", H100.device)))
    world.allocate("a", "node0", (A100, 1), (H100, 1))
    world.carry_out()
    request = {one.model: one.request for one in world.events(e.AttachOrdered)}
    world.resource("slow", "node0", H100, request=request[H100.model], state="Attaching")
    world.online("soon", "node0", request=request[A100.model])
    world.tick(46)
    world.carry_out()
    assert world.only(e.ClaimFailed).model == H100.model
    world.clear("a")
    world.tick(119)
    assert not world.events(e.VictimMarked)
    world.tick(40)
    assert world.events(e.VictimMarked)


def test_what_came_too_late_goes_at_once_when_the_claim_does() -> None:
    world = came_in_part()
    world.gone(world.get(Claim, "a"))
    world.tick(1)
    assert world.events(e.VictimMarked)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_claim_that_is_being_deleted_needs_no_device_and_fails_nobodys_node(ordered: bool) -> None:
    """No scheduler places its pod any more: it stays as it is until its pod is gone."""
    world = one_node("detach", 4, scan_interval_seconds=0)
    world.claim("train", deleting=not ordered)
    world.allocate("train", "node0")
    assert bool(world.events(e.AttachOrdered)) is ordered
    if ordered:
        world.carry_out()
        world.update(world.get(Claim, "train"), deleting=True)
    world.tick(700)
    assert not world.events(e.ClaimFailed) and not world.events(e.CoolDown)
