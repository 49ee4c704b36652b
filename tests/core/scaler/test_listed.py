"""A device is there as soon as its node lists it: the operator says Online up to 30 s later, and looks for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from dds_core.events import DeadlinePassed
from dds_core.model import Device, Slice, Taint, TaintRule
from dds_core.scaler import events as e
from tests.support.world import A100, FAILED, GPU, H100, World, one_node


def ordered(*claims: str, mode: str = "attach", **policy: Any) -> tuple[World, str]:
    """Claims of one device wait on node0, and their devices were ordered; the world and the name of the request."""
    world = one_node(mode, 8, synced=False, scan_interval_seconds=0, **policy)
    for claim in claims:
        world.waits(claim, "node0")
    world.sync()
    world.carry_out()
    return world, world.events(e.AttachOrdered)[-1].request


def attached(world: World, name: str, request: str, **fields: Any) -> None:
    """The operator has the id of the device, and its node does not list it."""
    world.resource(name, "node0", request=request, state="Attaching", uuid=f"GPU-{name}", **fields)


def listed(world: World, name: str) -> None:
    world.plug("node0", f"gpu-{name}", f"GPU-{name}")


def test_a_listed_device_that_has_its_id_is_reserved_and_handed_over_at_that_moment() -> None:
    world, request = ordered("train")
    attached(world, "res", request)
    assert not world.events(e.Reserved)
    listed(world, "res")
    step = world.steps[-1]
    assert [type(one) for one in step.decisions if isinstance(one, e.Reserved | e.HandOver)] == [e.Reserved, e.HandOver]
    assert world.device_moves("res")[-1] == ("online", "Attaching", "Idle")
    assert world.events(e.DeviceMoved)[-1].cause == "resource res is listed by its node"
    assert world.reserved("train") == ["GPU-res"] and world.state_of("train") == "Attached"
    world.resource("res", "node0", state="Online")
    assert len(world.device_moves("res")) == 2 and len(world.events(e.HandOver)) == 1


def test_it_is_exchanged_before_the_operator_says_online() -> None:
    world = World("attach", exchange=True, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.waits("train", "node0")
    world.carry_out()
    attached(world, "res", world.only(e.AttachOrdered).request)
    listed(world, "res")
    for _ in range(5):
        world.carry_out()
    assert world.only(e.DevicesGiven).swap.results[0].key == (GPU, "node0", "gpu-res")
    world.bind("train")
    assert world.device("res") == "Used" and world.state.fleet.resources.rows["res"].state == "Attaching"


def test_the_id_may_come_after_the_list() -> None:
    world, request = ordered("train")
    world.resource("res", "node0", request=request, state="Attaching")
    listed(world, "res")
    assert world.state_of("train") == "Attaching"
    attached(world, "res", request)
    assert world.reserved("train") == ["GPU-res"]


@pytest.mark.parametrize(
    "fields",
    [{"error": "nvidia-smi fails"}, {"deleting": True}, {"detach_only": True}, {"state": "Detaching"}, {"state": ""}],
    ids=lambda fields: next(iter(fields)),
)
def test_it_is_not_there_with_an_error_nor_when_it_is_leaving(fields: dict[str, Any]) -> None:
    world, request = ordered("train")
    attached(world, "res", request)
    world.resource("res", "node0", **fields)
    listed(world, "res")
    world.tick(10)
    assert not world.events(e.Reserved)


def test_it_is_there_once_its_error_has_passed() -> None:
    world, request = ordered("train")
    attached(world, "res", request, error="nvidia-smi fails")
    listed(world, "res")
    world.tick(20)
    assert not world.events(e.Reserved)
    world.resource("res", "node0", error="")
    assert world.reserved("train") == ["GPU-res"]


def test_a_pool_that_is_not_whole_lists_nothing() -> None:
    world, request = ordered("train")
    attached(world, "res", request)
    device = Device({**A100.attributes, "uuid": "GPU-res"})
    one_of_two = Slice("one", "one", GPU, "node0", 1, 2, node="node0", devices={"gpu-res": device})
    world.observe(one_of_two)
    assert not world.events(e.Reserved) and world.device("res") == "Attaching"
    world.update(one_of_two, slices=1)
    assert world.reserved("train") == ["GPU-res"]


def test_a_list_of_another_node_is_not_its_own() -> None:
    world, request = ordered("train")
    world.node("node1")
    attached(world, "res", request)
    world.plug("node1", "gpu-res", "GPU-res")
    assert not world.events(e.Reserved) and world.device("res") == "Attaching"


def test_with_online_it_is_there_with_the_operators_word_only() -> None:
    world, request = ordered("train", device_ready="online")
    attached(world, "res", request)
    listed(world, "res")
    world.tick(25)
    assert not world.events(e.Reserved) and world.device("res") == "Attaching"
    world.resource("res", "node0", state="Online")
    assert world.events(e.DeviceMoved)[-1].cause == "resource res is Online"
    assert world.reserved("train") == ["GPU-res"]


def test_a_changed_policy_counts_at_once() -> None:
    world, request = ordered("train", device_ready="online")
    attached(world, "res", request)
    listed(world, "res")
    world.change_policy(device_ready="listed")
    assert world.reserved("train") == ["GPU-res"]


def test_it_is_not_given_back_before_the_operator_has_called_it_online() -> None:
    """The operator is still at it: it would restart the plugin under the detach."""
    world, request = ordered("train", mode="detach", no_removal_seconds=5, operator_nudge="off")
    attached(world, "res", request)
    listed(world, "res")
    world.carry_out()
    world.finish("train")
    world.tick(25)
    assert world.device("res") == "Idle" and not world.decisions(e.VictimMarked, e.DetachOrdered)
    world.resource("res", "node0", state="Online")
    world.tick(1)
    assert world.only(e.VictimMarked).resource == "res"


def test_in_observe_only_what_is_observed_moves_it() -> None:
    world = one_node("observe", 8, scan_interval_seconds=0)
    world.request("theirs", "node0")
    world.waits("train", "node0")
    attached(world, "res", "theirs")
    listed(world, "res")
    assert world.device("res") == "Idle" and world.state_of("train") == "Attached"


# -- a name that the operator keeps from pods ----------------------------------------------------------------------------


def reused(key: str = "k8s.io/device-uuid", value: str = "GPU-old") -> World:
    """`res` comes for `train` under the name of `old`, a device of another model, which has still to leave node0. A rule of the
    operator's taints that name."""
    world, request = ordered("train")
    world.resource("old", "node0", H100, state="Detaching", deleting=True, uuid="GPU-old")
    world.observe(TaintRule("rule", "old-taint", GPU, "node0", "gpu-GPU-res", Taint(key, value, "NoSchedule")))
    attached(world, "res", request)
    world.plug("node0", "gpu-GPU-res", "GPU-res")
    return world


