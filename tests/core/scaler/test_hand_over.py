"""How a claim is handed over: the pod as the unit, the three ways of steering, and when nothing may be said."""

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.model import Claim, Device, FabricResource, Pod, Slice, Taint, TaintRule
from dds_core.replay import of_steps
from dds_core.scaler import events as e
from dds_core.scaler.blame import BARRED, OBSERVE
from dds_core.scaler.waiting import waiting_rows
from tests.core.scaler.history.told import differences
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, READY, RESCHEDULE, World, one_node


def world_with_pools(mode: str = "attach", **policy: Any) -> World:
    world = World(mode, scan_interval_seconds=0, **policy)
    world.node("node0")
    world.node("node1")
    for model in (A100, H100):
        world.pool(model, 8)
    return world


def handed_over(mode: str = "attach", **policy: Any) -> World:
    """The claim `train` has been told to give way."""
    world = world_with_pools(mode, **policy)
    world.waits("train", "node0")
    world.settle()
    return world


# --- the pod is the unit -----------------------------------------------------------------------------------------------


def test_all_claims_of_a_pod_are_told_in_one_batch_in_pod_order() -> None:
    world = world_with_pools(synced=False)
    for name in ("zeta", "alpha"):
        world.claim(name, pod="both")
        world.allocate(name, "node0")
    world.sync()
    world.carry_out()
    request = world.events(e.AttachOrdered)[-1].request
    world.online("res0", "node0", request=request)
    assert not world.events(e.HandOver)
    world.online("res1", "node0", request=request)
    handed = world.only(e.HandOver)
    assert [s.claim for s in handed.signals] == [world.uid("zeta"), world.uid("alpha")]
    assert handed.pod == "pod-default-both"


@pytest.mark.parametrize("over", [{"deleting": True}, {"phase": "Failed"}])
def test_a_pod_that_is_over_holds_nobody_up(over: dict[str, Any]) -> None:
    """kube-scheduler skips a pod that is being deleted (skipPodSchedule in schedule_one.go) and knows no ended one. A finalizer
    can keep either for ever."""
    world = world_with_pools()
    world.claim("train")
    world.pod("other", ["train"])
    world.allocate("train", "node0")
    world.carry_out()
    world.update(world.get(Pod, "other"), **over)
    world.online("res", "node0", request=world.only(e.AttachOrdered).request)
    assert world.only(e.HandOver).pod == "pod-default-train"


def test_nothing_is_told_when_all_its_pods_are_over() -> None:
    world = world_with_pools()
    world.waits("train", "node0")
    world.carry_out()
    world.update(world.get(Pod, "train"), deleting=True)
    world.online("res", "node0", request=world.only(e.AttachOrdered).request)
    assert world.state_of("train") == "Attached" and not world.events(e.HandOver)


def test_a_claim_of_the_pod_on_local_devices_needs_no_signal() -> None:
    world = world_with_pools()
    world.plug("node0", "gpu-fixed", "GPU-fixed")
    world.claim("local", pod="both")
    world.claim("pooled", pod="both")
    world.allocate_local("local", "node0", "gpu-fixed")
    world.allocate("pooled", "node0")
    world.settle()
    assert [s.claim for s in world.only(e.HandOver).signals] == [world.uid("pooled")]


def test_a_hand_over_is_told_once_for_an_attempt() -> None:
    world = handed_over()
    world.tick(30)
    world.unreserve("train")
    world.reserve("train")
    assert len(world.events(e.HandOver)) == 1


def diverted(world: World, node: str) -> None:
    """The scheduler takes a pool device again for the claim that was handed over."""
    world.unreserve("train")
    world.clear("train")
    world.allocate("train", node)
    world.settle()


def test_the_next_attempt_is_handed_over_again() -> None:
    world = handed_over()
    diverted(world, "node1")
    assert [handed.node for handed in world.events(e.HandOver)] == ["node0", "node1"]
    assert world.events(e.HandOver)[1].cause == "attempt 1.2"


