"""B14: the size was lowered before anything kept the scheduler off the device; a pod placed in between lost it.

Here a fence stands first: mark and taint, time to settle, a consistent LIST, the same name; whoever turns up takes it down.
"""

from typing import Any

from dds_core.model import AttachRequest, Claim, DeviceClass, Pod, Slice
from dds_core.scaler import events as e
from tests.core.scaler.test_restart import restart
from tests.support.world import GPU, SECOND, World, asks, one_node


def idle_device(**policy: Any) -> World:
    """Mode detach; the device `gpu-GPU-res` of the resource `res` is idle, its request adopted."""
    world = one_node("detach", 4, no_removal_seconds=100, scan_interval_seconds=0, **policy)
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="composability-x")
    return world


def marked() -> World:
    world = idle_device()
    world.tick(101)
    assert world.only(e.VictimMarked).resource == "res"
    world.resource("res", "node0", marked=True)
    return world


def lowered() -> World:
    world = marked()
    world.tick(31)
    world.feed(e.ClaimsListed("res", world.now))
    assert world.only(e.DetachOrdered).size == 0
    return world


def test_b14_nothing_is_lowered_before_the_fence_settled_and_a_list_confirmed_it() -> None:
    world = marked()
    fenced = world.state.give_back.fences.rows["res"].since
    world.tick(28)
    assert not world.events(e.ClaimsListWanted)
    world.tick(3)
    assert world.only(e.ClaimsListWanted).fenced == fenced
    assert not world.events(e.DetachOrdered)
    world.feed(e.ClaimsListed("res", world.now))
    assert world.only(e.DetachOrdered).victims == ("res",)


def test_b14_a_list_made_before_the_fence_had_settled_confirms_nothing() -> None:
    world = marked()
    world.tick(31)
    early = world.state.give_back.fences.rows["res"].since + 1
    world.feed(e.ClaimsListed("res", early))
    assert not world.events(e.DetachOrdered)


def test_b14_a_removal_time_of_zero_is_fenced_all_the_same() -> None:
    world = idle_device()
    world.change_policy(no_removal_seconds=0)
    world.tick(1)
    world.resource("res", "node0", marked=True)
    assert world.only(e.VictimMarked).resource == "res"
    world.tick(20)
    assert not world.events(e.DetachOrdered)


def test_b14_an_allocation_takes_the_fence_down_and_the_mark_off() -> None:
    world = marked()
    world.tick(10)
    world.holds("train", "node0", "gpu-GPU-res")
    unmarked = world.only(e.VictimUnmarked)
    assert unmarked.resource == "res"
    world.tick(3600)
    assert not world.events(e.DetachOrdered)
    assert world.device("res") == "Used"


def test_b14_an_allocation_that_the_list_brought_takes_the_fence_down() -> None:
    world = marked()
    world.tick(31)
    world.holds("train", "node0", "gpu-GPU-res")
    world.feed(e.ClaimsListed("res", world.now))
    assert not world.events(e.DetachOrdered)


def test_b14_an_allocation_after_the_detach_was_ordered_raises_the_size_again() -> None:
    world = lowered()
    world.carry_out(e.DetachOrdered)
    world.holds("train", "node0", "gpu-GPU-res")
    raised = world.only(e.AttachOrdered)
    assert (raised.request, raised.previous, raised.size) == ("composability-x", 0, 1)
    assert not world.events(e.VictimUnmarked), "an operator with one to take off and none marked takes another"
    world.carry_out(e.AttachOrdered)
    assert world.only(e.VictimUnmarked).resource == "res"


def test_b14_a_mark_whose_reason_against_it_has_gone_meanwhile_comes_off_with_the_size() -> None:
    world = lowered()
    world.carry_out(e.DetachOrdered)
    world.claim("train")
    world.pod("train", ["train"], nominated="node0")
    assert len(world.events(e.AttachOrdered)) == 1
    world.gone(world.get(Pod, "train"))
    assert not world.events(e.VictimUnmarked)
    world.carry_out(e.AttachOrdered)
    assert world.only(e.VictimUnmarked).resource == "res"


def test_b14_an_allocation_before_the_lowered_size_was_seen_raises_it_too() -> None:
    world = lowered()
    world.holds("train", "node0", "gpu-GPU-res")
    assert (world.only(e.AttachOrdered).previous, world.only(e.AttachOrdered).size) == (1, 1)


def test_b14_a_device_whose_detach_was_ordered_is_promised_to_nobody_until_its_size_is_back() -> None:
    world = lowered()
    world.carry_out(e.DetachOrdered)
    world.waits("train", "node0")
    assert not world.events(e.Reserved), "the operator may be taking it away at this moment"
    assert not world.events(e.HandOver)
    assert world.events(e.AttachOrdered)[-1].size == 1
    world.carry_out(e.AttachOrdered)
    assert world.only(e.VictimUnmarked).resource == "res"
    assert world.reserved("train") == ["GPU-res"]
    assert world.get(AttachRequest, "composability-x").size == 1, "no second device is asked for"


