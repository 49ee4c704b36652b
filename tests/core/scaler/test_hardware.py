"""Claims hold faces of hardware: the whole, partitions, virtual functions. What is attached and detached is the hardware."""

from __future__ import annotations

import pytest

from dds_core.model import Device, Slice
from dds_core.scaler import events as e
from dds_core.scaler.hardware import Face, faces_of, traits_of
from dds_core.scaler.policy import DriverPolicy
from tests.core.scaler.test_b14_fence import idle_device
from tests.support.world import A100, GPU, World, one_node

COUNTERS = {"gpu-0-counter-set": {"memory": "10Gi", "memory-slice-0": "1"}}


def partitions(world: World, count: int = 2, of: str = "GPU-res", first: int = 0) -> list[str]:
    """The driver lists partitions of the GPU on node0, without a UUID of their own; their names."""
    names = [f"{of.lower()}-mig-{number}" for number in range(first, first + count)]
    for name in names:
        world.plug("node0", name, "", more={"type": "mig", "parentUUID": of})
    return names


def repartitioned() -> World:
    """The idle device of the resource `res` lists two partitions and is no whole any more."""
    world = idle_device()
    world.unplug("node0", "gpu-GPU-res")
    partitions(world)
    return world


# -- in use -------------------------------------------------------------------------------------------------------------


def test_a_gpu_is_in_use_as_long_as_a_claim_holds_a_part_of_it() -> None:
    """It counted as idle, and was taken from under its pods within the minute."""
    world = idle_device()
    first, second = partitions(world)
    world.holds("a", "node0", first)
    world.holds("b", "node0", second)
    assert world.device("res") == "Used"
    world.finish("a")
    world.tick(1000)
    assert world.device("res") == "Used"
    assert not world.events(e.VictimMarked)
    world.finish("b")
    assert world.device("res") == "Idle"
    world.tick(101)
    assert world.only(e.VictimMarked).resource == "res"


def test_a_part_that_is_taken_while_its_gpu_is_about_to_go_takes_the_fence_down() -> None:
    world = idle_device()
    first, _ = partitions(world)
    world.tick(101)
    world.holds("a", "node0", first)
    assert world.device("res") == "Used"
    assert world.only(e.VictimUnmarked).reason == "a claim holds it"


def test_a_gpu_of_which_only_parts_are_listed_goes_back_too() -> None:
    world = repartitioned()
    world.tick(101)
    victim = world.only(e.VictimMarked)
    assert (victim.resource, victim.device) == ("res", "gpu-res-mig-0")
    world.carry_out()
    world.tick(31)
    world.carry_out()
    assert world.only(e.DetachOrdered).victims == ("res",)


def test_where_one_name_can_be_fenced_a_gpu_with_several_stays_if_the_policy_wants_a_fence() -> None:
    world = idle_device(detach_without_fence="never")
    partitions(world)
    world.tick(1000)
    assert not world.events(e.VictimMarked)


@pytest.mark.parametrize("gap", ["no slice", "not complete"])
def test_what_is_held_under_a_name_that_nobody_lists_may_be_a_part_of_what_was_in_use(gap: str) -> None:
    """Two parts are held, the node's slices go, and the claim goes by which the device was known to be in use."""
    world = idle_device()
    first, second = partitions(world)
    world.holds("a", "node0", first)
    world.holds("b", "node0", second)
    own = world.get(Slice, f"node0-{GPU}")
    if gap == "no slice":
        world.gone(own)
    else:
        world.update(own, devices={}, generation=own.generation + 1, slices=2)
    world.finish("a")
    assert world.device("res") == "Used"
    world.finish("b")
    assert world.device("res") == "Idle"


# -- given away ------------------------------------------------------------------------------------------------------------


def test_a_part_is_never_given_for_a_whole() -> None:
    """The claim was promised a partition that the scheduler would never give it."""
    world = one_node("attach", 4)
    partitions(world, of="GPU-fixed")
    world.waits("train", "node0")
    assert world.state_of("train") == "Attaching"
    assert world.only(e.AttachOrdered).size == 1


@pytest.mark.parametrize("held", [False, True])
def test_a_whole_is_free_when_none_of_its_parts_is_held(held: bool) -> None:
    world = one_node("attach", 4)
    world.plug("node0", "gpu-0", "GPU-fixed")
    first, _ = partitions(world, of="GPU-fixed")
    if held:
        world.holds("other", "node0", first)
    world.waits("train", "node0")
    assert world.state_of("train") == ("Attaching" if held else "Attached")
    assert world.reserved("train") == ([] if held else ["GPU-fixed"])


@pytest.mark.parametrize("attached", [True, False])
def test_two_whole_faces_of_one_device_go_to_one_claim(attached: bool) -> None:
    """As a GPU that may be passed through is listed: `gpu-0`, and `gpu-vfio-0` with a UUID of its own."""
    world = one_node("attach", 4, synced=False, scan_interval_seconds=0)
    address = {"resource.kubernetes.io/pciBusID": "0000:01:00.0"}
    world.plug("node0", "gpu-0", "GPU-res", more=address)
    world.plug("node0", "gpu-vfio-0", "v5", more={"type": "vfio", **address})
    if attached:
        world.resource("res", "node0", uuid="GPU-res", state="Online")
    world.waits("one", "node0")
    world.waits("two", "node0")
    world.claim("wide", 2)
    world.allocate("wide", "node0", (A100, 2))
    world.sync()
    assert [world.state_of(name) for name in ("one", "two")] == ["Attached", "Attaching"]
    assert world.state_of("wide") == "Attaching"
    assert world.only(e.AttachOrdered).size == 3


