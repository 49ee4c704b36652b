"""Sick devices: Online with an error, or tainted by their driver. Nobody gets them, and a person is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dds_core.model import AttachRequest, Claim, FabricResource, Node, Slice, Taint
from dds_core.scaler import events as e
from tests.core.scaler.test_b14_fence import idle_device
from tests.core.scaler.test_b15_idle_clock import used_device
from tests.support.world import GPU, World, one_node

XID = Taint("gpu.nvidia.com/xid", "79", "NoSchedule")
WORDS = "the target gpu 'GPU-res' is showing a Critical status in FM"


def sick(world: World, how: str) -> None:
    if how == "error":
        world.resource("res", "node0", error=WORDS)
    else:
        taint(world, (XID,))


def well(world: World) -> None:
    world.resource("res", "node0", error="")
    taint(world, ())


def taint(world: World, taints: tuple[Taint, ...]) -> None:
    own = world.get(Slice, f"node0-{GPU}")
    devices = {name: replace(device, taints=taints) for name, device in own.devices.items()}
    world.update(own, devices=devices)


def told(world: World) -> list[str]:
    return [one.reason for one in world.events(e.Alerted)]


@pytest.mark.parametrize(("how", "reason"), [("error", "DeviceError"), ("taint", "DeviceTainted")])
def test_a_sick_device_is_given_to_nobody_and_is_told_each_time_that_it_begins(how: str, reason: str) -> None:
    world = idle_device()
    sick(world, how)
    world.waits("train", "node0")
    assert world.reserved("train") == []
    assert world.only(e.AttachOrdered).size == 2, "another takes its place"
    world.tick(5)
    assert told(world) == [reason]
    well(world)
    sick(world, how)
    assert told(world) == [reason, reason]


@pytest.mark.parametrize("how", ["error", "taint"])
def test_one_that_falls_sick_after_it_was_promised_is_not_handed_over(how: str) -> None:
    world = idle_device()
    world.claim("train", pod="")
    world.allocate("train", "node0", reserved=False)
    assert world.state_of("train") == "Attached"
    before = len(world.events(e.HandOver))
    sick(world, how)
    world.pod("train", ["train"])
    assert len(world.events(e.HandOver)) == before


def test_who_has_it_keeps_it_and_when_it_is_free_it_goes_back() -> None:
    world = idle_device()
    world.holds("train", "node0", "gpu-GPU-res")
    sick(world, "error")
    assert (world.device("res"), told(world)) == ("Used", ["DeviceError"])
    world.tick(1000)
    assert not world.events(e.VictimMarked)
    world.finish("train")
    world.tick(101)
    assert world.only(e.VictimMarked).resource == "res"
    assert WORDS in world.events(e.Alerted)[0].text
    assert world.get(FabricResource, "res").error == WORDS


# -- not listed, or on its way for long --------------------------------------------------------------------------------


def vanished() -> World:
    """Two devices are attached to node0, and the driver lists one of them no more."""
    world = one_node("attach", 4, scan_interval_seconds=0)
    for number in range(2):
        world.online(f"res{number}", "node0")
    world.unplug("node0", "gpu-GPU-res0")
    return world


def test_a_device_that_its_driver_lists_no_more_is_waited_for_first_and_then_replaced() -> None:
    world = vanished()
    world.holds("other", "node0", "gpu-GPU-res1")
    world.waits("train", "node0")
    world.tick(290)
    assert not world.events(e.AttachOrdered), "the driver may be publishing anew"
    world.tick(20)
    assert told(world) == ["DeviceUnlisted"]
    assert world.only(e.AttachOrdered).claims == (world.uid("train"),)


def test_one_that_is_sick_and_not_listed_is_replaced_at_once() -> None:
    world = idle_device()
    sick(world, "error")
    world.unplug("node0", "gpu-GPU-res")
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).size == 2


def test_one_that_is_listed_again_in_time_is_handed_over() -> None:
    world = vanished()
    world.holds("other", "node0", "gpu-GPU-res1")
    world.waits("train", "node0")
    world.tick(290)
    world.plug("node0", "gpu-GPU-res0", "GPU-res0")
    assert world.reserved("train") == ["GPU-res0"]
    world.tick(600)
    assert not told(world) and not world.events(e.AttachOrdered)


def test_what_a_pool_that_is_not_whole_does_not_list_is_only_not_known() -> None:
    world = vanished()
    world.update(world.get(Slice, f"node0-{GPU}"), slices=2)
    world.tick(1200)
    assert not told(world)


def test_where_the_driver_lists_no_device_at_all_no_other_is_ordered_and_each_is_told() -> None:
    """Another would be listed no more than these; what the operator does for the next attach or detach restarts the driver's
    plugin."""
    world = vanished()
    world.update(world.get(Slice, f"node0-{GPU}"), devices={})
    world.waits("train", "node0")
    world.tick(310)
    assert told(world) == ["DeviceUnlisted"] * 2 and not world.events(e.AttachOrdered)
    assert all(one.text.endswith("its node's driver, which lists no device there") for one in world.events(e.Alerted))


def test_what_is_not_listed_is_not_kept_for_the_next_attempt_of_a_claim_that_waited_for_it_in_vain() -> None:
    """Seed 91060: each attempt waited for it again, for ever."""
    world = idle_device(scheduler={"binding_timeout_seconds": 120}, cool_down_seconds=400)
    world.unplug("node0", "gpu-GPU-res")
    world.waits("train", "node0")
    world.tick(200)
    assert world.only(e.ClaimFailed).reason == "AttachTimeout" and not world.events(e.AttachOrdered)
    world.clear("train")
    world.tick(90)
    assert not world.events(e.VictimMarked)
    world.tick(20)
    assert world.only(e.VictimMarked).resource == "res"


@pytest.mark.parametrize("ends", [True, False])
def test_what_only_the_slice_of_another_node_shows_is_not_listed(ends: bool) -> None:
    """The driver of a silent node still lists what went back since, and the operator calls it Online for that at once."""
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.node("node1")
    world.plug("node1", "gpu-0", "GPU-res0")
    world.online("other", "node0")
    world.holds("has", "node0", "gpu-GPU-other")
    world.resource("res0", "node0", uuid="GPU-res0", state="Online")
    if ends:
        world.unplug("node1", "gpu-0")
    world.waits("train", "node0")
    world.tick(310)
    assert told(world) == ["DeviceUnlisted"]
    assert world.only(e.AttachOrdered).claims == (world.uid("train"),)


@pytest.mark.parametrize("others", [True, False])
def test_what_nobody_lists_for_long_goes_back_once_it_idles(others: bool) -> None:
    """It has a place of the node's maximum, and there is no name by which anybody could take it, or hold it."""
    world = idle_device()
    if others:
        world.resource("res1", "node0", uuid="GPU-res1", request="theirs")
        world.plug("node0", "gpu-1", "GPU-res1")
    world.unplug("node0", "gpu-GPU-res")
    world.tick(299)
    assert not world.events(e.VictimMarked)
    world.tick(2)
    marked = world.only(e.VictimMarked)
    assert (marked.resource, marked.device) == ("res", "") and "DeviceUnlisted" in told(world)
    world.carry_out()
    assert world.only(e.DetachOrdered).victims == ("res",)