def test_a_device_that_is_left_although_it_is_free_is_not_handed_over_again() -> None:
    """The scheduler has a reason, known or not: it took a pool device anew, was told again, and so on for ever."""
    world = handed_over()
    (left,) = world.reserved("train")
    diverted(world, "node0")
    assert world.only(e.Alerted).text == (
        f"the scheduler took a pool device again although {left} was handed over and is free; "
        "it is not handed over to this claim again"
    )
    (other,) = world.reserved("train")
    assert other != left
    assert len(world.events(e.HandOver)) == 2
    diverted(world, "node0")
    failed = world.only(e.ClaimFailed)
    assert (failed.reason, failed.message) == (
        "HandOverInVain",
        f"the scheduler left {left}, {other} on node0 although they were handed over and free",
    )
    assert world.only(e.CoolDown).node == "node0"
    assert world.state_of("train") == "Failed"
    assert len(world.events(e.HandOver)) == 2
    world.waits("next", "node0")
    assert world.reserved("next") == [left]


@pytest.mark.parametrize("given_back", [False, True])
def test_one_that_somebody_took_meanwhile_is_not_held_against_it(given_back: bool) -> None:
    world = handed_over()
    (taken,) = world.reserved("train")
    world.unreserve("train")
    world.clear("train")
    world.holds("thief", "node0", f"gpu-{taken}")
    if given_back:
        world.finish("thief")
    world.allocate("train", "node0")
    assert not world.events(e.Alerted)
    assert not world.state.lifecycle.lives.rows[world.uid("train")].excluded


def test_what_nobody_was_told_of_was_not_left() -> None:
    """Seed 46282: what stood ready could not be handed over yet when the scheduler gave up; it counted as left, and another one
    was ordered."""
    world = world_with_pools(synced=False)
    for name in ("train", "other"):
        world.claim(name, pod="both")
        world.allocate(name, "node0")
    world.sync()
    world.carry_out()
    world.online("res0", "node0", request=world.events(e.AttachOrdered)[-1].request)
    assert world.reserved("train") == ["GPU-res0"] and not world.events(e.HandOver), "the pod waits for another one"
    for name in ("train", "other"):
        world.unreserve(name)
        world.clear(name)
    for name in ("train", "other"):
        world.allocate(name, "node0")
    assert world.reserved("train") == ["GPU-res0"]
    assert not world.events(e.Alerted) and not world.state.lifecycle.lives.rows[world.uid("train")].excluded


@pytest.mark.parametrize("told", [RESCHEDULE, READY])
def test_who_was_told_by_somebody_else_is_not_told_again(told: str) -> None:
    world = world_with_pools()
    world.waits("train", "node0")
    world.carry_out()
    world.condition("train", told)
    assert world.state_of("train") == "Attached"
    world.operate()
    assert not world.events(e.HandOver)


# --- when nothing may be said ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble", [{"unschedulable": True}, {"taints": (Taint("full", "", "NoSchedule"),)}, {"deleting": True}]
)
def test_no_signal_that_cannot_land(trouble: dict[str, Any]) -> None:
    world = world_with_pools()
    world.waits("train", "node0")
    world.carry_out()
    world.node("node0", **trouble)
    world.operate()
    assert world.state_of("train") == "Failed"
    assert not world.events(e.HandOver)


@pytest.mark.parametrize("taint", [Taint("bad", "", "NoSchedule"), Taint("bad", "", "NoExecute")])
def test_a_tainted_device_is_not_handed_over(taint: Taint) -> None:
    world = world_with_pools()
    world.plug("node0", "gpu-0", "GPU-fixed", taints=(taint,))
    world.waits("train", "node0")
    assert world.state_of("train") == "Attaching"
    world.plug("node0", "gpu-0", "GPU-fixed")
    assert world.reserved("train") == ["GPU-fixed"]


def test_a_device_under_somebodys_taint_rule_is_not_handed_over() -> None:
    world = world_with_pools()
    world.observe(TaintRule("rule", "sick", A100.driver, "node0", "gpu-0", Taint("sick", "", "NoSchedule")))
    world.plug("node0", "gpu-0", "GPU-fixed")
    world.waits("train", "node0")
    assert world.state_of("train") == "Attaching"
    world.gone(world.state.inventory.taint_rules.rows["rule"])
    assert world.reserved("train") == ["GPU-fixed"]


