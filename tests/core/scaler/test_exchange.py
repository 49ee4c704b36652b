"""The exchange: a claim is given the devices of its node while its pod waits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.events import NodeLabelled
from dds_core.model import Claim, Consumer, Node, Pod, Result
from dds_core.replay import of_steps
from dds_core.scaler import events as e
from dds_core.scaler.blame import EXCHANGE, GOING, NODE, TAKEN
from dds_core.scaler.model import ANY_VERSION
from dds_core.scaler.waiting import waiting_rows
from tests.core.scaler.history.told import differences
from tests.core.scaler.pools import pool_results
from tests.core.scaler.test_restart import restart
from tests.support.world import A100, GPU, H100, SECOND, START, World, asks

STEPS = (e.ExchangeBegun, e.ClaimsListWanted, e.AllocationCleared, e.DevicesGiven)
HANDED = (e.HandOver, *STEPS)


def ready(claims: int = 1, mode: str = "attach", **policy: Any) -> World:
    """The device of each claim of a pod has just come to node0, and nothing of what was decided then is carried out."""
    world = World(mode, exchange=True, synced=False, scan_interval_seconds=0, **policy)
    for name in ("node0", "node1"):
        world.node(name)
    world.pool(A100, 8)
    for number in range(claims):
        world.claim(f"train{number}", pod="train0")
    for number in range(claims):
        world.allocate(f"train{number}", "node0", *pool_results(number))
    world.sync()
    world.carry_out()
    request = world.events(e.AttachOrdered)[-1].request
    for number in range(claims):
        world.online(f"res{number}", "node0", request=request)
    return world


def up_to(step: type[e.Decision], claims: int = 1, **policy: Any) -> World:
    """The exchange has come to this decision, which is not carried out yet."""
    world = ready(claims, **policy)
    for _ in range(20):
        if world.events(step):
            return world
        world.carry_out()
    raise AssertionError(f"no {step.__name__}: {world.decisions()}")


def decided(world: World) -> list[str]:
    return [type(one).__name__ for one in world.decisions(*HANDED, e.ExchangeEnded, e.GuardLifted)]


def devices(world: World, claim: str) -> list[str]:
    allocation = world.get(Claim, claim).allocation
    return [result.device for result in allocation.results] if allocation is not None else []


# -- the way ------------------------------------------------------------------------------------------------------------


def test_the_claim_gets_its_device_and_the_pod_is_bound() -> None:
    world = ready()
    world.settle()
    assert decided(world) == [step.__name__ for step in STEPS]
    assert devices(world, "train0") == ["gpu-GPU-res0"]
    assert world.state_of("train0") == "Attached"
    world.bind("train0")
    assert [move[0] for move in world.moves("train0")][-3:] == ["device_ready", "allocated_local", "pod_bound"]
    moved = world.events(e.ClaimMoved)[-2]
    assert moved.cause == "exchanged nvidia-a100-40-0 for gpu-GPU-res0"
    assert world.device("res0") == "Used"
    assert not world.events(e.Alerted)


def test_nothing_is_written_to_a_claim_before_its_device_is_guarded_and_all_claims_were_listed() -> None:
    world = ready()
    begun = world.only(e.ExchangeBegun)
    assert begun.guarded == ((GPU, "node0", "gpu-GPU-res0"),)
    assert (begun.until - START) / SECOND == pytest.approx(world.decided_at(begun) + 60)
    world.tick(5)
    assert not world.events(e.ClaimsListWanted)
    world.done(begun)
    wanted = world.only(e.ClaimsListWanted)
    world.feed(e.ClaimsListed(resource=wanted.resource, started=wanted.fenced - 1))
    assert not world.events(e.AllocationCleared), "that list was begun before the guard was known"
    world.feed(e.ClaimsListed(resource=wanted.resource, started=world.now))
    assert world.only(e.AllocationCleared).claim == world.uid("train0")


def test_the_second_write_waits_until_our_own_watch_has_shown_the_first() -> None:
    world = up_to(e.AllocationCleared)
    world.done(world.only(e.AllocationCleared), version="17")
    assert not world.events(e.DevicesGiven)
    world.clear("train0")
    given = world.only(e.DevicesGiven)
    assert given.version == "17"
    assert given.instead == ("nvidia-a100-40-0",)
    assert given.swap.results == (Result("r0", GPU, "node0", "gpu-GPU-res0"),)
    assert given.swap.consumers == (Consumer("pod-default-train0", "train0"),)
    assert world.state_of("train0") == "Attached"
    assert "cleared" not in [move[0] for move in world.moves("train0")]


def test_all_claims_of_a_pod_are_guarded_at_once_and_given_one_by_one() -> None:
    world = ready(2)
    world.settle()
    begun = world.only(e.ExchangeBegun)
    assert begun.for_claims() == (world.uid("train0"), world.uid("train1"))
    assert [given.claim for given in world.events(e.DevicesGiven)] == [world.uid("train0"), world.uid("train1")]
    assert devices(world, "train0") == ["gpu-GPU-res0"]
    assert devices(world, "train1") == ["gpu-GPU-res1"]


def test_what_stays_of_a_claim_stays() -> None:
    world = World("attach", exchange=True, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    nic = Result("nic", "nic.example.com", "node0", "eth0")
    world.claim("train", requests=(asks("gpu", A100.device), asks("nic", "nics")))
    world.allocate("train", "node0", replace(pool_results(0)[0], request="gpu"), nic)
    world.settle()
    results = world.only(e.DevicesGiven).swap.results
    assert [one.request for one in results] == ["gpu", "nic"]
    assert results[1] == nic
    assert world.only(e.ExchangeBegun).guarded == (results[0].key, nic.key)


def test_a_first_choice_is_exchanged_for_the_second() -> None:
    world = World("attach", exchange=True, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.online("first", "node0", H100)
    world.claim("train", requests=(asks("gpu", H100.device, A100.device),))
    world.allocate("train", "node0", replace(pool_results(0)[0], request=f"gpu/{A100.device}"))
    world.settle()
    given = world.only(e.DevicesGiven)
    assert [one.request for one in given.swap.results] == [f"gpu/{H100.device}"]
    assert given.swap.config == "", "another request has another configuration"


# -- when it is not begun -----------------------------------------------------------------------------------------------


def stands_against(world: World) -> str:
    """What the hand-over in the old way says; nothing of an exchange was begun."""
    assert not world.events(e.ExchangeBegun)
    return world.only(e.HandOver).why


def waiting(**policy: Any) -> World:
    world = World("attach", exchange=True, scan_interval_seconds=0, **policy)
    for name in ("node0", "node1"):
        world.node(name)
    world.pool(A100, 8)
    world.waits("train", "node0")
    world.carry_out()
    return world


def comes(world: World) -> World:
    world.online("res", "node0", request=world.events(e.AttachOrdered)[-1].request)
    return world


def test_the_policy_may_say_clear_for_all_or_for_one_scheduler() -> None:
    assert stands_against(comes(waiting(hand_over="clear"))) == "the policy says clear"
    one = {"default-scheduler": {"hand_over": "clear"}}
    assert stands_against(comes(waiting(schedulers=one))) == "the policy says clear"


def test_of_another_scheduler_nothing_is_known_unless_the_policy_says_so() -> None:
    world = waiting()
    world.pod("train", scheduler="volcano")
    assert stands_against(comes(world)) == "it is not known whether the scheduler volcano looks at its claims anew"
    world = waiting(schedulers={"mine": {"hand_over": "exchange"}})
    world.pod("train", scheduler="mine")
    assert comes(world).events(e.ExchangeBegun)


@pytest.mark.parametrize(
    ("can", "why"),
    [
        (e.Capabilities(version="1.35", guards="dds"), "the scheduler is of version 1.35"),
        (e.Capabilities(guards="dds"), "the scheduler is of version unknown"),
        (
            e.Capabilities(version="1.36", unguarded="there is no policy"),
            "devices cannot be guarded: there is no policy",
        ),
    ],
)
def test_the_server_must_be_such(can: e.Capabilities, why: str) -> None:
    world = waiting()
    world.feed(can)
    assert stands_against(comes(world)) == why


def test_every_pod_of_the_claim_must_be_reserved() -> None:
    world = waiting()
    world.pod("other", ["train"])
    assert stands_against(comes(world)) == (
        "default/train is not reserved for every pod that refers to it, and for no other"
    )


def test_without_a_pod_there_is_none() -> None:
    """It was deleted, and the claim controller has not taken the allocation back yet."""
    world = waiting()
    world.gone(world.get(Pod, "train"))
    world.unreserve("train")
    assert stands_against(comes(world)) == "no pod waits for it"
    assert not world.events(e.Alerted)


def test_two_pods_that_are_both_reserved_are_fine() -> None:
    world = waiting()
    world.pod("other", ["train"])
    both = tuple(Consumer(world.get(Pod, name).uid, name) for name in ("train", "other"))
    world.update(world.get(Claim, "train"), consumers=both)
    comes(world).settle()
    assert world.only(e.DevicesGiven).swap.consumers == both


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"protected": False}, "default/train lacks the finalizer of an allocated claim"),
        ({"told": ((GPU, "node0", "gpu-9"),)}, "somebody else keeps a status of a device of default/train"),
        (
            {"consumers": (Consumer("group", "group", "podgroups"),)},
            "default/train is not reserved for every pod that refers to it, and for no other",
        ),
    ],
)
def test_the_claim_must_be_such(fields: dict[str, Any], why: str) -> None:
    world = waiting()
    world.update(world.get(Claim, "train"), **fields)
    assert stands_against(comes(world)) == why


def test_a_claim_that_is_being_deleted_is_not_handed_over_and_so_it_is_told() -> None:
    """Before, each try was overtaken, and the next one came after a pause, as long as the pod waited."""
    world = waiting()
    world.update(world.get(Claim, "train"), deleting=True)
    comes(world)
    assert not world.decisions(*HANDED)
    assert not world.state.hand_over.reservations.rows, "others may have its device"
    (row,) = waiting_rows(world.state)
    assert row.stage == GOING
    assert row.why == "is being deleted, so that no scheduler places its pod"


def test_a_status_of_a_device_that_goes_is_in_nobodys_way() -> None:
    world = waiting()
    world.update(world.get(Claim, "train"), told=(pool_results(0)[0].key,))
    comes(world).settle()
    assert world.events(e.DevicesGiven)


def test_after_a_new_beginning_of_the_watch_it_waits_for_half_a_minute() -> None:
    world = waiting()
    world.feed(e.ClaimsRelisted())
    world.tick(29)
    assert stands_against(comes(world)) == "the watch of claims began anew lately"
    world = waiting()
    world.feed(e.ClaimsRelisted())
    world.tick(30)
    assert comes(world).events(e.ExchangeBegun)


def test_a_cordoned_node_is_no_obstacle_and_one_that_goes_is() -> None:
    world = waiting()
    world.update(world.get(Node, "node0"), unschedulable=True)
    assert comes(world).events(e.ExchangeBegun)
    world = waiting()
    world.update(world.get(Node, "node0"), deleting=True)
    comes(world)
    assert not world.decisions(*HANDED)


def test_in_observe_it_is_shown_once() -> None:
    world = World("observe", exchange=True, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.plug("node0", "gpu-0", "GPU-0")
    world.waits("train", "node0")
    world.tick(100)
    world.relabel("node0", {"a": "b"})
    begun = world.only(e.ExchangeBegun)
    assert (begun.mode, begun.until) == ("observe", 0)
    assert world.state_of("train") == "Attached"


# -- what comes in between ----------------------------------------------------------------------------------------------


def test_a_rival_that_has_the_device_keeps_it_and_the_claim_gets_another() -> None:
    world = up_to(e.ClaimsListWanted)
    world.holds("rival", "node0", "gpu-GPU-res0")
    world.carry_out()
    assert world.only(e.ExchangeEnded).reason == "claim default/rival has one of the devices"
    assert world.only(e.GuardLifted).devices == ((GPU, "node0", "gpu-GPU-res0"),)
    assert not world.events(e.AllocationCleared)
    world.settle()
    (other,) = world.only(e.DevicesGiven).swap.results
    assert other.device != "gpu-GPU-res0"
    assert not world.events(e.Alerted)


def test_while_no_other_is_free_it_says_so() -> None:
    """It said that the devices were there, and that the hand-over was about to begin, for as long as the rival had the device."""
    world = ready()
    world.pool(A100, 0)
    world.holds("rival", "node0", "gpu-GPU-res0")
    row = waiting_rows(world.state)[0]
    assert (row.stage, row.why) == (
        EXCHANGE,
        "its devices are there, they are put into its allocation for node0 (exchange)",
    )
    world.settle()
    row = waiting_rows(world.state)[0]
    assert row.stage == TAKEN
    assert row.why == "default/rival has taken the device that came for it; the pool has no A100 40G left"


def test_of_an_attached_claim_whose_node_was_deleted_that_is_said() -> None:
    """It said that its hand-over was about to begin."""
    world = ready()
    world.gone(world.get(Node, "node0"))
    world.settle()
    (row,) = waiting_rows(world.state)
    assert row.stage == NODE and row.why.startswith("node node0 was deleted; ")


def test_of_an_attached_claim_that_was_robbed_twice_the_second_robber_is_named() -> None:
    """It said that its hand-over was about to begin, and histories counted the time to dds."""
    world = ready()
    world.pool(A100, 0)
    world.online("more", "node0")
    world.holds("rival", "node0", "gpu-GPU-res0")
    assert world.events(e.Reserved)[-1].for_devices() == ("GPU-more",)
    world.holds("second", "node0", "gpu-GPU-more")
    world.settle()
    row = next(one for one in waiting_rows(world.state) if one.claim == "default/train0")
    words = "default/second has taken the device that came for it; the pool has no A100 40G left"
    assert (row.state, row.stage, row.why) == ("Attached", TAKEN, words)
    assert not differences(of_steps(world.steps))


@pytest.mark.parametrize("code", [0, 403])
def test_an_exchange_of_which_a_write_is_refused_is_over_in_histories_too(code: int) -> None:
    """Their stage was `exchange`, dds's own, until the claim was bound, also while it had no allocation any more."""
    world = up_to(e.ExchangeBegun, 2)
    world.refused(world.only(e.ExchangeBegun), code=code)
    assert not world.state.hand_over.exchanges.rows
    assert not differences(of_steps(world.steps))
    world.settle()
    for name in ("train0", "train1"):
        world.unreserve(name)
        world.clear(name)
    world.update(world.get(Pod, "train0"), waiting="Unschedulable")
    assert not differences(of_steps(world.steps))