def test_a_name_that_vanishes_while_it_is_held_leaves_its_device_in_use() -> None:
    """The claim by which the device was known to be in use has ended; the driver goes on listing the GPU."""
    world = idle_device()
    first, second = partitions(world)
    world.holds("a", "node0", first)
    world.holds("b", "node0", second)
    world.finish("a")
    world.unplug("node0", second)
    world.tick(1000)
    assert world.device("res") == "Used"
    assert not world.events(e.VictimMarked)
    world.plug("node0", second, "", more={"parentUUID": "GPU-other"})
    assert world.device("res") == "Idle", "it was a part of another"


def test_for_a_device_that_came_in_parts_a_second_one_is_ordered_and_no_third() -> None:
    """The first may have been cut by somebody meanwhile; where each is, another would not help."""
    world = one_node("attach", 4)
    world.waits("train", "node0")
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("first", "node0", request=request, state="Attaching", uuid="GPU-1")
    partitions(world, of="GPU-1")
    world.resource("first", "node0", state="Online")
    assert [one.size for one in world.events(e.AttachOrdered)] == [1, 2]
    assert world.state_of("train") == "Attaching"
    world.carry_out()
    world.resource("second", "node0", request=request, state="Attaching", uuid="GPU-2")
    partitions(world, of="GPU-2")
    world.resource("second", "node0", state="Online")
    assert [one.size for one in world.events(e.AttachOrdered)] == [1, 2]
    why = "GPU-2 came for it and cannot be given to it: the node lists parts of it only"
    assert world.only(e.ClaimFailed).message == why


# -- which faces belong together ------------------------------------------------------------------------------------------


def known(**devices: Device) -> dict[str, Face]:
    return faces_of(devices, {name: traits_of("d", device, DriverPolicy()) for name, device in devices.items()})


def test_parts_are_known_by_their_parent_by_a_counter_set_or_by_an_address() -> None:
    gpu = Device({"type": "gpu", "uuid": "G", "resource.kubernetes.io/pciBusID": "0000:01:00.0"})
    mig = Device({"type": "mig", "uuid": "MIG-1", "parentUUID": "G"})
    vfio = Device({"type": "vfio", "uuid": "v5", "resource.kubernetes.io/pciBusID": "0000:01:00.0"})
    found = known(gpu=gpu, mig=mig, vfio=vfio, other=Device({"uuid": "H"}))
    assert found["gpu"] == Face(("G", "v5"), ("mig", "vfio"), part=False)
    assert found["mig"] == Face(("G", "v5"), ("gpu", "vfio"), part=True)
    assert found["vfio"].uuids == ("v5", "G")
    assert found["other"] == Face(("H",), (), part=False)


def test_of_devices_that_draw_on_one_counter_set_the_one_that_draws_most_is_the_whole() -> None:
    """As the example driver lists them: every one with the UUID of the GPU, and no type."""
    half = {name: dict.fromkeys(counters, "1") for name, counters in COUNTERS.items()}
    found = known(full=Device({"uuid": "G"}, consumes=COUNTERS), one=Device(consumes=half), two=Device(consumes=half))
    assert [found[name].part for name in ("full", "one", "two")] == [False, True, True]
    assert found["one"].uuids == ("G",)


def test_a_virtual_function_may_be_of_any_device_under_its_root() -> None:
    root = {"resource.kubernetes.io/pcieRoot": "pci0000:16"}
    physical = {name: Device({"uuid": name, **root}) for name in ("p0", "p1")}
    found = known(**physical, v0=Device({"type": "vf", "uuid": "v0", **root}), far=Device({"uuid": "far"}))
    assert found["p0"] == Face(("p0",), ("v0",), part=False)
    assert found["p1"] == Face(("p1",), ("v0",), part=False)
    assert (set(found["v0"].uuids), found["v0"].part) == ({"v0", "p0", "p1"}, True)
    assert found["far"].others == ()


def test_what_makes_no_sense_keeps_a_device_and_gives_none_away() -> None:
    """A parent that is its own, one that is not listed, two devices with one address, a counter that is no number."""
    address = {"resource.kubernetes.io/pciBusID": "0000:01:00.0"}
    found = known(
        own=Device({"uuid": "A", "parentUUID": "A"}),
        orphan=Device({"parentUUID": "gone"}),
        one=Device({"uuid": "B", **address}),
        two=Device({"uuid": "C", **address}),
        odd=Device({"uuid": "D"}, consumes={"set": {"memory": "much"}}),
    )
    assert (found["own"].part, found["orphan"].part) == (True, True)
    assert (found["one"].others, found["two"].others) == (("two",), ("one",))
    assert found["odd"] == Face(("D",), (), part=False)
