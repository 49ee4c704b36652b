"""Sick devices: Online with an error, or tainted by their driver. Nobody gets them, and a person is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dds_core.model import FabricResource, Slice, Taint
from dds_core.scaler import events as e
from tests.core.scaler.test_b14_fence import idle_device
from tests.support.world import GPU, World

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
    assert world.state("train") == "Attached"
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