def goes_another_way(world: World, claim: str) -> None:
    """Its scheduler allocates it afresh, on a device that was always there."""
    world.clear(claim)
    world.plug("node0", "fixed", "GPU-fixed")
    world.allocate_local(claim, "node0", "fixed")


@pytest.mark.parametrize("step", [e.ExchangeBegun, e.ClaimsListWanted])
@pytest.mark.parametrize("refused", [False, True])
def test_when_the_first_claim_of_a_group_goes_another_way_the_others_begin_anew(
    step: type[e.Decision], refused: bool
) -> None:
    """They waited for the outcome of its guard, which nobody told them; the guards outlived their time, and no hold of these
    devices could begin."""
    world = up_to(step, 2)
    begun = world.only(e.ExchangeBegun)
    goes_another_way(world, "train0")
    assert world.only(e.ExchangeEnded).claim == world.uid("train1")
    if refused and step is e.ExchangeBegun:
        world.refused(begun, obsolete=True)
    world.settle()
    assert world.events(e.ExchangeBegun)[-1].for_claims() == (world.uid("train1"),)
    assert devices(world, "train1") == ["gpu-GPU-res1"]
    world.tick(100)
    world.settle()
    assert not world.state.hand_over.exchanges.rows and not world.state.hand_over.guarded.rows