@pytest.mark.parametrize(
    ("version", "covers"),
    [("", True), ("1.36.3", True), ("1.37", True), ("1.37.0", True), ("1.37.1", False), ("1.38.0", False)],
)
def test_a_taint_rule_without_selector_is_one_of_all_devices_up_to_1_37_0(version: str, covers: bool) -> None:
    """Kubernetes issue 141620, mended by pull 141648 (1.38) and 141998 (1.37.1)."""
    world = world_with_pools()
    world.feed(e.Capabilities(version=version))
    world.observe(TaintRule("rule", "all", taint=Taint("sick", "", "NoSchedule"), selects=False))
    world.plug("node0", "gpu-0", "GPU-fixed")
    world.waits("train", "node0")
    assert (world.state_of("train") == "Attaching") is covers
    if covers:
        world.feed(e.Capabilities(version="1.37.1"))
    assert world.reserved("train") == ["GPU-fixed"], "an upgrade is enough"


def test_a_device_that_knows_no_way_to_give_way_is_told_to_a_person_once() -> None:
    world = world_with_pools()
    world.waits("train", "node0", replace(pool_results(0)[0], failure=("Broken",)))
    world.settle()
    world.tick(60)
    world.unreserve("train")
    assert world.state_of("train") == "Attached"
    assert not world.events(e.HandOver)
    assert world.only(e.Alerted).reason == "NoWayToHandOver"
    (row,) = waiting_rows(world.state)
    assert row.stage == BARRED and row.why == f"its devices are there, {world.only(e.Alerted).text}"
    assert not differences(of_steps(world.steps))


def test_in_observe_it_is_shown_once_and_nothing_is_reserved() -> None:
    world = world_with_pools("observe")
    world.waits("train", "node0")
    world.online("res", "node0")
    world.tick(600)
    assert len(world.events(e.HandOver)) == 1
    assert world.reserved("train") == []
    assert world.state_of("train") == "Attached"


# --- steering: clear ---------------------------------------------------------------------------------------------------


def test_in_observe_dds_hands_nothing_over_and_says_so() -> None:
    world = world_with_pools("observe")
    world.waits("train", "node0")
    world.online("res", "node0")
    (row,) = waiting_rows(world.state)
    assert (row.stage, row.why) == (OBSERVE, "its devices are there, mode observe: dds hands nothing over")


def failed_binding(world: World, claim: str = "train") -> None:
    """PreBind failed: the reservation is empty, then the pod says so."""
    world.unreserve(claim)
    world.pod(claim, waiting="SchedulerError", nominated="")


def test_clear_nominates_and_clears_between_the_failure_and_the_next_attempt() -> None:
    world = handed_over(hand_over="clear")
    assert not world.events(e.Steered)
    failed_binding(world)
    steered = world.only(e.Steered)
    assert (steered.pod, steered.node, steered.claims) == ("pod-default-train", "node0", (world.uid("train"),))
    world.carry_out()
    assert world.get(Pod, "train").nominated == "node0"
    assert world.get(Claim, "train").allocation is None
    assert world.state_of("train") == "Attached"
    assert len(world.events(e.Steered)) == 1


def test_clear_waits_for_every_condition_of_the_moment() -> None:
    world = handed_over(hand_over="clear")
    world.pod("train", waiting="SchedulerError")
    assert not world.events(e.Steered), "somebody is still reserved"
    world.pod("train", waiting="SchedulerError", nominated="node1")
    world.unreserve("train")
    assert not world.events(e.Steered), "the scheduler has a node in mind"
    world.pod("train", waiting="Unschedulable", nominated="")
    assert not world.events(e.Steered), "it did not fail, it found nothing"
    world.pod("train", waiting="SchedulerError")
    assert world.only(e.Steered).node == "node0"


def test_clear_does_not_steer_what_somebody_else_signalled() -> None:
    world = world_with_pools(hand_over="clear")
    world.waits("train", "node0")
    world.condition("train", RESCHEDULE)
    failed_binding(world)
    assert not world.events(e.Steered)


@pytest.mark.parametrize(
    ("version", "scheduler", "owned", "clears"),
    [
        ("1.36", "default-scheduler", False, True),
        ("", "default-scheduler", False, True),
        ("1.35", "default-scheduler", False, False),
        ("1.35", "default-scheduler", True, True),
        ("1.36", "volcano", True, False),
    ],
)
def test_a_scheduler_that_cannot_bear_it_clears_by_itself(
    version: str, scheduler: str, owned: bool, clears: bool
) -> None:
    world = world_with_pools(hand_over="clear")
    world.feed(e.Capabilities(version=version))
    world.waits("train", "node0")
    world.pod("train", scheduler=scheduler)
    if owned:
        world.update(world.get(Claim, "train"), owner=world.get(Pod, "train").uid)
    world.settle()
    failed_binding(world)
    assert bool(world.events(e.HandOver)) and bool(world.events(e.Steered)) == clears


