"""In which order devices are tried: first fit, so the order is the choice, which test_against_kubernetes.py holds to Kubernetes'
own; here the two rules that matter most to dds, and where a search ends."""

from tests.core.matching.given import (
    GPU,
    NODE,
    allocator,
    claim,
    device,
    devices,
    exactly,
    holding,
    selecting,
    slice_of,
    waiting,
)

ZONE = selecting(zone="a")


def test_pools_with_binding_conditions_come_last() -> None:
    fabric = slice_of(waiting("far"), driver="a.example.com", pool="fabric", node=None, **ZONE)
    local = slice_of("near", driver="z.example.com", pool="z")
    fit = allocator(fabric, local).allocate(NODE, [claim(exactly(count=2))])
    assert devices(fit) == ["near", "far"]


def test_an_earlier_choice_is_taken_back_where_a_later_request_needs_the_device() -> None:
    chosen = allocator(slice_of(device("only", {"model": "big"}), device("other", {"model": "small"})))
    big = "device.attributes['gpu.example.com'].model == 'big'"
    assert devices(chosen.allocate(NODE, [claim(exactly("any"), exactly("big", big))])) == ["other", "only"]
    assert devices(chosen.allocate(NODE, [claim(name="any"), claim(exactly("big", big))])) == ["other"]


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