@pytest.mark.parametrize("state", ["Attaching", "Online"])
def test_one_under_the_rule_for_a_device_that_leaves_is_on_its_way(state: str) -> None:
    """The driver has used the name again; the rule goes with the other's resource. A second device was ordered meanwhile."""
    world = reused()
    world.resource("res", "node0", state=state)
    world.tick(30)
    assert world.state_of("train") == "Attaching"
    assert not world.events(e.Reserved) and len(world.events(e.AttachOrdered)) == 1
    world.gone(world.state.inventory.taint_rules.rows["rule"])
    world.gone(world.state.fleet.resources.rows["old"])
    assert world.reserved("train") == ["GPU-res"]
    assert len(world.events(e.AttachOrdered)) == 1
    assert world.verified().differences == []


def test_it_is_on_its_way_too_when_the_resource_is_seen_to_go_before_the_rule() -> None:
    """Watches of two kinds need not keep step."""
    world = reused()
    world.gone(world.state.fleet.resources.rows["old"])
    world.gone(world.state.inventory.taint_rules.rows["rule"])
    assert world.reserved("train") == ["GPU-res"]
    assert len(world.events(e.AttachOrdered)) == 1


@pytest.mark.parametrize(
    "taint", [("gpu", "GPU-old"), ("k8s.io/device-uuid", "GPU-res")], ids=["another rule", "the rule for itself"]
)
def test_under_any_other_rule_it_is_of_no_use_and_another_is_ordered(taint: tuple[str, str]) -> None:
    world = reused(*taint)
    assert [order.size for order in world.events(e.AttachOrdered)] == [1, 2]


