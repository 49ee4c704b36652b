"""Every row of the claim's life is reached by facts of a cluster, and the table is the one that was agreed on."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.errors import IllegalTransition
from dds_core.lifecycle import CLAIM_STATES, CLAIM_TABLE, NEW, claim_edge_exists, claim_target
from dds_core.model import AttachRequest, Claim, Node, Pod, Result
from dds_core.scaler import events as e
from dds_core.scaler.folds import apply
from dds_core.scaler.state import State
from tests.core.lifecycle.lives import (
    PREPARED,
    attached,
    attached_locally,
    attaching,
    bound,
    detaching,
    failed,
    let_go,
    new,
    pending,
    released,
)
from tests.support.world import A100, FAILED, READY, RESCHEDULE, World

AGREED = {
    "allocated_pool": {
        ("", "Pending"),
        ("Released", "Pending"),
        ("Failed", "Pending"),
        ("Detaching", "Pending"),
        ("Pending", "Pending"),
        ("Attaching", "Pending"),
        ("Attached", "Pending"),
    },
    "allocated_local": {
        ("", "Attached"),
        ("Released", "Attached"),
        ("Failed", "Attached"),
        ("Detaching", "Attached"),
        ("Pending", "Attached"),
        ("Attaching", "Attached"),
        ("Attached", "Attached"),
    },
    "ordered": {("Pending", "Attaching")},
    "device_ready": {("Pending", "Attached"), ("Attaching", "Attached")},
    "signalled": {("Pending", "Attached"), ("Attaching", "Attached")},
    "pod_bound": {("Pending", "Bound"), ("Attaching", "Bound"), ("Attached", "Bound")},
    "failed": {("Pending", "Failed"), ("Attaching", "Failed"), ("Attached", "Failed")},
    "reservation_lost": {(s, s) for s in ("Pending", "Attaching", "Attached", "Failed")},
    "reserved": {(s, s) for s in ("Pending", "Attaching", "Attached", "Failed")},
    "cleared": {(s, s) for s in ("Pending", "Attaching", "Attached", "Failed")},
    "released": {
        ("Pending", "Released"),
        ("Failed", "Released"),
        ("Attaching", "Released"),
        ("Attaching", "Detaching"),
        ("Attached", "Detaching"),
        ("Bound", "Detaching"),
    },
    "settled": {("Detaching", "Released")},
}
"""The lifecycle as it was agreed on, written out a second time: trigger, then every (from, to)."""

Row = tuple[str, str, str]
ROWS: list[Row] = [(edge.trigger, edge.source, edge.target) for edge in CLAIM_TABLE]


def test_the_table_is_the_agreed_one() -> None:
    assert {(trigger, *pair) for trigger, pairs in AGREED.items() for pair in pairs} == set(ROWS)
    assert len(set(ROWS)) == len(ROWS)


def test_every_row_has_a_sentence_and_known_states() -> None:
    for edge in CLAIM_TABLE:
        assert edge.sentence.endswith("."), edge
        assert {edge.source, edge.target} <= {NEW, *CLAIM_STATES}


# --- every row by real facts -------------------------------------------------------------------------------------------


def allocate_from_pool(world: World) -> None:
    world.allocate("train", "node1")


def allocate_on_a_node(world: World) -> None:
    world.plug("node1", "gpu-0", "GPU-fixed")
    world.allocate_local("train", "node1", "gpu-0")


def a_request_for_it(world: World) -> None:
    world.request("composability-x", "node0")


def a_free_device(world: World) -> None:
    world.plug("node0", "gpu-0", "GPU-fixed")


def what_was_asked_for_comes(world: World) -> None:
    world.online("res", "node0", request="composability-x")


def told_to_reschedule(world: World) -> None:
    world.condition("train", RESCHEDULE)


def told_that_it_failed(world: World) -> None:
    world.condition("train", FAILED)


def its_pod_is_bound(world: World) -> None:
    """Somebody has set the condition for which the scheduler waited."""
    world.condition("train", READY)
    world.bind("train")


def its_pod_is_bound_to_what_is_not_ours(world: World) -> None:
    """The model is configured no more: dds waits for nothing of it."""
    world.observe(replace(world.state.settings.config, models=()))
    world.condition("train", READY)
    world.bind("train")


def nobody_reserved(world: World) -> None:
    world.unreserve("train")


def reserved_again(world: World) -> None:
    world.unreserve("train")
    world.reserve("train")


def taken_back(world: World) -> None:
    world.clear("train")


def given_up(world: World) -> None:
    world.gone(world.get(AttachRequest, "composability-x"))
    let_go(world)


def its_device_goes_back(world: World) -> None:
    world.take_away("res")


STORIES: dict[Row, tuple[Callable[[], World], Callable[[World], None]]] = {
    **{("allocated_pool", s, "Pending"): (PREPARED[s], allocate_from_pool) for s in PREPARED if s != "Bound"},
    **{("allocated_local", s, "Attached"): (PREPARED[s], allocate_on_a_node) for s in PREPARED if s != "Bound"},
    ("ordered", "Pending", "Attaching"): (pending, a_request_for_it),
    ("device_ready", "Pending", "Attached"): (pending, a_free_device),
    ("device_ready", "Attaching", "Attached"): (attaching, what_was_asked_for_comes),
    **{("signalled", s, "Attached"): (PREPARED[s], told_to_reschedule) for s in ("Pending", "Attaching")},
    ("pod_bound", "Attached", "Bound"): (PREPARED["Attached"], its_pod_is_bound),
    **{
        ("pod_bound", s, "Bound"): (PREPARED[s], its_pod_is_bound_to_what_is_not_ours) for s in ("Pending", "Attaching")
    },
    **{("failed", s, "Failed"): (PREPARED[s], told_that_it_failed) for s in ("Pending", "Attaching", "Attached")},
    **{
        ("reservation_lost", s, s): (PREPARED[s], nobody_reserved)
        for s in ("Pending", "Attaching", "Attached", "Failed")
    },
    **{("reserved", s, s): (PREPARED[s], reserved_again) for s in ("Pending", "Attaching", "Attached", "Failed")},
    **{("cleared", s, s): (PREPARED[s], taken_back) for s in ("Pending", "Attaching", "Attached", "Failed")},
    ("released", "Pending", "Released"): (pending, let_go),
    ("released", "Failed", "Released"): (failed, let_go),
    ("released", "Attaching", "Released"): (attaching, given_up),
    ("released", "Attaching", "Detaching"): (attaching, let_go),
    ("released", "Attached", "Detaching"): (attached, let_go),
    ("released", "Bound", "Detaching"): (bound, let_go),
    ("settled", "Detaching", "Released"): (detaching, its_device_goes_back),
}


def test_every_row_has_its_story() -> None:
    assert set(STORIES) == set(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_row_is_reached_by_facts(row: Row) -> None:
    prepare, happens = STORIES[row]
    world = prepare()
    assert world.state_of("train") == row[1]
    before = len(world.moves("train"))
    happens(world)
    assert row in world.moves("train")[before:]


# --- what a step means beyond the state --------------------------------------------------------------------------------


def test_a_cycle_runs_to_released_or_failed_and_each_allocation_is_an_attempt() -> None:
    world = pending()
    life = world.state.lifecycle.lives.rows[world.uid("train")]
    assert (life.cycle, life.attempt) == (1, 1)
    world.allocate("train", "node1")
    assert world.state.lifecycle.lives.rows[world.uid("train")].attempt == 2
    world.clear("train")
    world.allocate("train", "node1")
    life = world.state.lifecycle.lives.rows[world.uid("train")]
    assert (life.cycle, life.attempt) == (1, 3)
    world.condition("train", FAILED)
    world.clear("train")
    world.allocate("train", "node1")
    life = world.state.lifecycle.lives.rows[world.uid("train")]
    assert (life.cycle, life.attempt) == (2, 1)


def test_the_same_allocation_after_null_is_a_new_attempt() -> None:
    """Only the timestamp may be equal too: the allocation came back after it was gone."""
    world = pending()
    claim = world.get(Claim, "train")
    world.clear("train")
    world.observe(claim)
    assert world.state.lifecycle.lives.rows[claim.uid].attempt == 2


def test_an_equal_allocation_with_another_timestamp_is_a_new_attempt() -> None:
    world = pending()
    world.tick(2)
    world.allocate("train", "node0")
    assert world.moves("train") == [("allocated_pool", "", "Pending"), ("allocated_pool", "Pending", "Pending")]


def test_ready_condition_counts_as_signalled_once_every_result_has_it() -> None:
    world = new()
    world.claim("wide", devices=2)
    world.allocate("wide", "node0")
    world.condition("wide", READY, 0)
    assert world.state_of("wide") == "Pending"
    world.condition("wide", READY, 1)
    assert world.moves("wide")[-1] == ("signalled", "Pending", "Attached")


def test_two_local_claims_without_a_bound_pod_are_not_in_use() -> None:
    world = attached_locally()
    assert world.state_of("train") == "Attached"
    world.bind("train")
    assert world.state_of("train") == "Bound"


def test_a_claim_with_none_of_ours_has_no_life() -> None:
    world = new()
    world.allocate("train", "node0", Result("r0", "nic.example.com", "node0", "eth1"))
    assert world.moves("train") == []
    assert world.state_of("train") == ""


def test_a_new_cycle_forgets_what_ended() -> None:
    world = released()
    world.pod("train2", ["train"])
    world.allocate("train", "node0")
    assert world.state_of("train") == "Pending"
    assert world.state.lifecycle.lives.rows[world.uid("train")].cycle == 2


@pytest.mark.parametrize("state", [s for s in PREPARED if s])
def test_a_claim_deleted_in_any_state_ends_released_or_gives_its_devices_back(state: str) -> None:
    world = PREPARED[state]()
    uid = world.uid("train")
    for pod in list(world.state.demand.pods.rows.values()):
        world.gone(pod)
    world.gone(world.get(Claim, "train"))
    for resource in list(world.state.fleet.resources):
        world.take_away(resource)
    for request in list(world.state.fleet.requests.rows.values()):
        world.gone(request)
    assert world.state_of("train") == "", "its life is forgotten once it is over"
    assert uid not in world.state.hand_over.reservations
    assert not world.state.demand.holders


def test_node_gone_settles_a_claim_that_gave_its_device_back() -> None:
    world = detaching()
    world.gone(world.get(Node, "node0"))
    assert world.moves("train")[-1] == ("settled", "Detaching", "Released")


def test_another_claim_that_takes_the_device_settles_the_first() -> None:
    world = detaching()
    world.holds("next", "node0", "gpu-GPU-res")
    assert world.moves("train")[-1] == ("settled", "Detaching", "Released")


# --- what is not in the table changes nothing --------------------------------------------------------------------------

UNNAMED = [
    (trigger, state)
    for trigger in AGREED
    for state in ("", *CLAIM_STATES)
    if not any(source == state for source, _ in AGREED[trigger])
]


@pytest.mark.parametrize(("trigger", "state"), UNNAMED, ids=lambda text: text or "New")
def test_an_unnamed_trigger_leads_nowhere(trigger: str, state: str) -> None:
    assert claim_target(trigger, state) is None
    assert claim_target(trigger, state, ordered=False) is None
    assert not any(claim_edge_exists(trigger, state, target) for target in CLAIM_STATES)


def contents(state: State) -> dict[str, Any]:
    """Everything that the state holds, indexes and dirt aside."""
    tables = {name: dict(table.rows) for name, table in state.tables.items()}
    return {**tables, "now": state.process.now, "synced": state.process.synced, "level_at": state.process.level_at}


@pytest.mark.parametrize(("trigger", "state"), UNNAMED, ids=lambda text: text or "New")
def test_folding_an_unnamed_transition_raises_and_changes_nothing(trigger: str, state: str) -> None:
    world = PREPARED[state]()
    before = contents(world.state)
    for target in CLAIM_STATES:
        move = e.ClaimMoved(world.uid("train"), trigger, state, target, 1, 1)
        with pytest.raises(IllegalTransition, match=trigger):
            apply(world.state, move, world.now + 1)
        assert contents(world.state) == before


def test_a_transition_from_a_state_that_the_claim_is_not_in_raises_and_changes_nothing() -> None:
    world = bound()
    before = contents(world.state)
    move = e.ClaimMoved(world.uid("train"), "ordered", "Pending", "Attaching", 1, 1)
    with pytest.raises(IllegalTransition, match="but the claim is Bound"):
        apply(world.state, move, world.now + 1)
    assert contents(world.state) == before


@pytest.mark.parametrize(
    ("prepare", "happens"),
    [
        (bound, told_to_reschedule),
        (bound, told_that_it_failed),
        (bound, nobody_reserved),
        (bound, a_free_device),
        (released, a_free_device),
        (released, a_request_for_it),
        (failed, a_free_device),
        (failed, a_request_for_it),
        (failed, its_pod_is_bound),
        (detaching, a_free_device),
    ],
    ids=lambda story: story.__name__,
)
def test_facts_of_triggers_that_a_state_does_not_name_move_nothing(
    prepare: Callable[[], World], happens: Callable[[World], None]
) -> None:
    world = prepare()
    before = world.state.lifecycle.lives.rows[world.uid("train")]
    moves = world.moves("train")
    happens(world)
    assert world.moves("train") == moves
    assert world.state.lifecycle.lives.rows[world.uid("train")] == before


def test_a_bound_pod_that_only_refers_to_the_claim_does_not_bind_it() -> None:
    """Bound is in use: the pod must be among those that the claim is reserved for."""
    world = pending()
    world.pod("reader", ["train"])
    world.update(world.get(Pod, "reader"), node="node0", phase="Running")
    assert world.state_of("train") == "Pending"
    assert A100.device in world.get(Claim, "train").allocation.results[0].device  # type: ignore[union-attr]
