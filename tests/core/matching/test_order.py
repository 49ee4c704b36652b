"""In which order devices are tried: first fit, so the order is the choice."""

import pytest

from dds_core.model import Node
from tests.core.matching.given import (
    GPU,
    NODE,
    allocator,
    claim,
    class_of,
    device,
    devices,
    exactly,
    hold,
    holding,
    keys,
    selecting,
    slice_of,
    waiting,
)

ZONE = selecting(zone="a")


def test_devices_in_the_order_of_their_list() -> None:
    chosen = allocator(slice_of("z", "a", "m"))
    found = []
    for _ in range(3):
        fit = chosen.allocate(NODE, [claim()])
        hold(chosen, fit)
        found += devices(fit)
    assert found == ["z", "a", "m"]
    assert chosen.allocate(NODE, [claim()]).reason == "cannot allocate all claims"


def test_slices_of_a_pool_by_name() -> None:
    late = slice_of("first", name="b", slices=2)
    early = slice_of("second", name="a", slices=2)
    assert devices(allocator(late, early).allocate(NODE, [claim()])) == ["second"]


def test_pools_by_driver_then_by_name() -> None:
    slices = [
        slice_of("d0", driver="b.example.com", pool="0"),
        slice_of("d1", driver="a.example.com", pool="2"),
        slice_of("d2", driver="a.example.com", pool="10"),
    ]
    assert devices(allocator(*slices).allocate(NODE, [claim(exactly(count=3))])) == ["d2", "d1", "d0"]


def test_pools_with_binding_conditions_come_last() -> None:
    fabric = slice_of(waiting("far"), driver="a.example.com", pool="fabric", node=None, **ZONE)
    local = slice_of("near", driver="z.example.com", pool="z")
    fit = allocator(fabric, local).allocate(NODE, [claim(exactly(count=2))])
    assert devices(fit) == ["near", "far"]


def test_the_order_is_of_pools_and_not_of_devices() -> None:
    """One device with binding conditions puts the whole pool last, the ready ones in it too."""
    mixed = slice_of("ready", waiting("far"), driver="a.example.com", pool="mixed")
    plain = slice_of("near", driver="z.example.com", pool="z")
    assert devices(allocator(mixed, plain).allocate(NODE, [claim(exactly(count=3))])) == ["near", "ready", "far"]


def test_requests_in_the_order_of_the_claim_and_claims_as_given() -> None:
    chosen = allocator(slice_of("d0", "d1", "d2", "d3"))
    both = [claim(exactly("b"), exactly("a", count=2), name="late"), claim(name="early")]
    fit = chosen.allocate(NODE, both)
    assert [(r.request, r.device) for r in fit.allocations[0].results] == [("b", "d0"), ("a", "d1"), ("a", "d2")]
    assert devices(fit, 1) == ["d3"]


def test_an_earlier_choice_is_taken_back_where_a_later_request_needs_the_device() -> None:
    chosen = allocator(slice_of(device("only", {"model": "big"}), device("other", {"model": "small"})))
    big = "device.attributes['gpu.example.com'].model == 'big'"
    assert devices(chosen.allocate(NODE, [claim(exactly("any"), exactly("big", big))])) == ["other", "only"]
    assert devices(chosen.allocate(NODE, [claim(name="any"), claim(exactly("big", big))])) == ["other"]


def test_taking_back_leaves_nothing_behind() -> None:
    """After a failed search the next one finds all devices free."""
    chosen = allocator(slice_of("d0", "d1"))
    assert not chosen.allocate(NODE, [claim(exactly(count=2)), claim(name="more")])
    assert devices(chosen.allocate(NODE, [claim(exactly(count=2))])) == ["d0", "d1"]


def test_what_is_in_use_is_passed_over_without_a_look() -> None:
    """A selector that fails on a device in use does no harm."""
    chosen = allocator(
        slice_of("bare", device("good", {"model": "x"})),
        classes=[class_of("strict", "device.attributes['gpu.example.com'].model == 'x'")],
        in_use=holding(("gpu.example.com", "node0", "bare")),
    )
    assert devices(chosen.allocate(NODE, [claim(exactly(device_class="strict"))])) == ["good"]


