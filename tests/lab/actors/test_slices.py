"""Slices of a pool: generations, order of writes, what an earlier process left, what a server drops."""

from __future__ import annotations

from typing import Any

from dds_lab.actors.slices import SlicePool, SliceWriter
from dds_lab.client import Object
from tests.lab.actors.rooms import GPU, Room


def pool(*slices: list[str], name: str = "node0") -> SlicePool:
    names = tuple(f"{name}-{place}" for place in range(len(slices)))
    devices: tuple[list[Object], ...] = tuple([{"name": device} for device in one] for one in slices)
    return SlicePool(name, {"nodeName": name}, names, devices)


def writer(room: Room, *, always_next: bool = False) -> SliceWriter:
    made = SliceWriter(
        room.client("driver"), room.time, GPU, lambda obj: "nodeName" in obj["spec"], always_next=always_next
    )
    return room.start(made)


def seen(room: Room) -> dict[str, tuple[int, int, list[str]]]:
    """Slice → generation, number of slices, devices."""
    found: dict[str, Any] = {}
    for one in room.user.list("resourceslices"):
        spec = one["spec"]
        devices = [device["name"] for device in spec.get("devices") or ()]
        found[one["metadata"]["name"]] = (spec["pool"]["generation"], spec["pool"]["resourceSliceCount"], devices)
    return found


def test_one_update_keeps_the_generation() -> None:
    room = Room()
    slices = writer(room)
    slices.publish(pool(["gpu-0"]))
    slices.publish(pool(["gpu-0", "gpu-1"]))
    assert seen(room) == {"node0-0": (1, 1, ["gpu-0", "gpu-1"])}


def test_more_than_one_write_takes_the_next_generation_in_all_slices() -> None:
    room = Room()
    slices = writer(room)
    slices.publish(pool(["gpu-0"]))
    slices.publish(pool(["gpu-0"], ["gpu-1"]))
    assert seen(room) == {"node0-0": (2, 2, ["gpu-0"]), "node0-1": (2, 2, ["gpu-1"])}
    slices.publish(pool(["gpu-2"]))
    assert seen(room) == {"node0-0": (3, 1, ["gpu-2"])}


def test_a_simple_publisher_takes_the_next_generation_each_time() -> None:
    room = Room()
    slices = writer(room, always_next=True)
    for devices in (["gpu-0"], ["gpu-0", "gpu-1"], []):
        slices.publish(pool(devices))
    assert seen(room) == {"node0-0": (3, 1, [])}


def test_what_is_as_it_should_be_is_not_written() -> None:
    room = Room()
    slices = writer(room)
    slices.publish(pool(["gpu-0"]))
    before = room.user.get("resourceslices", "node0-0")["metadata"]["resourceVersion"]
    slices.publish(pool(["gpu-0"]))
    room.run(5)
    assert room.user.get("resourceslices", "node0-0")["metadata"]["resourceVersion"] == before


def test_what_an_earlier_process_left_is_taken_over() -> None:
    room = Room()
    first = writer(room)
    first.publish(pool(["gpu-0"], ["gpu-1"]))
    first.stop()
    second = writer(room)
    second.publish(pool(["gpu-0"]))
    assert seen(room) == {"node0-0": (2, 1, ["gpu-0"])}


def test_a_slice_that_somebody_deletes_comes_back() -> None:
    room = Room()
    slices = writer(room)
    slices.publish(pool(["gpu-0"]))
    room.run(1)
    room.user.delete("resourceslices", "node0-0")
    room.run(1)
    assert seen(room)["node0-0"][2] == ["gpu-0"]


def test_a_withdrawn_pool_is_gone_and_others_slices_stay() -> None:
    room = Room()
    slices = writer(room)
    foreign = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "pool"},
        "spec": {"driver": GPU, "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1}, "allNodes": True},
    }
    room.user.create("resourceslices", foreign)
    slices.publish(pool(["gpu-0"]))
    slices.withdraw("node0")
    slices.withdraw("pool")
    assert list(seen(room)) == ["pool"]


def test_a_server_that_drops_a_field_is_not_asked_for_ever() -> None:
    room = Room(version="1.34")
    slices = writer(room)
    devices: list[Object] = [
        {
            "name": "a",
            "bindsToNode": True,
            "bindingConditions": ["Ready"],
            "bindingFailureConditions": ["Failed"],
        }
    ]
    slices.publish(SlicePool("node0", {"nodeName": "node0"}, ("node0-0",), (devices,)))
    room.run(10)
    found = room.user.get("resourceslices", "node0-0")
    assert "bindingConditions" not in found["spec"]["devices"][0]
    assert found["spec"]["pool"]["generation"] == 1


def test_a_refused_write_is_tried_again() -> None:
    room = Room()
    slices = writer(room)
    slices.publish(pool(["NOT A NAME"]))
    assert seen(room) == {}
    slices.publish(pool(["gpu-0"]))
    room.run(2)
    assert seen(room)["node0-0"][2] == ["gpu-0"]
