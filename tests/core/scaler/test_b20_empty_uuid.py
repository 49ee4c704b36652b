"""B20: an empty UUID equalled an empty UUID, a UUID that was no text ended the process, a qualified name was not known.

Here an empty or odd UUID matches nothing, and both spellings of the attribute count.
"""

import pytest

from dds_core.model import Device, Slice
from dds_core.scaler import events as e
from tests.support.world import GPU, World, one_node


def node_with(attributes: dict[str, str | int | bool], uuid: str) -> World:
    world = one_node("detach", 2, no_removal_seconds=10, scan_interval_seconds=0)
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.resource("res", "node0", request="composability-x", state="Online", uuid=uuid)
    world.observe(Slice("s", "s", GPU, "node0", 1, 1, node="node0", devices={"gpu-0": Device(attributes)}))
    return world


@pytest.mark.parametrize(
    ("attributes", "uuid"),
    [({"uuid": ""}, ""), ({}, ""), ({"uuid": 7}, "7"), ({"uuid": True}, "True"), ({"uuid": "GPU-a"}, "")],
    ids=["both empty", "none", "a number", "a truth value", "resource without"],
)
def test_b20_it_matches_nothing(attributes: dict[str, str | int | bool], uuid: str) -> None:
    world = node_with(attributes, uuid)
    world.holds("train", "node0", "gpu-0")
    assert world.device("res") == "Idle"
    world.tick(60)
    assert not world.events(e.VictimMarked), "a device that cannot be named cannot be a victim"


@pytest.mark.parametrize("name", ["uuid", "gpu.nvidia.com/uuid"])
def test_b20_both_spellings_of_the_attribute_count(name: str) -> None:
    world = node_with({name: "GPU-a"}, "GPU-a")
    world.holds("train", "node0", "gpu-0")
    assert world.device("res") == "Used"


def test_b20_the_attribute_is_a_matter_of_the_driver() -> None:
    world = node_with({"serial": "GPU-a"}, "GPU-a")
    world.change_policy(drivers={GPU: {"uuid_attribute": "serial"}})
    world.holds("train", "node0", "gpu-0")
    assert world.device("res") == "Used"


def test_b20_a_device_without_uuid_is_promised_by_its_name_and_once() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "")
    world.waits("first", "node0")
    world.carry_out(e.HandOver)
    world.clear("first")
    world.waits("second", "node0")
    assert [(p.claim, [one.device for one in p.promises]) for p in world.events(e.Reserved)] == [
        (world.uid("first"), ["gpu-0"])
    ]
    assert world.events(e.AttachOrdered)[-1].claims == (world.uid("second"),)