def test_one_that_is_cleared_by_then_is_guarded_alone() -> None:
    world = up_to(e.DevicesGiven, 2)
    restart(world)
    assert len(world.events(e.ExchangeBegun)[-1].swaps) == 2
    goes_another_way(world, "train0")
    assert world.events(e.ExchangeBegun)[-1].for_claims() == (world.uid("train1"),)
    world.settle()
    assert devices(world, "train1") == ["gpu-GPU-res1"]


@pytest.mark.parametrize("step", [e.ExchangeBegun, e.ClaimsListWanted])
def test_what_stands_against_it_before_the_first_write_ends_it(step: type[e.Decision]) -> None:
    world = up_to(step)
    world.feed(e.ClaimsRelisted())
    world.settle()
    assert world.only(e.ExchangeEnded).reason == "the watch of claims began anew lately"
    assert world.only(e.HandOver).why == "the watch of claims began anew lately"
    assert not world.events(e.AllocationCleared)


@pytest.mark.parametrize("step", [e.ExchangeBegun, e.ClaimsListWanted])
def test_a_claim_that_is_being_deleted_by_then_ends_it_and_is_handed_over_in_no_other_way(
    step: type[e.Decision],
) -> None:
    world = up_to(step)
    uid = world.only(e.ExchangeBegun).swaps[0].claim
    world.update(world.state.demand.claims.rows[uid], deleting=True)
    world.settle()
    assert world.only(e.ExchangeEnded).reason.endswith(" is going")
    assert not world.events(e.AllocationCleared) and not world.events(e.HandOver)


