"""Each stage of a wait, and its owner."""

from __future__ import annotations

import pytest

from dds_core.lifecycle import ATTACHED, ATTACHING, FAILED, PENDING
from dds_core.scaler.blame import OWNER, STAGES, WHOSE, Coming, Wait, stage_of, stage_of_coming
from dds_core.scaler.operator import MEANWHILE, Job, at_work
from dds_core.scaler.waiting import waiting_rows
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, World, one_node

_COME = Coming(1, 2, 3, 4, 5, 6)
HALF = MEANWHILE


@pytest.mark.parametrize(
    ("wait", "stage", "owner"),
    [
        (Wait(""), "scheduler", "scheduler"),
        (Wait("", unschedulable=True), "pool", "pool"),
        (Wait(FAILED), "retry", "scheduler"),
        (Wait(FAILED, told=False), "retry", "scheduler"),
        (Wait(FAILED, allocated=True, told=False), "pause", "dds"),
        (Wait(ATTACHING, allocated=True, failing=True, told=False), "pause", "dds"),
        (Wait(ATTACHING, allocated=True, failing=True, told=False, observes=True), "retry", "scheduler"),
        (Wait(PENDING, allocated=True), "order", "dds"),
        (Wait(PENDING, allocated=True, observes=True), "observe", "policy"),
        (Wait(PENDING, allocated=True, empty=True, observes=True), "pool", "pool"),
        (Wait(PENDING, allocated=True, empty=True, taken=True), "taken", "claim"),
        (Wait(ATTACHING, allocated=True, empty=True, ordered=True), "operator", "operator"),
        (Wait(ATTACHING, allocated=True, ordered=True), "operator", "operator"),
        (Wait(ATTACHING, allocated=True, ordered=True, taken=True), "taken", "claim"),
        (Wait(ATTACHING, allocated=True, coming=[Coming()]), "operator", "operator"),
        (Wait(ATTACHING, allocated=True, coming=[Coming(1, 2)]), "fabric", "fabric"),
        (Wait(ATTACHING, allocated=True, coming=[Coming(1, 2, 3)]), "operator", "operator"),
        (Wait(ATTACHING, allocated=True, coming=[Coming(1, 2, 3, 4)]), "driver", "driver"),
        (Wait(ATTACHING, allocated=True, coming=[Coming(1, 2, 3, 4, 5)]), "operator", "operator"),
        (Wait(ATTACHED, allocated=True), "exchange", "dds"),
        (Wait(ATTACHED, allocated=True, turn=True), "turn", "claim"),
        (Wait(ATTACHED, allocated=True, signalled=True), "hand-over", "scheduler"),
        (Wait(ATTACHED, allocated=True, signalled=True, taken=True), "taken", "claim"),
        (Wait(ATTACHED, exchanging=True), "exchange", "dds"),
        (Wait(ATTACHING, allocated=True, lost=True, ordered=True), "node", "node"),
        (Wait(ATTACHED, allocated=True, going=True, signalled=True), "going", "claim"),
        (Wait("", barred=True), "barred", "claim"),
        (Wait(PENDING, allocated=True, barred=True), "barred", "claim"),
        (Wait(PENDING, allocated=True, barred=True, empty=True), "pool", "pool"),
        (Wait(ATTACHING, allocated=True, barred=True, coming=[Coming(1, 2)]), "fabric", "fabric"),
        (Wait(ATTACHED, allocated=True, barred=True), "barred", "claim"),
        (Wait(ATTACHED, allocated=True, barred=True, signalled=True), "barred", "claim"),
        (Wait(ATTACHING, lost=True, unschedulable=True), "pool", "pool"),
        (Wait(ATTACHED, allocated=True, pooled=False), "scheduler", "scheduler"),
    ],
)
def test_the_stage_and_its_owner(wait: Wait, stage: str, owner: str) -> None:
    assert (stage_of(wait), OWNER[stage_of(wait)]) == (stage, owner)


