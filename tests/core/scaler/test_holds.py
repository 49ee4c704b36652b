"""The hold: before a device goes back, a claim of ours has all its faces, so that the scheduler goes elsewhere."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from dds_core.model import Allocation, AttachRequest, Claim, FabricResource, Pod, Result
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.core.scaler.test_restart import restart
from tests.support.world import A100, GPU, SECOND, START, World, asks

IDLE = 300
STEPS = (
    e.HoldBegun,
    e.ClaimsListWanted,
    e.DeviceHeld,
    e.VictimMarked,
    e.DetachOrdered,
    e.VictimUnmarked,
    e.HoldEnded,
)
FACE = (GPU, "node0", "gpu-GPU-res0")


def idle(mode: str = "detach", **policy: Any) -> World:
    """A device on node0 that has idled long enough; what was decided then is not carried out."""
    world = World(mode, exchange=True, scan_interval_seconds=0, no_removal_seconds=IDLE, **policy)
    for name in ("node0", "node1"):
        world.node(name)
    world.pool(A100, 4)
    world.request("ours", "node0", labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("res0", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), state="Running", acted_size=1)
    world.tick(IDLE + 1)
    return world


def up_to(step: type[e.Decision], **policy: Any) -> World:
    world = idle(**policy)
    for _ in range(20):
        if world.events(step):
            return world
        if not world.carry_out():
            world.tick(31)
    raise AssertionError(f"no {step.__name__}: {world.decisions()}")


def go_on(world: World) -> None:
    for _ in range(10):
        world.settle()
        world.tick(31)


def decided(world: World) -> list[str]:
    return [type(one).__name__ for one in world.decisions(*STEPS)]


def test_a_device_is_guarded_listed_and_held_before_it_is_marked_and_let_go_of_when_it_is_gone() -> None:
    world = idle()
    go_on(world)
    assert decided(world) == [
        "HoldBegun",
        "ClaimsListWanted",
        "DeviceHeld",
        "VictimMarked",
        "ClaimsListWanted",
        "DetachOrdered",
        "HoldEnded",
    ]
    assert world.only(e.HoldBegun).devices == (FACE,)
    assert world.only(e.DeviceHeld).hold == "dds-hold-res0"
    assert "res0" not in world.state.fleet.resources
    assert not world.state.give_back.holds.rows
    assert not world.state.demand.claims_holding["res0"]
    assert not world.events(e.Alerted)


def test_nothing_is_held_before_all_claims_were_listed_under_the_guard() -> None:
    world = idle()
    begun = world.only(e.HoldBegun)
    assert 55_000_000 < begun.until - world.now < 60_000_000
    world.tick(3)
    assert not world.events(e.ClaimsListWanted)
    world.done(begun)
    wanted = world.only(e.ClaimsListWanted)
    world.feed(e.ClaimsListed(resource=wanted.resource, started=wanted.fenced - 1))
    assert not world.events(e.DeviceHeld), "that list was begun before the guard was known"
    world.feed(e.ClaimsListed(resource=wanted.resource, started=world.now))
    assert world.only(e.DeviceHeld).devices == (FACE,)
    assert not world.events(e.VictimMarked), "nothing shows the hold yet"


def test_what_a_claim_names_is_not_held() -> None:
    world = up_to(e.ClaimsListWanted)
    world.holds("quick", "node0", FACE[2])
    assert world.only(e.HoldEnded).reason == "a claim holds it"
    go_on(world)
    assert not world.events(e.DeviceHeld)
    assert not world.state.give_back.holds.rows
    assert world.device("res0") == "Used"


def test_all_faces_of_the_hardware_are_held() -> None:
    world = idle()
    world.plug("node0", "gpu-0-part", "MIG-1", more={"type": "mig", "parentUUID": "GPU-res0"})
    world.tick(IDLE)
    go_on(world)
    held = world.events(e.DeviceHeld)[-1].devices
    assert {device for _, _, device in held} == {FACE[2], "gpu-0-part"}


@pytest.mark.parametrize("step", [e.HoldBegun, e.ClaimsListWanted, e.DeviceHeld, e.VictimMarked])
def test_a_claim_that_waits_for_it_gets_it_once_the_hold_is_gone(step: type[e.Decision]) -> None:
    world = up_to(step)
    world.waits("train", "node0")
    assert not world.decisions(e.ExchangeBegun, e.HandOver)
    world.settle()
    go_on(world)
    names = [type(one).__name__ for one in world.decisions(e.HoldEnded, e.ExchangeBegun, e.DevicesGiven)]
    assert names == ["HoldEnded", "ExchangeBegun", "DevicesGiven"]
    assert [one.device for one in world.get(Claim, "train").allocation.results] == [FACE[2]]  # type: ignore[union-attr]
    assert not world.events(e.AttachOrdered), "it is there"


def test_a_held_device_goes_as_soon_as_a_list_has_begun_after_its_hold() -> None:
    """A scheduler that listed or heard of the hold counts its device as allocated; one that chose it before would have to write
    that against the guard, which stands until the hold is seen. So nothing that could be chosen is waited for."""
    world = up_to(e.HoldBegun)
    (since,) = [life.idle_since for life in world.state.lifecycle.devices.rows.values()]
    for _ in range(6):
        world.carry_out()
        world.tick(0.2)
    lowered = world.only(e.DetachOrdered)
    assert world.decided_at(lowered) - (since - START) / SECOND <= IDLE + 1 + 2, (
        "at most 2 s after the idle time was seen over"
    )


def test_a_pod_that_could_take_it_ends_the_hold() -> None:
    world = up_to(e.VictimMarked)
    world.carry_out(e.VictimMarked)
    world.claim("soon", requests=(asks("r", A100.device),))
    world.update(world.get(Pod, "soon"), nominated="node0")
    assert world.only(e.VictimUnmarked).reason == "a pod nominated to the node could take it"
    world.only(e.HoldEnded)


def test_a_pod_that_could_take_it_does_not_call_off_the_detach_of_what_is_held() -> None:
    """Found by a random fleet: nobody can take it, and the operator, which had begun, ordered another one in its place."""
    world = up_to(e.DetachOrdered)
    world.carry_out()
    world.claim("soon", requests=(asks("r", A100.device),))
    world.update(world.get(Pod, "soon"), nominated="node0")
    assert not world.events(e.VictimUnmarked) and not world.events(e.AttachOrdered)


def test_a_hold_that_ended_begins_anew_after_a_pause_however_short_a_device_may_idle() -> None:
    """With less time to idle than the pause takes nothing looked at the device again."""
    world = up_to(e.HoldBegun)
    world.change_policy(no_removal_seconds=10)
    world.claim("soon", requests=(asks("r", A100.device),))
    world.update(world.get(Pod, "soon"), nominated="node0")
    world.only(e.HoldEnded)
    world.gone(world.get(Pod, "soon"))
    world.settle()
    world.tick(29)
    world.only(e.HoldBegun)
    world.tick(1)
    assert len(world.events(e.HoldBegun)) == 2


def test_nor_is_it_held_sooner_for_a_claim_on_another_node() -> None:
    world = World("detach", exchange=True, scan_interval_seconds=0, no_removal_seconds=3600)
    for name in ("node0", "node1"):
        world.node(name)
    world.pool(A100, 0)
    labels = {"app.kubernetes.io/managed-by": "dds"}
    world.request("ours", "node0", labels=labels, state="Running", acted_size=1)
    world.online("res0", "node0", request="ours")
    world.waits("train", "node1", *pool_results(0))
    world.only(e.HoldBegun)
    world.claim("soon", requests=(asks("r", A100.device),))
    world.update(world.get(Pod, "soon"), nominated="node0")
    world.gone(world.get(Pod, "soon"))
    world.settle()
    world.relabel("node1", {"looked": "at"})
    world.only(e.HoldBegun)
    world.tick(31)
    world.relabel("node1", {"looked": "at it again"})
    assert len(world.events(e.HoldBegun)) == 2


def test_nothing_is_held_by_a_name_under_which_another_one_leaves() -> None:
    """Found by a random fleet: a driver that numbers devices by their place gives the name of one that leaves to the next. Of two
    holds with one name the first to go frees it for everybody."""
    world = up_to(e.DetachOrdered)
    world.carry_out()
    its_name_goes_on(world)
    for _ in range(IDLE // 31 + 2):
        world.tick(31)
    assert [one.resource for one in world.events(e.HoldBegun)] == ["res0"]
    world.carry_out()
    world.tick(1)
    assert not world.state.demand.claims_holding["res0"]
    assert [one.resource for one in world.events(e.HoldBegun)] == ["res0", "res1"]


def its_name_goes_on(world: World) -> None:
    """The device of res0 is off its node, its resource hangs, and the next device has its name."""
    world.resource("res0", "node0", deleting=True)
    world.unplug("node0", FACE[2])
    world.update(world.get(AttachRequest, "ours"), size=1, acted_size=1)
    world.resource("res1", "node0", state="Attaching", uuid="GPU-res1", request="ours")
    world.plug("node0", FACE[2], "GPU-res1")
    world.resource("res1", "node0", state="Online")


def test_a_hold_does_not_outlive_the_name_of_its_device() -> None:
    """Seed 46282: the resource of the one that had gone hung for a quarter of an hour, and its hold kept the next device of that
    name from everybody."""
    world = up_to(e.DetachOrdered)
    world.carry_out()
    world.claim("train")
    world.allocate("train", "node0")
    its_name_goes_on(world)
    ended = world.only(e.HoldEnded)
    assert (ended.resource, ended.reason) == ("res0", "another device has its name by now")
    world.settle()
    given = world.only(e.DevicesGiven)
    assert [one.device for one in given.swap.results] == [FACE[2]]
    world.tick(31)
    assert not world.events(e.Alerted), "it is the next device that the claim has"


def test_what_came_to_another_node_since_is_not_held_for_a_resource_that_lost_it() -> None:
    """A device fell out of its machine and was attached to another one; the resource of before goes on naming it."""
    world = idle()
    go_on(world)
    world.request("theirs", "node1", labels={"app.kubernetes.io/managed-by": "dds"})
    world.update(world.get(AttachRequest, "ours"), size=1, acted_size=1)
    world.online("res1", "node0", request="ours", uuid="GPU-moved")
    world.unplug("node0", "gpu-GPU-moved")
    world.online("res2", "node1", request="theirs", uuid="GPU-moved")
    world.resource("res1", "node0", error="it is not attached to node0")
    world.tick(IDLE + 1)
    assert [one.resource for one in world.events(e.HoldBegun)] == ["res0", "res2"]
    assert world.events(e.HoldBegun)[-1].devices == ((GPU, "node1", "gpu-GPU-moved"),)
    world.holds("user", "node1", "gpu-GPU-moved")
    assert (world.device("res1"), world.device("res2")) == ("Idle", "Used")


@pytest.mark.parametrize("step", [e.HoldBegun, e.DeviceHeld, e.VictimMarked])
def test_a_device_that_two_resources_name_does_not_go_as_one_while_a_claim_waits_for_it_as_the_other(
    step: type[e.Decision],
) -> None:
    """It left its machine and came again, and the operator has made another resource for it."""
    world = up_to(step)
    world.request("theirs", "node0")
    world.online("again", "node0", request="theirs", uuid="GPU-res0")
    world.waits("train", "node0", reserved=False)
    world.settle()
    assert world.reserved("train") == ["GPU-res0"]
    assert world.events(e.HoldEnded)[-1].resource == "res0"
    assert not world.state.give_back.holds.rows and not world.events(e.DetachOrdered)
    assert len(world.events(e.VictimMarked)) == len(world.events(e.VictimUnmarked))


def test_what_another_node_lists_by_now_is_unlisted_on_its_own() -> None:
    world = idle()
    world.online("res1", "node0", request="ours", uuid="GPU-moved")
    world.unplug("node0", "gpu-GPU-moved")
    world.online("res2", "node1", uuid="GPU-moved")
    world.plug("node0", "fixed", "GPU-fixed")
    world.tick(301)
    assert [one.of for one in world.events(e.Alerted) if one.reason == "DeviceUnlisted"] == ["res1"]


@pytest.mark.parametrize("step", [e.HoldBegun, e.ClaimsListWanted, e.DeviceHeld, e.VictimMarked])
@pytest.mark.parametrize("mode", ["attach", "observe"])
def test_lowering_the_mode_takes_hold_and_guard_away(step: type[e.Decision], mode: str) -> None:
    world = up_to(step)
    world.change_policy(mode=mode)
    ended = world.only(e.HoldEnded)
    assert ended.mode != "observe", "it is written whatever the mode is by now"
    for _ in range(3):
        world.carry_out()
    assert not world.state.demand.claims_holding["res0"]
    assert not world.state.give_back.holds.rows


def test_one_that_is_held_while_it_leaves_for_long_keeps_no_other_from_going() -> None:
    """Its size is lowered already. It can leave for ever: the operator waits until no node lists the device, and another node may
    have it by then."""
    world = up_to(e.DetachOrdered)
    world.carry_out()
    world.resource("res0", "node0", state="Detaching", deleting=True)
    world.online("res1", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), size=1, acted_size=1)
    world.tick(IDLE + 1)
    assert world.state.give_back.holds.rows["res0"].stage == "held"
    assert world.events(e.HoldBegun)[-1].resource == "res1"


def test_a_device_whose_detach_is_ordered_is_held_until_it_is_gone() -> None:
    world = up_to(e.DetachOrdered)
    world.carry_out()
    world.change_policy(mode="observe")
    world.carry_out()
    assert world.state.demand.claims_holding["res0"]
    world.operate()
    world.carry_out()
    assert not world.state.demand.claims_holding["res0"]


@pytest.mark.parametrize("deleted", [True, False])
def test_a_hold_that_somebody_takes_away_keeps_the_device_from_going(deleted: bool) -> None:
    world = up_to(e.VictimMarked)
    world.carry_out(e.VictimMarked)
    hold = world.state.demand.claims.rows["hold-res0"]
    if deleted:
        world.gone(hold)
    else:
        world.update(hold, allocation=Allocation((Result("device", GPU, "node0", "another"),), "node0"))
    assert world.only(e.VictimUnmarked).reason == "its hold was taken away"
    world.only(e.HoldEnded)
    assert not world.events(e.DetachOrdered)
    world.tick(IDLE)
    go_on(world)
    assert len(world.events(e.DeviceHeld)) == 2, "it begins anew"
    assert "res0" not in world.state.fleet.resources


def test_a_hold_that_the_garbage_collector_takes_is_no_reason_to_call_the_detach_off() -> None:
    """Its resource was gone, and that was heard a moment later: both devices of the node were ordered anew, and never used."""
    world = up_to(e.DetachOrdered)
    world.gone(world.state.demand.claims.rows["hold-res0"])
    assert not world.events(e.VictimUnmarked) and not world.events(e.AttachOrdered)
    go_on(world)
    assert "res0" not in world.state.fleet.resources and not world.state.give_back.holds.rows
    assert not world.events(e.AttachOrdered)


def test_nor_is_the_device_taken_from_who_got_it_since() -> None:
    world = up_to(e.DetachOrdered)
    world.gone(world.state.demand.claims.rows["hold-res0"])
    world.holds("quick", "node0", FACE[2])
    assert [one.size for one in world.events(e.AttachOrdered)] == [1]


@pytest.mark.parametrize("step", [e.HoldBegun, e.DeviceHeld])
def test_where_a_hold_is_refused_the_guard_goes_and_the_policy_decides(step: type[e.Decision]) -> None:
    world = up_to(step, detach_without_fence="never")
    world.refused(world.events(step)[-1])
    world.only(e.HoldEnded)
    world.carry_out()
    world.tick(IDLE - 30)
    assert not world.decisions(e.VictimMarked, step)[1:]
    world.change_policy(detach_without_fence="best_effort")
    world.tick(30)
    world.only(e.VictimMarked)


def test_a_guard_that_is_not_seen_to_act_in_time_is_tried_again_and_nothing_goes_unheld() -> None:
    world = up_to(e.HoldBegun)
    late = e.WriteRefused(decision="", action="HoldBegun", target="res0", code=0, reason="NotGuarded")
    for _ in range(3):
        world.feed(late)
        world.carry_out(e.HoldEnded)
        world.tick(IDLE + 130)
    assert not world.events(e.VictimMarked)
    assert len(world.events(e.HoldBegun)) == 4
    go_on(world)
    assert "res0" not in world.state.fleet.resources


@pytest.mark.parametrize("step", [e.HoldBegun, e.ClaimsListWanted, e.DeviceHeld, e.VictimMarked, e.DetachOrdered])
@pytest.mark.parametrize("carried_out", [True, False])
def test_after_a_crash_it_goes_on_or_begins_anew_and_nothing_is_left_over(
    step: type[e.Decision], carried_out: bool
) -> None:
    world = up_to(step)
    if carried_out:
        world.carry_out(step)
    restart(world)
    go_on(world)
    assert "res0" not in world.state.fleet.resources
    assert not world.state.demand.claims_holding["res0"]
    assert not world.state.give_back.holds.rows


def test_a_hold_of_a_lost_log_is_taken_away() -> None:
    world = idle("attach")
    allocation = Allocation((Result("device", *FACE),), "node0")
    world.observe(Claim("hold-res0", "dds", "dds-hold-res0", allocation=allocation, hold="res0"))
    assert world.only(e.HoldEnded).reason == "this log does not say why it is held"
    world.carry_out()
    assert not world.state.give_back.holds.rows
    elsewhere = Claim("other", "elsewhere", "dds-hold-res0", allocation=allocation, hold="res0")
    world.observe(elsewhere)
    assert len(world.events(e.HoldEnded)) == 1, "only what is in our namespace is ours"


def test_the_guard_is_taken_off_after_a_crash_though_the_hold_went_with_its_resource() -> None:
    """The garbage collector takes it as soon as its owner is gone; the guard stayed for ever."""
    world = up_to(e.DetachOrdered)
    world.carry_out()
    world.gone(world.get(FabricResource, "res0"))
    assert world.only(e.HoldEnded).devices == (FACE,)
    world.gone(next(world.state.demand.claims.rows[uid] for uid in world.state.demand.claims_holding["res0"]))
    assert world.state.give_back.holds.rows, "the guard may still be there"
    (again,) = [one for one in restart(world) if isinstance(one, e.HoldEnded)]
    assert again.devices == (FACE,)
    world.carry_out()
    assert not world.state.give_back.holds.rows


def test_a_claim_beside_a_hold_is_told() -> None:
    world = up_to(e.VictimMarked)
    world.carry_out()
    world.holds("thief", "node0", FACE[2])
    told = {alert.of for alert in world.events(e.Alerted) if alert.reason == "DeviceTwice"}
    assert told == {"hold-res0", world.uid("thief")}


def test_in_observe_the_first_step_is_shown_and_nothing_follows() -> None:
    world = idle("observe")
    assert world.only(e.HoldBegun).mode == "observe"
    go_on(world)
    assert decided(world) == ["HoldBegun"]


# -- what a reviewer's sequences came to --------------------------------------------------------------------------------


def lowered(low: int = 0) -> World:
    """Of two devices of a request one is in use; the other is held and marked, the size is lowered, and the operator has not
    acted yet. `low`: the node's minimum."""
    world = World("detach", exchange=True, scan_interval_seconds=0, no_removal_seconds=IDLE)
    world.node("node0", labels={f"cohdi.io/{A100.device}-size-min": str(low)} if low else {})
    world.pool(A100, 4)
    world.request("ours", "node0", size=2, labels={"app.kubernetes.io/managed-by": "dds"})
    for name in ("res0", "res1"):
        world.online(name, "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), state="Running", acted_size=2)
    world.holds("user", "node0", "gpu-GPU-res0")
    world.bind("user")
    world.tick(IDLE + 1)
    while not world.events(e.DetachOrdered):
        if not world.carry_out():
            world.tick(31)
    world.carry_out()
    return world


@pytest.mark.parametrize("then", ["the minimum", "a claim", "attach", "observe"])
def test_after_a_restart_a_lowered_size_takes_nothing_that_is_in_use(then: str) -> None:
    world = lowered(low=1 if then == "the minimum" else 0)
    restart(world)
    if then == "a claim":
        world.waits("train", "node0")
    elif then in ("attach", "observe"):
        world.change_policy(mode=then)
    for _ in range(4):
        world.carry_out()
    assert then != "observe" or world.state.demand.claims_holding["res1"], "held until it is gone"
    world.operate()
    assert "res0" in world.state.fleet.resources
    assert not [alert for alert in world.events(e.Alerted) if alert.reason == "DetachedInUse"]


def test_a_hold_that_somebody_makes_an_ordinary_claim_has_the_device() -> None:
    world = up_to(e.VictimMarked)
    world.carry_out()
    world.update(world.state.demand.claims.rows["hold-res0"], hold="")
    assert world.device("res0") == "Used"
    world.waits("train", "node0")
    go_on(world)
    assert not [one for one in world.events(e.ExchangeBegun) if FACE in one.guarded]
    world.gone(world.state.demand.claims.rows["hold-res0"])
    assert world.device("res0") == "Idle"


def test_a_hold_that_holds_nothing_keeps_nobody_waiting() -> None:
    """It may be there for long yet, as one with a finalizer is; and anybody may write its label on a claim."""
    world = up_to(e.VictimMarked)
    world.carry_out()
    world.observe(Claim("squat", "elsewhere", "squat", hold="res0"))
    world.waits("train", "node0")
    ended = world.only(e.HoldEnded)
    assert ended.hold == "dds-hold-res0"
    world.update(world.state.demand.claims.rows["hold-res0"], allocation=None, deleting=True)
    world.done(ended)
    assert not world.state.give_back.holds.rows
    assert world.events(e.ExchangeBegun)


def test_a_face_that_comes_after_the_mark_takes_fence_and_hold_down() -> None:
    world = up_to(e.VictimMarked)
    world.carry_out()
    world.plug("node0", "gpu-0-part", "MIG-1", more={"type": "mig", "parentUUID": "GPU-res0"})
    assert world.only(e.VictimUnmarked).reason == "it has got another name on the node"


def test_a_hold_of_a_lost_log_stays_while_its_device_is_about_to_go() -> None:
    world = idle("attach")
    world.resource("res0", "node0", marked=True)
    allocation = Allocation((Result("device", *FACE),), "node0")
    world.observe(Claim("hold-res0", "dds", "dds-hold-res0", allocation=allocation, hold="res0"))
    assert not world.events(e.HoldEnded)


def test_hardware_with_more_faces_than_a_claim_may_name_goes_as_the_policy_says() -> None:
    world = idle("attach")
    for number in range(32):
        world.plug("node0", f"gpu-0-{number}", f"MIG-{number}", more={"type": "mig", "parentUUID": "GPU-res0"})
    world.change_policy(mode="detach", detach_without_fence="never")
    assert not world.decisions(e.HoldBegun, e.VictimMarked)
    world.change_policy(detach_without_fence="best_effort")
    world.only(e.VictimMarked)


def test_what_cannot_go_for_long_is_let_go_of() -> None:
    world = up_to(e.VictimMarked)
    world.update(world.get(AttachRequest, "ours"), state="Failed")
    world.carry_out()
    world.tick(31)
    world.carry_out()
    world.tick(700)
    assert world.only(e.VictimUnmarked).reason == "its size could not be lowered for long"
    assert not world.events(e.DetachOrdered)


def test_a_device_that_is_let_go_again_and_again_is_held_later_each_time_and_told() -> None:
    """A pod is nominated to the node and goes, each time that a hold has begun."""
    world = idle()
    world.change_policy(no_removal_seconds=10)
    ended: list[int] = []
    for number in range(5):
        while len(world.events(e.HoldBegun)) == number:
            world.tick(0.5)
        world.claim(f"maybe{number}", pod=f"maybe{number}")
        world.pod(f"maybe{number}", [f"maybe{number}"], nominated="node0")
        assert len(world.events(e.HoldEnded)) == number + 1
        ended.append(world.now)
        world.gone(world.get(Pod, f"maybe{number}"))
        world.carry_out()
    pauses = [(later - now) // SECOND for now, later in pairwise(ended)]
    assert pauses == [30, 60, 120, 240]
    told = world.only(e.Alerted)
    assert told.reason == "HeldInVain" and told.text.startswith("res0 on node0 is about to go back and is let go again")
    assert world.state.notes.is_alerted("res0", told.reason)
    world.holds("train", "node0", FACE[2])
    assert not world.state.notes.is_alerted("res0", told.reason), (
        "it is used, and a person is told anew if it happens again"
    )


def test_a_hold_is_ended_on_a_node_that_has_neither_devices_nor_requests_any_more() -> None:
    """Found by a random fleet: the node was lost, and guards stayed."""
    world = up_to(e.DeviceHeld)
    world.gone(world.get(AttachRequest, "ours"))
    world.gone(world.get(FabricResource, "res0"))
    world.only(e.HoldEnded)


def test_a_guard_that_is_refused_when_its_hold_is_ending_ends_it_no_second_time() -> None:
    """The write was slow: the guard's time was over before the API server answered."""
    world = idle()
    begun = world.only(e.HoldBegun)
    world.tick(61)
    assert len(world.events(e.HoldEnded)) == 1
    world.refused(begun)
    assert world.state.give_back.holds.rows["res0"].stage == "ending"
    world.tick(1)
    assert len(world.events(e.HoldEnded)) == 1