def test_a_guard_that_is_about_to_end_is_none() -> None:
    world = ready()
    world.tick(51)
    world.settle()
    assert world.events(e.ExchangeEnded)[0].reason == "its guard is about to end"
    assert devices(world, "train0") == ["gpu-GPU-res0"], "it begins anew"


def test_a_guard_that_is_refused_means_the_old_way_for_a_while() -> None:
    world = ready()
    world.refused(world.only(e.ExchangeBegun))
    assert world.only(e.HandOver).why == "a step of an exchange was refused lately"
    assert world.only(e.GuardLifted).claim == world.uid("train0")


def test_a_guard_that_is_refused_is_none_for_any_claim_of_the_pod() -> None:
    world = ready(2)
    world.refused(world.only(e.ExchangeBegun), code=0)
    assert {one.claim for one in world.events(e.HandOver)[-1].signals} == {world.uid("train0"), world.uid("train1")}
    assert not world.state.hand_over.exchanges.rows


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (e.ExchangeBegun, 0),
        (e.AllocationCleared, 400),
        (e.AllocationCleared, 403),
        (e.DevicesGiven, 0),
        (e.DevicesGiven, 422),
    ],
)
def test_any_other_refusal_is_about_the_one_claim(step: type[e.Decision], code: int) -> None:
    """Everybody was handed over in the old way for ten minutes, for one name that is too long, or one namespace whose webhook
    refuses."""
    world = up_to(step)
    world.refused(world.events(step)[-1], code=code)
    if step is e.DevicesGiven:
        world.allocate("train0", "node0", *pool_results(0))
    assert world.only(e.HandOver).why == "an exchange of default/train0 came to nothing"
    assert comes_to_another(world)


