"""D1-D9 and D13, the faults of the pool publisher, as far as the engine meets them: what is published wrong, late or not at
all does no harm here. The publisher's own side is tested with the publisher."""

import pytest
from msgspec.structs import replace

from dds_core.model import Config, Device, Requirement, Slice
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, FAILED, GPU, H100, READY, RESCHEDULE, World, class_of, one_node


def plain(mode: str = "attach") -> World:
    world = one_node(mode, 4, scan_interval_seconds=0)
    return world


def config(world: World) -> Config:
    return world.state.settings.config


def test_d01_a_name_is_a_place_and_not_a_device() -> None:
    """Positional names shift when the count changes; two claims on one name in turn are two attempts for two devices."""
    world = plain()
    for name in ("one", "two"):
        world.waits(name, "node0", *pool_results(0))
        world.settle()
    assert world.reserved("one") != world.reserved("two")


def test_d02_a_count_that_falls_with_the_attach_orders_nothing_twice() -> None:
    world = plain()
    world.claim("train", 2)
    world.allocate("train", "node0")
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.online("res0", "node0", request=request)
    world.pool(A100, 3, generation=2)
    world.online("res1", "node0", request=request)
    world.pool(A100, 2, generation=3)
    assert world.state_of("train") == "Attached"
    assert len(world.events(e.AttachOrdered)) == 1


def test_d03_a_changed_configuration_takes_effect_at_once() -> None:
    world = World("attach", models=(H100,), scan_interval_seconds=0)
    world.node("node0", labels={"cohdi.io/nvidia-a100-40": "true"})
    world.pool(A100, 4)
    world.waits("train", "node0", *pool_results(0))
    assert world.state_of("train") == ""
    world.update(config(world), models=(A100, H100))
    assert world.state_of("train") == "Attaching"


def test_d03_a_changed_class_changes_what_a_claim_may_have() -> None:
    world = plain()
    revised = replace(A100, attributes={"productName": "A100 rev B"})
    world.plug("node0", "gpu-0", "GPU-fixed", revised)
    world.waits("train", "node0")
    assert world.state_of("train") == "Attaching"
    world.observe(class_of(revised))
    assert world.reserved("train") == ["GPU-fixed"]


def test_d04_the_label_of_a_model_that_is_no_longer_configured_goes() -> None:
    world = plain()
    world.update(config(world), models=(H100,))
    assert world.only(e.NodeLabelled).labels == {"cohdi.io/nvidia-a100-40": None}
    world.waits("train", "node0", *pool_results(0))
    assert not world.events(e.AttachOrdered)


def test_d05_a_publisher_that_restarts_with_generation_one_is_believed() -> None:
    world = plain()
    world.pool(A100, 2, generation=9)
    world.gone(world.get(Slice, "nvidia-a100-40-fabric1"))
    world.pool(A100, 3, generation=1)
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).size == 1


def test_d06_a_pool_in_several_slices_counts_as_one() -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    pool = "nvidia-a100-40-fabric1"
    reach = (Requirement("cohdi.io/fabric", "In", ("1",)),)
    device = Device(dict(A100.attributes), binding=(READY,), failure=(RESCHEDULE, FAILED))
    for part in range(2):
        devices = {f"nvidia-a100-40-{number}": device for number in range(part * 100, part * 100 + 100)}
        world.observe(Slice(f"s{part}", f"s{part}", GPU, pool, 1, 2, selector=reach, devices=devices))
    world.change_policy(limit={"max": 200})
    world.claim("train", 150)
    world.allocate("train", "node0")
    assert world.only(e.AttachOrdered).size == 150


@pytest.mark.parametrize(
    ("requirement", "reached"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("b",)), False),
        (Requirement("zone", "NotIn", ("b",)), True),
        (Requirement("zone", "NotIn", ("a",)), False),
        (Requirement("zone", "Exists"), True),
        (Requirement("rack", "Exists"), False),
        (Requirement("rack", "DoesNotExist"), True),
        (Requirement("zone", "DoesNotExist"), False),
        (Requirement("height", "Gt", ("3",)), True),
        (Requirement("height", "Gt", ("4",)), False),
        (Requirement("height", "Lt", ("5",)), True),
        (Requirement("zone", "Lt", ("5",)), False),
        (Requirement("grouped", "Gt", ("5",)), False),
        (Requirement("zone", "Near", ("a",)), False),
    ],
    ids=lambda value: f"{value.key} {value.operator} {value.values}" if isinstance(value, Requirement) else "",
)
def test_d07_a_pool_reaches_the_nodes_that_its_selector_names(requirement: Requirement, reached: bool) -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0", labels={"zone": "a", "height": "4", "grouped": "1_0"})
    world.pool(A100, 4)
    pool = world.get(Slice, "nvidia-a100-40-fabric1")
    world.update(pool, selector=(*pool.selector, requirement))
    world.waits("train", "node0")
    assert bool(world.events(e.AttachOrdered)) == reached


def test_d08_a_fabric_that_publishes_nothing_stops_no_other() -> None:
    world = plain()
    world.node("far", fabric=2)
    world.waits("stuck", "far", *pool_results(0, fabric=2))
    world.waits("train", "node0")
    world.settle()
    assert (world.state_of("stuck"), world.state_of("train")) == ("Pending", "Attached")


def test_d09_a_node_that_left_its_fabric_is_labelled_no_more() -> None:
    world = plain()
    world.relabel("node0", {"cohdi.io/fabric": None})
    world.relabel("node0", {"cohdi.io/nvidia-a100-40": None})
    assert not world.events(e.NodeLabelled)


def test_d13_an_attribute_that_the_pool_leaves_empty_is_no_mark_of_a_model() -> None:
    """Pool devices carry `uuid: ""`; a device is not known by what is empty."""
    models = (replace(A100, attributes={"uuid": "", "productName": "A100"}),)
    world = World("attach", models=models, scan_interval_seconds=0, limit={"fixed": 1})
    world.node("node0")
    world.pool(A100, 4)
    world.waits("train", "node0")
    world.plug("node0", "other", "GPU-x", H100)
    assert world.state_of("train") == "Attaching"
    world.plug("node0", "gpu-0", "GPU-y", replace(A100, attributes={"productName": "A100"}))
    assert world.reserved("train") == ["GPU-y"]