# -- robbed ---------------------------------------------------------------------------------------------------------------


def test_a_claim_that_lost_a_device_to_another_pod_is_first_in_line_for_the_next() -> None:
    """A pod that came first lost three devices in a row to pods that came later, and was bound after 65 s."""
    world, request = ordered("first", "second")
    attached(world, "res0", request)
    listed(world, "res0")
    assert world.reserved("first") == ["GPU-res0"]
    world.claim("rich", pod="")
    world.pod("rich", ["rich"], priority=5)
    world.allocate("rich", "node0")
    world.carry_out()
    world.holds("thief", "node0", "gpu-res0")
    assert world.state.lifecycle.lives.rows[world.uid("first")].robbed
    assert not world.state.lifecycle.lives.rows[world.uid("second")].robbed
    attached(world, "res1", request)
    listed(world, "res1")
    assert world.reserved("first") == ["GPU-res1"], "before one of higher priority, too"
    assert not world.reserved("second") and not world.reserved("rich")


def test_the_oldest_that_waits_has_lost_what_was_taken_before_it_was_reserved() -> None:
    """The scheduler sees the list no later than dds, and may be the first to act on it."""
    world, request = ordered("first", "second", device_ready="online")
    attached(world, "res0", request)
    listed(world, "res0")
    world.holds("thief", "node0", "gpu-res0")
    robbed = {claim: world.state.lifecycle.lives.rows[world.uid(claim)].robbed for claim in ("first", "second")}
    assert robbed == {"first": True, "second": False}


def test_whoever_takes_what_is_reserved_for_it_robs_nobody() -> None:
    world, request = ordered("first", "second")
    attached(world, "res0", request)
    listed(world, "res0")
    world.carry_out()
    world.clear("first")
    world.allocate_local("first", "node0", "gpu-res0")
    assert not any(life.robbed for life in world.state.lifecycle.lives.rows.values())


def test_a_claim_for_another_model_has_lost_nothing() -> None:
    world, _ = ordered("train")
    world.pool(H100, 4)
    world.waits("other", "node0", (H100, 1))
    world.carry_out()
    world.online("res", "node0", H100, request=world.events(e.AttachOrdered)[-1].request)
    world.holds("thief", "node0", "gpu-GPU-res")
    robbed = {claim: world.state.lifecycle.lives.rows[world.uid(claim)].robbed for claim in ("train", "other")}
    assert robbed == {"train": False, "other": True}


def test_it_is_first_for_this_cycle_only() -> None:
    world, request = ordered("first", "second")
    attached(world, "res0", request)
    listed(world, "res0")
    world.holds("thief", "node0", "gpu-res0")
    world.clear("first")
    world.allocate("first", "node0")
    assert world.state.lifecycle.lives.rows[world.uid("first")].robbed, "a further attempt"
    world.condition("first", FAILED)
    world.clear("first")
    world.allocate("first", "node0")
    assert not world.state.lifecycle.lives.rows[world.uid("first")].robbed


def test_no_deadline_is_needed_for_it() -> None:
    world, request = ordered("train", operator_nudge="off")
    attached(world, "res", request)
    listed(world, "res")
    assert not [step.fact for step in world.steps if isinstance(step.fact, DeadlinePassed)]