def test_a_guard_that_waited_when_the_mode_was_lowered_is_no_refusal_for_others() -> None:
    world = ready()
    world.change_policy(mode="observe")
    world.refused(world.events(e.ExchangeBegun)[0], code=0)
    world.change_policy(mode="attach")
    assert comes_to_another(world)


def comes_to_another(world: World) -> bool:
    """Whether another claim's exchange begins once its device has come."""
    world.waits("other", "node1")
    world.carry_out()
    world.online("elsewhere", "node1", request=world.events(e.AttachOrdered)[-1].request)
    return world.events(e.ExchangeBegun)[-1].subject == world.uid("other")


def test_a_claim_that_cannot_be_cleared_is_handed_over_in_the_old_way() -> None:
    world = up_to(e.AllocationCleared)
    world.refused(world.only(e.AllocationCleared), obsolete=True)
    assert world.only(e.HandOver).why == "an exchange of default/train0 came to nothing"
    assert world.only(e.GuardLifted).claim == world.uid("train0")


def test_a_scheduler_that_allocates_afresh_in_the_gap_has_its_way() -> None:
    world = up_to(e.DevicesGiven)
    world.allocate("train0", "node1", *pool_results(3))
    world.refused(world.only(e.DevicesGiven), obsolete=True)
    assert world.state_of("train0") in ("Pending", "Attaching")
    assert world.moves("train0")[-1][0] == "ordered"
    assert world.only(e.GuardLifted).claim == world.uid("train0")
    assert not world.events(e.Alerted)
    assert not world.state.lifecycle.lives.rows[world.uid("train0")].vain


def test_a_pod_that_is_deleted_in_the_gap_leaves_nothing_behind() -> None:
    world = up_to(e.AllocationCleared)
    world.gone(world.get(Pod, "train0"))
    world.carry_out()
    assert not world.events(e.DevicesGiven)
    assert world.state_of("train0") == "Released"
    assert world.only(e.GuardLifted).claim == world.uid("train0")
    assert not world.state.hand_over.exchanges.rows


def test_a_step_that_comes_to_nothing_in_the_gap_is_told() -> None:
    world = up_to(e.DevicesGiven)
    world.refused(world.only(e.DevicesGiven), obsolete=True)
    assert world.only(e.Alerted).reason == "ExchangeLeft"
    assert "(its devices were not given, since it had changed)" in world.only(e.Alerted).text
    assert world.only(e.GuardLifted).claim == world.uid("train0")
    world.allocate("train0", "node0", *pool_results(0))
    world.settle()
    assert devices(world, "train0") == ["gpu-GPU-res0"]


def test_where_the_guard_is_refused_after_a_restart_all_that_are_cleared_are_left_and_that_is_told() -> None:
    world = up_to(e.AllocationCleared, 2)
    for number in range(2):
        world.clear(f"train{number}")
    restart(world)
    world.refused(world.events(e.ExchangeBegun)[-1])
    told = [(one.subject, one.reason) for one in world.events(e.Alerted)]
    assert told == [(world.uid(f"train{number}"), "ExchangeLeft") for number in range(2)]
    assert all("(its guard was not written)" in one.text for one in world.events(e.Alerted))
    assert {row.why for row in waiting_rows(world.state)} == {
        "its devices are there, the scheduler allocates it anew: its exchange ended between its two writes"
    }


def test_a_device_that_somebody_took_in_the_gap_is_not_given_twice() -> None:
    world = up_to(e.AllocationCleared)
    world.holds("rival", "node0", "gpu-GPU-res0")
    world.carry_out()
    assert not world.events(e.DevicesGiven)
    assert world.only(e.ExchangeEnded).reason == "claim default/rival took one of the devices in between"


def test_two_claims_with_one_device_are_both_told_of_with_both_names_at_once() -> None:
    """The older one's was left to the next level pass."""
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.plug("node0", "gpu-0", "GPU-0")
    world.holds("one", "node0", "gpu-0")
    assert not world.events(e.Alerted)
    world.holds("two", "node0", "gpu-0")
    text = (
        "claims default/one and default/two have the device gpu-0 of pool node0 both: delete the pod of one of them, and restart "
        "the scheduler, whose record of devices in use is wrong by now"
    )
    told = [(one.of, one.text) for one in world.events(e.Alerted)]
    assert told == [("uid-default-two", text), ("uid-default-one", text)]


def test_a_device_that_is_cut_into_parts_before_it_is_given_is_not_given() -> None:
    """The pod was bound with a device that was not there any more, and never started."""
    world = up_to(e.ClaimsListWanted)
    world.unplug("node0", "gpu-GPU-res0")
    world.carry_out()
    assert world.only(e.ExchangeEnded).reason == "the devices do not satisfy it any more"
    assert not world.events(e.AllocationCleared)


def test_nor_is_one_that_goes_in_the_gap() -> None:
    world = up_to(e.AllocationCleared)
    world.unplug("node0", "gpu-GPU-res0")
    world.carry_out()
    assert world.only(e.ExchangeEnded).reason == "gpu-GPU-res0 went in between"
    assert not world.events(e.DevicesGiven)


