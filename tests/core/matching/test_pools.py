"""Generations, incomplete and invalid pools, and slices that change between two questions."""

import msgspec
import pytest

from dds_core.matching import cel
from dds_core.matching.allocator import Allocator
from dds_core.model import Node
from tests.core.matching.given import (
    GPU,
    NODE,
    allocator,
    claim,
    device,
    devices,
    exactly,
    selecting,
    slice_of,
    waiting,
)

INVALID = "invalid resource pools were encountered"


def ask(chosen: Allocator, count: int = 1, node: Node = NODE) -> list[str] | str:
    fit = chosen.allocate(node, [claim(exactly(count=count))])
    return devices(fit) if fit else fit.reason


# -- what counts ---------------------------------------------------------------------------------------------


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


def test_selectors_are_asked_once_about_a_device_that_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    compiled = cel.compile

    def counted(expression: str) -> cel.Program:
        asked.append(expression)
        return compiled(expression)

    monkeypatch.setattr(cel, "compile", counted)
    first, fresh = slice_of("a", "b"), slice_of("a", device("b", {"cores": 1}), generation=2)
    chosen, wanted = allocator(first), claim(exactly("gpu", f"device.driver == '{GPU}'", count=2))
    assert devices(chosen.allocate(NODE, [wanted])) == ["a", "b"]
    assert len(asked) == 2
    chosen.put_slice(msgspec.structs.replace(fresh, devices={**fresh.devices, "a": first.devices["a"]}))
    assert devices(chosen.allocate(NODE, [wanted])) == ["a", "b"]
    assert len(asked) == 3


def test_a_device_that_changed_under_its_name_is_judged_anew() -> None:
    chosen = allocator(slice_of(device("a", {"model": "old"})))
    wanted = claim(exactly("gpu", f"device.attributes['{GPU}'].model == 'new'"))
    assert not chosen.allocate(NODE, [wanted])
    chosen.put_slice(slice_of(device("a", {"model": "new"}), generation=2))
    assert devices(chosen.allocate(NODE, [wanted])) == ["a"]


def test_a_slice_that_comes_to_select_other_nodes_is_seen_there_and_no_longer_here() -> None:
    here, there = Node("", "here", {"zone": "a"}), Node("", "there", {"zone": "b"})
    chosen = allocator()
    for generation, (zone, seen) in enumerate([("a", [True, False]), ("a", [True, False]), ("b", [False, True])], 1):
        chosen.put_slice(slice_of("d", node=None, generation=generation, **selecting(zone=zone)))
        assert [ask(chosen, node=node) == ["d"] for node in (here, there)] == seen


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