def test_the_same_device_name_in_two_pools_is_two_devices() -> None:
    chosen = allocator(slice_of("gpu-0"), slice_of("gpu-0", pool="other", name="other"))
    fit = chosen.allocate(NODE, [claim(exactly(count=2))])
    assert keys(fit) == [("gpu.example.com", "node0", "gpu-0"), ("gpu.example.com", "other", "gpu-0")]


@pytest.mark.parametrize("node", [Node("", "node1"), Node("", "node1", {"zone": "b"})])
def test_only_pools_that_the_node_reaches(node: Node) -> None:
    everywhere = slice_of("all", pool="all", node=None, allNodes=True)
    chosen = allocator(slice_of("own"), slice_of("zone", pool="zone", node=None, **ZONE), everywhere)
    assert devices(chosen.allocate(node, [claim()])) == ["all"]
    assert devices(chosen.allocate(NODE, [claim(exactly(count=3))])) == ["all", "own", "zone"]


def test_devices_that_select_nodes_one_by_one() -> None:
    mixed = slice_of(
        device("elsewhere", nodeName="node9"),
        device("zone", **selecting(zone="a")),
        device("here", nodeName="node0"),
        device("all", allNodes=True),
        pool="mixed",
        node=None,
        perDeviceNodeSelection=True,
    )
    chosen = allocator(mixed)
    assert devices(chosen.allocate(NODE, [claim(exactly(count=3))])) == ["zone", "here", "all"]
    assert devices(chosen.allocate(Node("", "node1"), [claim()])) == ["all"]


def test_no_claims_need_no_devices() -> None:
    fit = allocator().allocate(NODE, [])
    assert fit and fit.allocations == ()


def test_a_search_is_cut_where_too_few_are_left() -> None:
    """Ten of nine that are free among a hundred: known at once, not after all the ways to choose."""
    many = slice_of(*(f"d{i}" for i in range(100)))
    taken = holding(*((GPU, "node0", f"d{i}") for i in range(91)))
    chosen = allocator(many, in_use=taken, steps=1000)
    assert chosen.allocate(NODE, [claim(exactly(count=10))]).reason == "cannot allocate all claims"
    assert devices(chosen.allocate(NODE, [claim(exactly(count=9))])) == [f"d{i}" for i in range(91, 100)]


def test_a_search_without_end_is_given_up() -> None:
    """No device is like another, and 20 of 20 have to differ in a second attribute of which there are 19 values."""
    unlike = [device(f"d{i}", {"numa": i, "rack": min(i, 18)}) for i in range(20)]
    chosen = allocator(slice_of(*unlike), steps=1000)
    halves = (exactly("half", count=10), exactly("too-many", count=10))
    endless = claim(*halves, constraints=[{"distinctAttribute": f"{GPU}/{name}"} for name in ("numa", "rack")])
    assert chosen.allocate(NODE, [endless]).reason == "timed out trying to allocate devices"


def test_equal_devices_are_not_tried_again() -> None:
    """Of 20 equal devices none is better than another: 10 and 11 of them are too many, and so are 21 under one of six switches
    with 20 each. What there is, is found where Kubernetes finds it first."""
    chosen = allocator(slice_of(*(f"d{i}" for i in range(20))), steps=50)
    too_many = claim(exactly("half", count=10), exactly("too-many", count=11))
    assert chosen.allocate(NODE, [too_many]).reason == "cannot allocate all claims"
    switches = [device(f"d{i}", {"root": f"switch{i % 6}", "uuid": f"GPU-{i}"}) for i in range(120)]
    chosen = allocator(slice_of(*switches), steps=50)
    together = [{"matchAttribute": f"{GPU}/root"}]
    assert (
        chosen.allocate(NODE, [claim(exactly(count=21), constraints=together)]).reason == "cannot allocate all claims"
    )
    found = devices(chosen.allocate(NODE, [claim(exactly(count=20), constraints=together)]))
    assert found == [f"d{i}" for i in range(0, 120, 6)]