@pytest.mark.parametrize("given", [True, False])
def test_what_the_claim_had_already_is_not_free_in_the_gap_though_its_driver_lists_it_no_more(given: bool) -> None:
    """Seed 44329: it was given to the claim again under a name that led to no device, counted as idle, and was detached."""
    world = World("detach", exchange=True, scan_interval_seconds=0, no_removal_seconds=60)
    world.node("node0")
    world.pool(A100, 4)
    world.request("ours", "node0", size=2, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("had", "node0", request="ours")
    world.claim("train", devices=2)
    world.allocate("train", "node0", Result("r0", GPU, "node0", "gpu-GPU-had"), pool_results(0)[0])
    world.unplug("node0", "gpu-GPU-had")
    world.online("comes", "node0", request="ours")
    for _ in range(20):
        if world.events(e.DevicesGiven):
            break
        world.carry_out()
    assert world.device("had") == "Used"
    if given:
        world.settle()
        world.bind("train")
    else:
        world.gone(world.get(Pod, "train"))
        world.refused(world.only(e.DevicesGiven), obsolete=True)
    world.tick(600)
    assert (world.device("had") == "Used") is given
    assert bool(world.events(e.VictimMarked)) is not given


def test_in_the_gap_the_node_is_as_full_as_before() -> None:
    """Seed 61179: its label said that it could take another device of its model; the scheduler chose it, and the pod failed."""
    world = ready(limit={"max": 1})
    world.settle()
    assert devices(world, "train0") == ["gpu-GPU-res0"]
    opened = [one for one in world.events(NodeLabelled) if one.labels.get(f"cohdi.io/{A100.device}") == "true"]
    assert {one.node for one in opened} <= {"node1"}


# -- the guard goes -----------------------------------------------------------------------------------------------------


def test_the_guard_goes_at_the_end_of_its_time() -> None:
    world = ready()
    world.settle()
    until = world.events(e.ExchangeBegun)[0].until
    assert not world.events(e.GuardLifted)
    world.tick(61)
    world.settle()
    assert world.only(e.GuardLifted).devices == ((GPU, "node0", "gpu-GPU-res0"),)
    assert world.now > until and not world.state.hand_over.guarded.rows


def test_it_goes_at_once_when_the_claim_lets_go_of_the_device() -> None:
    """A device that is free and guarded would cost the scheduler a refusal each time that it chooses it."""
    world = ready()
    world.settle()
    world.bind("train0")
    world.finish("train0")
    assert world.only(e.GuardLifted).devices == ((GPU, "node0", "gpu-GPU-res0"),)


@pytest.mark.parametrize("away", [0, 100])
def test_a_guard_whose_end_was_not_written_yet_is_taken_off_after_a_crash(away: float) -> None:
    """It stayed in its ConfigMap for ever, and kept the scheduler from the device for its last minute."""
    world = ready()
    world.settle()
    world.bind("train0")
    world.finish("train0")
    world.tick(away)
    assert len(world.events(e.GuardLifted)) == 1 and world.state.hand_over.guarded.rows
    restart(world)
    assert len(world.events(e.GuardLifted)) == 2
    world.carry_out()
    assert not world.state.hand_over.guarded.rows


# -- after a crash ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("claims", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_whichever_step_a_process_ends_at_the_next_one_goes_on(
    step: type[e.Decision], claims: int, carried_out: bool
) -> None:
    world = up_to(step, claims)
    if carried_out:
        world.carry_out()
    restart(world)
    world.settle()
    for number in range(claims):
        assert devices(world, f"train{number}") == [f"gpu-GPU-res{number}"]
    assert not world.events(e.HandOver)
    world.bind("train0")
    world.tick(100)
    world.settle()
    assert not world.state.hand_over.exchanges.rows and not world.state.hand_over.guarded.rows


def test_what_is_cleared_is_guarded_and_listed_again_before_it_goes_on() -> None:
    world = up_to(e.DevicesGiven)
    restart(world)
    again = world.events(e.ExchangeBegun)
    assert len(again) == 2 and again[1].swaps == again[0].swaps
    assert len(world.events(e.DevicesGiven)) == 1
    world.settle()
    first, second = world.events(e.DevicesGiven)
    assert second.version == first.version, "whoever changed the claim since has the better knowledge"


def test_a_claim_that_was_cleared_in_the_moment_of_the_crash_gets_its_devices_whatever_version_that_left() -> None:
    """It was left to the scheduler, which waits with its pod until the binding timeout, ten minutes by default."""
    world = up_to(e.AllocationCleared)
    world.clear("train0")
    restart(world)
    world.settle()
    assert world.only(e.DevicesGiven).version == ANY_VERSION
    assert devices(world, "train0") == ["gpu-GPU-res0"]
    assert not world.events(e.Alerted)