def test_clear_takes_all_claims_of_the_pod_together() -> None:
    world = world_with_pools(hand_over="clear")
    for name in ("one", "two"):
        world.claim(name, pod="both")
        world.allocate(name, "node0")
    world.settle()
    world.unreserve("one")
    world.pod("both", waiting="SchedulerError")
    assert not world.events(e.Steered)
    world.unreserve("two")
    assert world.only(e.Steered).claims == (world.uid("one"), world.uid("two"))


# --- counted, tidied up ------------------------------------------------------------------------------------------------


def test_a_ready_label_that_an_older_version_left_behind_is_removed() -> None:
    world = world_with_pools()
    world.relabel("node0", {"cohdi.io/nvidia-a100-40-ready": "true"})
    assert world.only(e.NodeLabelled).labels == {"cohdi.io/nvidia-a100-40-ready": None}


def test_each_hand_over_is_counted_with_its_mode_and_where_it_landed() -> None:
    world = handed_over(hand_over="clear")
    world.unreserve("train")
    world.clear("train")
    world.plug("node1", "gpu-fixed", "GPU-fixed")
    world.allocate_local("train", "node1", "gpu-fixed")
    assert world.state.lifecycle.counters.get("hand-over/clear") == 1
    assert world.state.lifecycle.counters.get("landed/elsewhere") == 1


def test_a_pod_that_is_seen_on_its_node_before_the_allocation_still_refers_to_its_claim() -> None:
    """Pods and claims are watched apart. The attempt goes on, and lands."""
    world = handed_over()
    (device,) = (one for uid in world.state.fleet.resources.rows for one in [f"gpu-GPU-{uid}"])
    world.clear("train")
    world.bind("train", "node0")
    assert world.state_of("train") == "Attached"
    world.allocate_local("train", "node0", device)
    life = world.state.lifecycle.lives.rows[world.uid("train")]
    assert (life.state, life.cycle) == ("Bound", 1) and world.state.lifecycle.counters.get("landed/here") == 1
    world.clear("train")
    world.update(world.get(Pod, "train"), phase="Succeeded")
    assert world.state_of("train") != "Bound", "its pod is over"


def test_a_taint_rule_that_goes_is_noticed_whatever_the_node_calls_its_pool() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    device = Device({**A100.attributes, "uuid": "GPU-x"})
    world.observe(Slice("s", "s", A100.driver, "pool-x", 1, 1, node="node0", devices={"gpu-0": device}))
    rule = TaintRule("rule", "sick", A100.driver, "pool-x", "gpu-0", Taint("sick", "", "NoSchedule"))
    world.observe(rule)
    world.waits("train", "node0")
    assert world.state_of("train") == "Attaching"
    world.gone(rule)
    assert world.state_of("train") == "Attached"


@pytest.mark.parametrize("names", [("res1", "res2"), ("res2", "res1")])
@pytest.mark.parametrize("left", ["node0", "node1"])
@pytest.mark.parametrize("how", [{"state": "Detaching"}, {"deleting": True}])
def test_a_device_is_given_though_the_resource_that_it_left_elsewhere_still_names_it(
    names: tuple[str, str], left: str, how: dict[str, Any]
) -> None:
    """The operator keeps the id until no slice shows it any more; by then it may be attached again."""
    old, new = names
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    world.online(old, left, uuid="GPU-again")
    world.unplug(left, "gpu-GPU-again")
    world.update(world.get(FabricResource, old), **how)
    world.online(new, "node1", uuid="GPU-again")
    world.waits("mine", "node1")
    if left == "node1":  # once more it may be taken off for the resource that is on its way out
        assert world.reserved("mine") == [] and not world.events(e.AttachOrdered)
        world.gone(world.get(FabricResource, old))
    assert world.reserved("mine") == ["GPU-again"]
    assert not world.events(e.AttachOrdered)
    assert not world.events(e.Alerted)