def test_of_several_devices_the_last_counts_but_for_one_that_is_being_attached() -> None:
    assert stage_of_coming([_COME, Coming(1, 2, 3, 4)]) == "driver"
    assert stage_of_coming([Coming(1, 2), Coming(1)]) == "fabric"
    assert stage_of_coming([Coming(1, 2, 3), Coming(1, 2, 3, 4)]) == "operator"
    assert stage_of_coming([_COME]) == ""
    assert set(WHOSE) == set(OWNER) == set(STAGES)


def test_status_tells_an_exchange_and_a_device_that_the_operator_has_still_to_make() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.carry_out()
    (row,) = waiting_rows(world.state)
    assert row.stage == "operator"
    world.settle()
    found = {row.stage for row in waiting_rows(world.state)}
    assert found <= {"exchange", "hand-over"}


def test_status_tells_what_the_pool_has_left_for_a_claim_that_needs_more() -> None:
    world = one_node("attach", 2, scan_interval_seconds=0)
    world.node("node1")
    world.waits("first", "node0")
    world.waits("big", "node1", *pool_results(0, 1))
    rows = {row.claim: row for row in waiting_rows(world.state)}
    assert (rows["default/first"].stage, rows["default/big"].stage) == ("operator", "pool")
    assert rows["default/big"].why == "the pool shows 2 of A100 40G, ordered already: 1; it needs 2"
    world.carry_out()
    world.pool(A100, 3, generation=2)
    assert {row.stage for row in waiting_rows(world.state)} == {"operator"}, "there is one for each now"


@pytest.mark.parametrize(
    ("jobs", "asked"),
    [
        ([], ""),
        ([Job("b", 2 * HALF + 1), Job("a", 2 * HALF)], "a"),
        ([Job("old", 0, leaving=True), Job("a", 2 * HALF), Job("b", 2 * HALF + 1)], "a"),
        ([Job("leaves", 0, leaving=True), Job("a", 1)], "leaves"),
    ],
)
def test_of_all_that_the_operator_took_up_it_has_asked_for_the_oldest(jobs: list[Job], asked: str) -> None:
    assert at_work(jobs) == asked


def test_status_tells_that_the_operator_works_for_another_node() -> None:
    """Two claims on two nodes: the operator has taken up both resources, and asked the fabric for the first one alone."""
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.node("node1")
    for name, node in (("first", "node0"), ("second", "node1")):
        world.waits(name, node)
        world.carry_out()
    world.make()
    told = {row.claim: row.stage for row in waiting_rows(world.state)}
    assert told == {"default/first": "fabric", "default/second": "operator"}


def whys(world: World) -> dict[str, str]:
    return {row.claim.removeprefix("default/"): row.why for row in waiting_rows(world.state)}


def test_what_an_order_waits_for_is_said() -> None:
    """All said that the device is about to be ordered, for as long as it was not."""
    world = one_node("attach", 2, scan_interval_seconds=0)
    world.online("old", "node0")
    world.update(world.state.fleet.resources.rows["old"], state="Detaching")
    world.waits("train", "node0")
    assert whys(world) == {"train": "a device of A100 40G is being detached from node0"}
    world.take_away("old")
    assert whys(world)["train"] == "A100 40G is ordered"

    world = one_node("attach", 2, scan_interval_seconds=0)
    world.waits("big", "node0", *pool_results(0, 1, 2))
    world.waits("small", "node0", *pool_results(3))
    assert whys(world) == {
        "big": "the pool shows 2 of A100 40G, ordered already: 0; it needs 3",
        "small": "default/big waits on node0, too, and comes first",
    }

    world = one_node("attach", 2, synced=False, scan_interval_seconds=0)
    world.pool(H100, 1)
    world.claim("both")
    world.allocate("both", "node0", (A100, 1), (H100, 1))
    world.pool(H100, 0, generation=2)
    world.sync()
    assert whys(world) == {"both": "the pool has no H100 80G left"}