def test_where_the_pods_node_went_while_the_process_was_away_the_claim_is_left_and_that_is_told() -> None:
    world = up_to(e.DevicesGiven)
    world.gone(world.get(Node, "node0"))
    restart(world)
    world.settle()
    assert world.only(e.Alerted).reason == "ExchangeLeft"
    assert len(world.events(e.DevicesGiven)) == 1
    assert not world.state.hand_over.exchanges.rows and not world.state.hand_over.guarded.rows


def test_where_one_of_two_pods_went_the_other_gets_the_devices() -> None:
    world = waiting()
    world.pod("other", ["train"])
    both = tuple(Consumer(world.get(Pod, name).uid, name) for name in ("train", "other"))
    world.update(world.get(Claim, "train"), consumers=both)
    comes(world)
    while not world.events(e.DevicesGiven):
        assert world.carry_out()
    world.gone(world.get(Pod, "other"))
    restart(world)
    world.settle()
    assert devices(world, "train") == ["gpu-GPU-res"]
    assert not world.events(e.Alerted)


def test_where_the_pod_is_being_deleted_one_that_came_later_is_left_to_the_scheduler() -> None:
    """The claim would be reserved for the pod that goes, and not for the one that waits."""
    world = up_to(e.DevicesGiven)
    world.pod("late", ["train0"])
    world.update(world.get(Pod, "train0"), deleting=True)
    restart(world)
    world.settle()
    assert world.only(e.Alerted).reason == "ExchangeLeft"
    assert len(world.events(e.DevicesGiven)) == 1
    assert not world.state.hand_over.exchanges.rows and not world.state.hand_over.guarded.rows


def test_a_pool_that_is_being_published_anew_in_the_gap_has_lost_nothing() -> None:
    world = up_to(e.AllocationCleared)
    one = world.state.inventory.slices.rows[f"local-node0-{GPU}"]
    world.update(one, devices={}, generation=one.generation + 1, slices=2)
    world.carry_out()
    world.settle()
    assert devices(world, "train0") == ["gpu-GPU-res0"]
    assert not world.events(e.ExchangeEnded)


def test_a_device_that_is_to_go_is_held_once_its_guard_is_off() -> None:
    """Nothing else would look at the node again."""
    world = ready(mode="detach", no_removal_seconds=0)
    world.settle()
    world.bind("train0")
    world.finish("train0")
    world.settle()
    world.only(e.GuardLifted)
    world.only(e.HoldBegun)


def test_nothing_is_held_while_a_guard_that_could_not_be_taken_off_stands() -> None:
    """The guard of the hold has the same key: whatever takes the one off takes the other off with it."""
    world = ready(mode="detach", no_removal_seconds=0)
    world.settle()
    world.bind("train0")
    world.finish("train0")
    world.refused(world.only(e.GuardLifted))
    assert not world.events(e.HoldBegun)
    world.tick(61)
    world.settle()
    assert len(world.events(e.GuardLifted)) == 2
    world.only(e.HoldBegun)


def test_a_guard_that_cannot_be_taken_off_is_forgotten_when_it_has_ended() -> None:
    world = ready()
    world.settle()
    world.bind("train0")
    world.finish("train0")
    for _ in range(4):
        world.refused(world.events(e.GuardLifted)[-1])
        world.tick(700)
    assert len(world.events(e.GuardLifted)) <= 2
    assert not world.state.hand_over.guarded.rows


def test_a_guard_is_taken_off_once_it_is_known_where_it_stands() -> None:
    """Its key stays in the ConfigMap until then, and would keep the device from everybody until it ends."""
    world = ready()
    world.settle()
    world.bind("train0")
    world.finish("train0")
    lifted = world.only(e.GuardLifted)
    world.feed(e.Capabilities(version="1.36", unguarded="not answered yet", unanswered=True))
    world.refused(lifted, obsolete=True)
    assert world.state.hand_over.guarded.rows
    world.feed(e.Capabilities(version="1.36", guards="dds"))
    world.tick(60)
    assert len(world.events(e.GuardLifted)) == 2


def test_a_guard_that_ended_while_no_process_ran_is_taken_off_once_it_is_known_where_it_stands() -> None:
    """Its key would stay in the ConfigMap."""
    world = ready()
    world.feed(e.Started("2", "f", 1, 2, world.state.mode))
    world.tick(61)
    world.feed(e.Capabilities(unguarded="not answered yet", unanswered=True))
    world.feed(e.Synced())
    assert not world.events(e.GuardLifted)
    world.feed(e.Capabilities(version="1.36", guards="dds"))
    assert world.only(e.GuardLifted).devices == ((GPU, "node0", "gpu-GPU-res0"),)
    world.carry_out()
    assert not world.state.hand_over.guarded.rows