@pytest.mark.parametrize("listed", [False, True])
def test_the_minimum_of_a_node_keeps_nothing_that_is_of_no_use(listed: bool) -> None:
    """Seed 60135: the only device of a node was not listed any more, and its minimum kept it: a pod that could go nowhere else
    waited for it for ever. Beside a useless one another one is kept."""
    world = idle_device(limit={"max": 4, "min": 1})
    if listed:
        world.update(world.get(AttachRequest, "composability-x"), size=2, acted_size=2)
        world.online("good", "node0", request="composability-x")
    world.unplug("node0", "gpu-GPU-res")
    world.tick(1000)
    assert [one.resource for one in world.events(e.VictimMarked)] == ["res"]
    world.carry_out()
    assert world.only(e.DetachOrdered).victims == ("res",)
    world.operate()
    world.tick(1000)
    assert len(world.events(e.VictimMarked)) == 1


def test_what_is_listed_again_is_kept_and_what_is_listed_elsewhere_too() -> None:
    world = idle_device()
    world.unplug("node0", "gpu-GPU-res")
    world.tick(301)
    world.only(e.VictimMarked)
    world.plug("node0", "gpu-GPU-res", "GPU-res")
    assert world.only(e.VictimUnmarked).reason == "its device has come"
    world = idle_device()
    world.node("node1")
    world.plug("node1", "gpu-0", "GPU-res")
    world.unplug("node0", "gpu-GPU-res")
    world.tick(900)
    assert not world.events(e.VictimMarked)


def test_what_came_again_is_given_to_nobody_before_its_old_resource_is_gone() -> None:
    """The operator takes off once more what it has not seen to be gone."""
    world = idle_device()
    world.resource("res", "node0", state="Detaching", deleting=True)
    world.resource("again", "node0", uuid="GPU-res", state="Online", request="theirs")
    world.waits("train", "node0")
    assert world.reserved("train") == [] and not world.events(e.AttachOrdered)
    world.gone(world.get(FabricResource, "res"))
    assert world.reserved("train") == ["GPU-res"]