def test_b14_demand_for_the_model_unmarks_instead_of_attaching_another() -> None:
    world = marked()
    world.waits("train", "node0")
    assert world.only(e.VictimUnmarked).reason == "a claim waits for it"
    assert not world.events(e.AttachOrdered)
    assert world.reserved("train") == ["GPU-res"]


def test_b14_a_nominated_pod_with_an_open_claim_holds_the_victim_back() -> None:
    world = marked()
    world.claim("train")
    world.pod("train", nominated="node0")
    assert world.only(e.VictimUnmarked).reason == "a pod nominated to the node could take it"


def test_b14_a_nominated_pod_that_the_scheduler_finds_no_node_for_does_not() -> None:
    """The device is there and idle: what its node lacks is something else, such as CPU."""
    world = marked()
    world.claim("train")
    world.pod("train", nominated="node0", waiting="Unschedulable")
    assert not world.events(e.VictimUnmarked)


def test_b14_a_nominated_pod_that_is_being_deleted_does_not() -> None:
    world = marked()
    world.claim("train")
    world.pod("train", nominated="node0", deleting=True)
    assert not world.events(e.VictimUnmarked)


def test_b14_a_nominated_pod_that_asks_for_another_model_does_not() -> None:
    world = marked()
    other = f'device.attributes["{GPU}"].productName == "another"'
    world.observe(DeviceClass("other", "other", (other,)))
    world.claim("train", requests=(asks("gpu", "other"),))
    world.pod("train", nominated="node0")
    assert not world.events(e.VictimUnmarked)


def test_b14_a_nominated_pod_whose_template_claim_is_not_made_yet_holds_it_back_too() -> None:
    world = marked()
    world.pod("train", [""], nominated="node0")
    assert world.events(e.VictimUnmarked)


def test_b14_a_nominated_pod_whose_claims_are_allocated_does_not() -> None:
    world = marked()
    world.plug("node0", "gpu-fixed", "GPU-fixed")
    world.holds("train", "node0", "gpu-fixed")
    world.pod("train", nominated="node0")
    assert not world.events(e.VictimUnmarked)


def test_b14_a_name_that_moved_takes_the_fence_down() -> None:
    world = marked()
    world.unplug("node0", "gpu-GPU-res")
    world.plug("node0", "gpu-7", "GPU-res")
    assert world.events(e.VictimUnmarked)[0].reason == "its name on the node has changed"


def test_b14_a_gap_in_the_slices_neither_confirms_nor_breaks_the_fence() -> None:
    world = marked()
    local = world.get(Slice, "node0-gpu.nvidia.com")
    world.gone(local)
    world.tick(31)
    world.feed(e.ClaimsListed("res", world.now))
    assert not world.events(e.DetachOrdered), "what it is called now is not known"


def test_b14_a_detach_that_cannot_be_stopped_is_told() -> None:
    world = lowered()
    world.carry_out(e.DetachOrdered)
    world.resource("res", "node0", state="Detaching", deleting=True)
    world.holds("train", "node0", "gpu-GPU-res")
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == ("res", "DetachedInUse")
    assert world.get(Claim, "train").allocation is not None


def test_b14_a_mark_that_is_written_again_after_a_restart_forgets_no_order() -> None:
    """The size was lowered. Without the order the mark would come off first, and the operator would take another device."""
    world = lowered()
    world.carry_out(e.DetachOrdered)
    world.resource("res", "node0", marked=False)
    restart(world)
    assert len(world.events(e.VictimMarked)) == 2
    world.holds("train", "node0", "gpu-GPU-res")
    assert world.events(e.AttachOrdered)[-1].size == 1
    assert not world.events(e.VictimUnmarked)


def test_b14_a_mark_that_is_refused_while_its_detach_is_ordered_forgets_no_order_either() -> None:
    world = lowered()
    world.carry_out(e.DetachOrdered)
    world.resource("res", "node0", marked=False)
    restart(world)
    world.refused(world.events(e.VictimMarked)[-1])
    world.holds("train", "node0", "gpu-GPU-res")
    assert world.events(e.AttachOrdered)[-1].size == 1


def test_b14_a_list_that_nobody_asked_for_confirms_nothing_and_moves_nothing_on() -> None:
    world = marked()
    settled = world.state.give_back.fences.rows["res"].since + 31 * SECOND
    world.feed(e.ClaimsListed("res", settled))
    assert not world.state.give_back.fences.rows["res"].confirmed
    world.tick(31)
    world.feed(e.ClaimsListed("res", world.now))
    confirmed = world.state.give_back.fences.rows["res"].confirmed
    world.tick(5)
    world.feed(e.ClaimsListed("res", world.now))
    assert world.state.give_back.fences.rows["res"].confirmed == confirmed