def test_the_next_claim_gets_a_device_once_the_guard_of_the_one_before_is_off() -> None:
    world = ready()
    world.settle()
    world.bind("train0")
    world.finish("train0")
    world.refused(world.only(e.GuardLifted))
    assert world.state.hand_over.guarded.rows, "the admission policy still keeps the device for the first claim"
    world.waits("late", "node0")
    world.carry_out()
    assert world.state_of("late") == "Attached", "the device is free, and promised to it"
    assert not world.events(e.Alerted)
    assert len(world.events(e.ExchangeBegun)) == 1
    world.tick(61)
    world.settle()
    assert devices(world, "late") == ["gpu-GPU-res0"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("carried_out", [True, False])
def test_lowering_the_mode_takes_the_guards_away(step: type[e.Decision], carried_out: bool) -> None:
    world = up_to(step)
    if carried_out:
        world.carry_out()
    world.change_policy(mode="observe")
    assert [lifted.mode for lifted in world.events(e.GuardLifted)] == ["attach"], "written whatever the mode is by now"
    world.carry_out()
    assert not world.state.hand_over.guarded.rows
    assert not world.state.hand_over.exchanges.rows


def test_a_pod_that_runs_where_its_devices_are_not_is_told() -> None:
    world = up_to(e.DevicesGiven)
    world.claim("other", pod="other")
    world.allocate("train0", "node1", *pool_results(5))
    assert not world.events(e.Alerted), "its scheduler may have begun anew"
    world.bind("train0", "node0")
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == (world.uid("train0"), "PodElsewhere")
    assert "runs on node0 with claim default/train0, whose devices are on node1" in alert.text


def test_other_api_servers_are_given_time_to_know_of_a_guard() -> None:
    world = ready()
    begun = world.only(e.ExchangeBegun)
    world.feed(e.WriteDone(decision="", action=type(begun).__name__, target=begun.subject))
    guarded = world.now
    assert not world.events(e.ClaimsListWanted)
    world.feed(e.ClaimsListed(resource=world.uid("train0"), started=guarded))
    assert not world.events(e.AllocationCleared), "another server may not know of the guard yet"
    world.tick(1)
    assert world.only(e.ClaimsListWanted).fenced == guarded + 500_000
    world.settle()
    assert devices(world, "train0") == ["gpu-GPU-res0"]


# -- what must not be forgotten ------------------------------------------------------------------------------------------


def test_a_claim_that_joins_the_pod_waits_while_another_is_being_cleared() -> None:
    """Its guard began the exchange of both anew, and that the first was cleared was forgotten: it was left without devices."""
    world = up_to(e.AllocationCleared)
    world.claim("train1", pod="train0")
    world.allocate("train1", "node0")
    world.online("res1", "node0", request=world.events(e.AttachOrdered)[-1].request)
    assert world.state_of("train1") == "Attached"
    assert len(world.events(e.ExchangeBegun)) == 1
    world.settle()
    assert [devices(world, name) for name in ("train0", "train1")] == [["gpu-GPU-res0"], ["gpu-GPU-res1"]]
    assert [one.claim for one in world.events(e.DevicesGiven)] == [world.uid("train0"), world.uid("train1")]
    assert not world.events(e.Alerted)


def test_a_claim_that_is_being_given_its_devices_is_not_guarded_again_with_the_others() -> None:
    """The write was on its way, and its outcome was waited for no longer."""
    world = up_to(e.AllocationCleared, 2)
    first, second = world.events(e.AllocationCleared)
    world.clear("train0")
    world.done(first, version="7")
    assert world.only(e.DevicesGiven).claim == world.uid("train0")
    world.tick(61)
    world.clear("train1")
    world.done(second, version="8")
    assert world.events(e.ExchangeBegun)[-1].for_claims() == (world.uid("train1"),)
    world.settle()
    assert [devices(world, name) for name in ("train0", "train1")] == [["gpu-GPU-res0"], ["gpu-GPU-res1"]]


def test_a_guard_whose_outcome_is_awaited_is_not_begun_anew() -> None:
    """An outcome names only its target: that of the first guard counted for the second, whose refusal then came too late, and a
    device was given that nothing guarded."""
    world = World("attach", exchange=True, synced=False, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 8)
    for name in ("train0", "train1"):
        world.claim(name, pod="train0")
    world.allocate("train1", "node0", *pool_results(1))
    world.sync()
    world.carry_out()
    world.online("res1", "node0", request=world.events(e.AttachOrdered)[-1].request)
    first = world.only(e.ExchangeBegun)
    world.allocate("train0", "node0", *pool_results(0))
    world.online("res0", "node0", request=world.events(e.AttachOrdered)[-1].request)
    assert world.state_of("train0") == "Attached"
    assert world.only(e.ExchangeBegun) == first, "its guard is being written"
    world.done(first)
    assert len(world.events(e.ExchangeBegun)[-1].for_claims()) == 2
    world.refused(world.events(e.ExchangeBegun)[-1])
    assert not world.state.hand_over.exchanges.rows
    assert not world.events(e.AllocationCleared)
