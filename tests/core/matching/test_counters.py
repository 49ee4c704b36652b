"""Partitionable devices (KEP-4815): what the parts of a device draw from counters that they share."""

from typing import Any

from dds_core.matching.allocator import Allocator, Gates
from dds_core.model import Node
from tests.core.matching.given import GPU, NODE, allocator, claim, device, devices, exactly, hold, slice_of


def counters(pool: str = "node0", slices: int = 2, node: str | None = "node0", **more: Any) -> Any:
    shared = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}, "units": {"value": "8"}}}]
    return slice_of(name=f"{pool}-counters", pool=pool, slices=slices, node=node, sharedCounters=shared, **more)


def part(name: str, memory: str, units: str = "1", counter_set: str = "gpu-0", **more: Any) -> dict[str, Any]:
    drawn = {"counterSet": counter_set, "counters": {"memory": {"value": memory}, "units": {"value": units}}}
    return device(name, consumesCounters=[drawn], **more)


def parts(*given: dict[str, Any], pool: str = "node0", slices: int = 2) -> Any:
    return slice_of(*given, name=f"{pool}-parts", pool=pool, slices=slices)


WHOLE, HALF, OTHER_HALF, QUARTER = (
    part("whole", "40Gi", "8"),
    part("half-0", "20Gi", "4"),
    part("half-1", "20Gi", "4"),
    part("q", "10Gi", "2"),
)


def serve(chosen: Allocator, count: int) -> list[str]:
    found = []
    for _ in range(count):
        fit = chosen.allocate(NODE, [claim()])
        if fit:
            hold(chosen, fit)
            found += devices(fit)
    return found


def test_parts_are_given_as_far_as_the_counters_reach() -> None:
    assert serve(allocator(counters(), parts(WHOLE, HALF, OTHER_HALF)), 3) == ["whole"]
    assert serve(allocator(counters(), parts(HALF, WHOLE, QUARTER, OTHER_HALF)), 3) == ["half-0", "q"]


def test_every_counter_must_suffice() -> None:
    hungry = part("hungry", "1Gi", "7")
    assert serve(allocator(counters(), parts(hungry, HALF)), 2) == ["hungry"]


def test_within_one_claim_too() -> None:
    chosen = allocator(counters(), parts(HALF, WHOLE, OTHER_HALF))
    assert devices(chosen.allocate(NODE, [claim(exactly(count=2))])) == ["half-0", "half-1"]
    assert not chosen.allocate(NODE, [claim(exactly(count=3))])
    assert devices(chosen.allocate(NODE, [claim(exactly(count=2))])) == ["half-0", "half-1"]  # nothing is left charged


def test_what_is_given_back_can_be_had_again() -> None:
    chosen = allocator(counters(), parts(WHOLE, HALF))
    fit = chosen.allocate(NODE, [claim()])
    hold(chosen, fit)
    assert serve(chosen, 1) == []
    chosen.in_use.remove(fit.allocations[0].to_object())
    assert serve(chosen, 1) == ["whole"]


def test_a_pool_without_its_counters_gives_nothing() -> None:
    assert serve(allocator(parts(HALF)), 1) == []


def test_counters_are_those_of_the_pool_and_driver() -> None:
    """Two pools have a counter set of the same name; a full one does not close the other."""
    chosen = allocator(counters("a"), parts(WHOLE, pool="a"), counters("b"), parts(WHOLE, pool="b"))
    assert serve(chosen, 3) == ["whole", "whole"]


def test_devices_out_of_reach_draw_from_the_same_counters() -> None:
    """Slices of a pool for several nodes: what another node's device takes is gone for all."""
    here = slice_of(HALF, name="here", pool="fabric", slices=3, node="node0")
    there = slice_of(WHOLE, name="there", pool="fabric", slices=3, node="node1")
    chosen = allocator(counters("fabric", slices=3, node=None, allNodes=True), here, there)
    assert devices(chosen.allocate(NODE, [claim()])) == ["half-0"]
    hold(chosen, chosen.allocate(Node("", "node1"), [claim()]))
    assert not chosen.allocate(NODE, [claim()])


def test_a_shared_part_is_charged_once() -> None:
    capacity = {"memory": {"value": "20Gi", "requestPolicy": {"default": "5Gi"}}}
    shared = part("half-0", "20Gi", "4", capacity=capacity, allowMultipleAllocations=True)
    chosen = allocator(counters(), parts(shared, OTHER_HALF))
    assert serve(chosen, 6) == ["half-0"] * 4 + ["half-1"]
    twice = allocator(counters(), parts(shared, OTHER_HALF))
    fit = twice.allocate(
        NODE, [claim(exactly("a"), exactly("b"), exactly("c", "device.allowMultipleAllocations == false"))]
    )
    assert devices(fit) == ["half-0", "half-0", "half-1"]


def test_a_share_that_is_taken_back_leaves_the_other_charged() -> None:
    """The third request fails with the first choice of the second, which was a second share of the same part."""
    capacity = {"memory": {"value": "10Gi", "requestPolicy": {"default": "5Gi"}}}
    shared = part("s", "20Gi", "4", capacity=capacity, allowMultipleAllocations=True)
    chosen = allocator(counters(), parts(shared, HALF))
    own = f"device.driver == '{GPU}' && device.allowMultipleAllocations"
    fit = chosen.allocate(NODE, [claim(exactly("a", own), exactly("b"), exactly("c", own))])
    assert devices(fit) == ["s", "half-0", "s"]


def test_without_the_gate_such_pools_are_not_seen() -> None:
    off = Gates(partitionable_devices=False)
    assert serve(allocator(counters(), parts(HALF), gates=off), 1) == []
    assert serve(allocator(slice_of(HALF, "plain"), gates=off), 2) == ["plain"]
    by_device = slice_of(device("d", allNodes=True), pool="p", node=None, perDeviceNodeSelection=True)
    assert serve(allocator(by_device, gates=off), 1) == []