def test_nothing_goes_back_under_the_name_that_another_node_has_for_it() -> None:
    world = idle_device()
    world.unplug("node0", "gpu-GPU-res")
    world.node("node1")
    world.plug("node1", "gpu-0", "GPU-res")
    world.tick(200)
    assert not world.events(e.VictimMarked)
    world.unplug("node1", "gpu-0")
    world.plug("node0", "gpu-GPU-res", "GPU-res")
    world.tick(10)
    assert world.only(e.VictimMarked).pool == "node0"


def test_it_is_told_each_time_that_it_begins() -> None:
    world = vanished()
    world.tick(301)
    world.plug("node0", "gpu-GPU-res0", "GPU-res0")
    world.unplug("node0", "gpu-GPU-res0")
    world.tick(301)
    assert told(world) == ["DeviceUnlisted"] * 2


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("Attaching", "res is being attached to node0 for long; the operator says Attaching, try later"),
        ("Detaching", "res leaves node0 for long; the operator says Detaching, try later"),
    ],
)
def test_what_is_on_its_way_for_minutes_is_told_once_with_the_operators_words(state: str, words: str) -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.resource("res", "node0", state=state, error="try later")
    world.tick(290)
    assert not told(world)
    world.tick(600)
    assert [alert.text for alert in world.events(e.Alerted)] == [words]


def test_a_victim_that_does_not_go_is_told_with_what_it_waits_for() -> None:
    world = idle_device()
    world.tick(101)
    world.carry_out()
    world.tick(31)
    world.carry_out()
    assert world.events(e.DetachOrdered)
    world.tick(400)
    (alert,) = world.events(e.Alerted)
    assert alert.reason == "NoProgress"
    assert alert.text == "res is to leave node0: its request was lowered, and the operator says Online"


# -- an order without an error that hides a device


def ordered() -> World:
    """Two devices were ordered for two claims, and one came."""
    world = one_node("attach", 4, synced=False, scan_interval_seconds=0)
    for name in ("first", "second"):
        world.waits(name, "node0")
    world.sync()
    world.carry_out()
    (own,) = world.state.fleet.requests.rows.values()
    world.update(own, state="Running", acted_size=2)
    world.online("res0", "node0", request=own.name)
    return world


def test_a_device_that_no_resource_stands_for_is_told_of_its_claim_after_minutes() -> None:
    world = ordered()
    world.tick(290)
    assert not told(world)
    world.tick(20)
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == (world.uid("second"), "NoProgress")
    assert alert.text.endswith("asks for 2 and has 1")
    world.tick(100)
    assert len(told(world)) == 1


@pytest.mark.parametrize("uuid", ["", "GPU-hidden"])
def test_a_device_that_is_online_and_that_nobody_shows_is_told(uuid: str) -> None:
    """The operator does not say which it is, or no driver on the node lists any."""
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.carry_out()
    (own,) = world.state.fleet.requests.rows.values()
    world.resource("res0", "node0", request=own.name, state="Online", uuid=uuid)
    world.tick(310)
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == (world.uid("train"), "NoProgress")
    assert (uuid or "which device") in alert.text


def test_one_that_comes_in_time_is_not_told() -> None:
    world = ordered()
    world.tick(250)
    (own,) = world.state.fleet.requests.rows.values()
    world.online("res1", "node0", request=own.name)
    world.tick(200)
    assert not told(world)


def test_each_attempt_that_waits_for_long_is_told() -> None:
    world = ordered()
    world.tick(310)
    world.unreserve("second")
    world.clear("second")
    world.allocate("second", "node0")
    world.tick(310)
    assert told(world) == ["NoProgress"] * 2


@pytest.mark.parametrize("how", ["deleted at once", "deleted with a finalizer", "deleted before its node"])
def test_a_device_that_is_gone_with_its_node_under_a_claim_is_told_with_both_names(how: str) -> None:
    """The operator deletes the resources of a node that is gone (its syncer), and the pod's end may take minutes: nothing else
    says that the claim in use has no device any more."""
    world = used_device()
    node, claim = world.get(Node, "node0"), world.get(Claim, "train")
    if how != "deleted before its node":
        world.gone(node)
    if how == "deleted with a finalizer":
        world.resource("res", "node0", state="Detaching", deleting=True)
    world.gone(world.get(FabricResource, "res"))
    told = world.only(e.Alerted)
    assert (told.of, told.reason) == (claim.uid, "DeviceLost")
    assert "claim default/train has lost its device gpu-GPU-res" in told.text and "node0" in told.text
