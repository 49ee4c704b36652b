"""Partitionable devices (KEP-4815): what the parts of a device draw from counters that they share, also held to Kubernetes' own
answers in test_against_kubernetes.py."""

from typing import Any

from dds_core.matching.allocator import Allocator, Gates
from tests.core.matching.given import NODE, allocator, claim, device, devices, hold, slice_of


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


def test_what_is_given_back_can_be_had_again() -> None:
    chosen = allocator(counters(), parts(WHOLE, HALF))
    fit = chosen.allocate(NODE, [claim()])
    hold(chosen, fit)
    assert serve(chosen, 1) == []
    chosen.in_use.remove(fit.allocations[0].to_object())
    assert serve(chosen, 1) == ["whole"]


def test_without_the_gate_such_pools_are_not_seen() -> None:
    off = Gates(partitionable_devices=False)
    assert serve(allocator(counters(), parts(HALF), gates=off), 1) == []
    assert serve(allocator(slice_of(HALF, "plain"), gates=off), 2) == ["plain"]
    by_device = slice_of(device("d", allNodes=True), pool="p", node=None, perDeviceNodeSelection=True)
    assert serve(allocator(by_device, gates=off), 1) == []
