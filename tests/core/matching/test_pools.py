"""Generations, incomplete and invalid pools, and slices that change between two questions."""

import pytest

from dds_core.matching.allocator import AllocationError, Allocator
from dds_core.model import Node
from tests.core.matching.given import NODE, allocator, claim, device, devices, exactly, selecting, slice_of, waiting

ALL = exactly(allocationMode="All")
INVALID = "invalid resource pools were encountered"


def ask(chosen: Allocator, count: int = 1, node: Node = NODE) -> list[str] | str:
    fit = chosen.allocate(node, [claim(exactly(count=count))])
    return devices(fit) if fit else fit.reason


# -- what counts ---------------------------------------------------------------------------------------------


def test_only_the_highest_generation_counts() -> None:
    old = slice_of("old", name="old", generation=1, pool="p")
    new = slice_of("new", name="new", generation=2, pool="p")
    assert ask(allocator(old, new)) == ask(allocator(new, old)) == ["new"]


def test_an_incomplete_pool_gives_nothing_and_the_others_do() -> None:
    half = slice_of("half", name="half", slices=2, pool="a")
    assert ask(allocator(half)) == "cannot allocate all claims"
    assert ask(allocator(half, slice_of("whole", pool="b"))) == ["whole"]


def test_more_slices_than_said_is_incomplete_too() -> None:
    assert ask(allocator(slice_of("d0", name="a"), slice_of("d1", name="b"))) == "cannot allocate all claims"


def test_slices_that_the_node_does_not_reach_make_a_pool_complete() -> None:
    near = slice_of("near", name="near", pool="p", slices=2, node=None, **selecting(zone="a"))
    far = slice_of("far", name="far", pool="p", slices=2, node=None, **selecting(zone="b"))
    assert ask(allocator(near, far)) == ["near"]
    assert ask(allocator(near)) == "cannot allocate all claims"


def test_a_newer_generation_out_of_reach_hides_an_older_that_is_incomplete() -> None:
    old = slice_of("old", name="old", pool="p", slices=2, node=None, **selecting(zone="a"))
    new = slice_of("new", name="new", pool="p", generation=2, node=None, **selecting(zone="b"))
    chosen = allocator(old, new)
    assert ask(chosen) == "cannot allocate all claims"
    with pytest.raises(
        AllocationError, match=r"asks for all devices, but resource pool .*/p is currently being updated"
    ):
        allocator(old).allocate(NODE, [claim(ALL)])
    assert not chosen.allocate(NODE, [claim(ALL)])  # it is passed over, not incomplete


def test_a_device_named_twice_makes_the_pool_invalid() -> None:
    twice = slice_of("d0", "d0", pool="a")
    across = [slice_of("d0", name="x", pool="b", slices=2), slice_of("d0", name="y", pool="b", slices=2)]
    assert ask(allocator(twice)) == ask(allocator(*across)) == INVALID
    assert ask(allocator(twice, *across, slice_of("good", pool="c"))) == ["good"]


@pytest.mark.parametrize(
    "device_counters",
    [
        {"counterSet": "other", "counters": {"m": {"value": "1"}}},
        {"counterSet": "set", "counters": {"x": {"value": "1"}}},
    ],
)
def test_counters_that_are_not_there_make_the_pool_invalid(device_counters: dict[str, object]) -> None:
    counters = slice_of(
        name="counters", pool="p", slices=2, sharedCounters=[{"name": "set", "counters": {"m": {"value": "4"}}}]
    )
    parts = slice_of(device("part", consumesCounters=[device_counters]), name="parts", pool="p", slices=2)
    assert ask(allocator(counters, parts)) == INVALID


def test_a_counter_set_named_twice_makes_the_pool_invalid() -> None:
    shared = {"name": "set", "counters": {"m": {"value": "4"}}}
    slices = [slice_of(name=name, pool="p", slices=3, sharedCounters=[shared]) for name in ("x", "y")]
    assert ask(allocator(*slices, slice_of("d", name="z", pool="p", slices=3))) == INVALID


# -- all devices ---------------------------------------------------------------------------------------------


def test_all_fails_while_any_pool_is_incomplete_or_invalid() -> None:
    good = slice_of("good", pool="z")
    with pytest.raises(
        AllocationError, match=r"claim default/claim, request gpu: asks for all devices, .*gpu\.example\.com/a is curr"
    ):
        allocator(good, slice_of("half", pool="a", slices=2)).allocate(NODE, [claim(ALL)])
    with pytest.raises(AllocationError, match="is currently invalid"):
        allocator(good, slice_of("d", "d", pool="a")).allocate(NODE, [claim(ALL)])


# -- changes -------------------------------------------------------------------------------------------------


def test_slices_come_change_and_go() -> None:
    chosen = allocator()
    assert ask(chosen) == "cannot allocate all claims"
    chosen.put_slice(slice_of("a"))
    assert ask(chosen) == ["a"]
    chosen.put_slice(slice_of("b", "a", generation=2))
    assert ask(chosen) == ["b"]
    chosen.remove_slice("gpu.example.com-node0")
    chosen.remove_slice("never-was")
    assert ask(chosen) == "cannot allocate all claims"


def test_a_shared_slice_concerns_every_node() -> None:
    chosen = allocator(slice_of("own"), slice_of("other", node="node1"))
    nodes = [NODE, Node("", "node1", {"zone": "a"})]
    assert [ask(chosen, 1, node) for node in nodes] == [["own"], ["other"]]
    chosen.put_slice(slice_of("far", pool="fabric", node=None, **selecting(zone="a")))
    assert [ask(chosen, 2, node) for node in nodes] == [["far", "own"], ["far", "other"]]
    chosen.remove_slice("gpu.example.com-fabric")
    assert [ask(chosen, 2, node) for node in nodes] == ["cannot allocate all claims"] * 2


def test_a_pool_of_several_nodes_slices_is_seen_changed_by_all() -> None:
    """Not what a driver should do; still nobody may see a state that is gone."""
    mine, other = (
        slice_of("mine", name="a", pool="p", slices=2),
        slice_of("theirs", name="b", pool="p", slices=2, node="node1"),
    )
    chosen = allocator(mine)
    assert ask(chosen) == "cannot allocate all claims"
    chosen.put_slice(other)
    assert ask(chosen) == ["mine"]
    chosen.remove_slice("b")
    assert ask(chosen) == "cannot allocate all claims"


def test_labels_that_change_open_and_close_pools() -> None:
    chosen = allocator(slice_of("far", pool="fabric", node=None, **selecting(zone="a")))
    assert ask(chosen, 1, Node("", "n", {"zone": "a"})) == ["far"]
    assert ask(chosen, 1, Node("", "n", {})) == "cannot allocate all claims"
    assert ask(chosen, 1, Node("", "n", {"zone": "a", "more": "x"})) == ["far"]


def test_a_device_that_becomes_ready_moves_its_pool_forward() -> None:
    chosen = allocator(slice_of(waiting("a"), pool="a"), slice_of("b", pool="b"))
    assert ask(chosen) == ["b"]
    chosen.put_slice(slice_of("a", pool="a", generation=2))
    assert ask(chosen) == ["a"]


def test_a_slice_that_says_nothing_of_nodes_is_not_seen() -> None:
    assert ask(allocator(slice_of("d", pool="p", node=None))) == "cannot allocate all claims"
