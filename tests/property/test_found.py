"""Streams that once broke an invariant, as they were found and made small; each id tells the fault."""

import pytest

from dds_core.scaler import events as e
from tests.property.cluster import Move
from tests.property.run import Run

FOUND = {
    "a claim that is deleted while another waits on its node": (
        "attach",
        0,
        [
            Move("claim", 1),
            Move("submit"),
            Move("pod", 0, 1),
            Move("allocate from the pool", 0, 0, 5),
            Move("schedule", 1, 1),
            Move("finish"),
        ],
    ),
    "a claim that somebody else called ready is told to give way with its pod's other claim": (
        "detach",
        0,
        [
            Move("submit"),
            Move("schedule", 0, 1, 7),
            Move("request", 1),
            Move("claim"),
            Move("operate"),
            Move("attach"),
            Move("allocate from the pool", 1, 3, 6),
            Move("attach"),
            Move("consumers", 1),
            Move("condition"),
        ],
    ),
    "what a claim waited for before a restart stays on the agenda after it is gone": (
        "detach",
        0,
        [Move("submit"), Move("schedule"), Move("restart"), Move("config gone")],
    ),
    "a device waits for its removal although its resource is gone": (
        "detach",
        0,
        [Move("resource"), Move("attach"), Move("attach"), Move("restart"), Move("resource gone")],
    ),
    "decide forgets a rejection for good": (
        "detach",
        0,
        [Move("submit"), Move("rejected"), Move("schedule"), Move("claim gone")],
    ),
    "an order that somebody has overtaken lowers the size": (
        "attach",
        0,
        [
            Move("submit"),
            Move("allocate from the pool", 0, 7, 4),
            Move("request", 0, 1, 4),
            Move("resource"),
            Move("attach"),
        ],
    ),
    "a fence that was confirmed stays on the agenda": (
        "detach",
        0,
        [
            Move("submit"),
            Move("request", 1, 0, 4),
            Move("allocate oddly"),
            Move("capabilities", 1),
            Move("operate"),
            Move("write"),
            Move("operate", 1),
            Move("operate"),
            Move("resource"),
            Move("stale"),
            Move("attach", 2),
            Move("attach", 6),
            Move("wait", 7),
            Move("attach", 5),
            Move("wait", 3),
            Move("allocate oddly", 0, 0, 1),
        ],
    ),
    "a reservation that was not taken stays on the agenda when the mode was lowered": (
        "detach",
        0,
        [
            Move("submit"),
            Move("schedule"),
            Move("write"),
            Move("operate"),
            Move("attach"),
            Move("attach"),
            Move("policy"),
            Move("wait", 4),
        ],
    ),
}


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND.keys())
def test_what_once_broke_an_invariant(found: tuple[str, int, list[Move]]) -> None:
    mode, policy, moves = found
    run = Run(mode, policy, thorough=True)
    run.play(moves)
    run.wait(4000)


def test_demand_and_prewarming_do_not_take_turns() -> None:
    run = Run("observe", 3)
    run.play([Move("claim"), Move("allocate from the pool")])
    shown = [one for step in run.steps for one in step.decisions]
    run.feed(e.Synced())
    assert run.steps[-1].decisions == []
    assert any(isinstance(one, e.AttachOrdered) for one in shown)


def test_a_device_that_is_online_before_it_is_listed_is_no_reason_for_another() -> None:
    run = Run("attach")
    for verb in ("submit", "schedule", "write", "operate", "attach", "attach"):
        run.move(Move(verb))
    ordered = [one for step in run.steps for one in step.decisions if isinstance(one, e.AttachOrdered)]
    assert [one.size for one in ordered] == [1]
    assert [life.state for life in run.state.lifecycle.lives.rows.values()] == ["Attached"]


def test_observe_repeats_nothing_that_was_ordered_in_a_live_mode() -> None:
    run = Run("detach")
    run.play([Move("submit"), Move("schedule"), Move("restart"), Move("policy")])
    run.feed(e.Synced())
    shown = [one for one in run.steps[-1].decisions if isinstance(one, e.AttachOrdered)]
    assert [one.reissued for one in shown] == [False]
    run.restart()
    run.feed(e.Synced())
    assert run.steps[-1].decisions == []


def test_what_the_api_serves_is_taken_in_at_once() -> None:
    """A policy that forbids detaching without a fence holds until devices can be held, and not longer."""
    run = Run("detach")
    run.play([Move("submit"), Move("schedule"), Move("finish"), Move("write"), Move("operate"), Move("attach")])
    run.feed(e.PolicyChanged(policy={"mode": "detach", "detach_without_fence": "never", "no_removal_seconds": 5}))
    run.play([Move("attach"), Move("wait", 3)])
    marked = [one for step in run.steps for one in step.decisions if isinstance(one, e.VictimMarked)]
    assert marked == []
    run.move(Move("capabilities", 1))
    assert any(isinstance(one, e.HoldBegun) for one in run.steps[-1].decisions)


def test_a_victim_is_kept_when_the_minimum_needs_it_by_now() -> None:
    """It was marked while an order for one more was standing; the restart found that order void."""
    run = Run("detach", 3)
    run.play([Move("submit"), Move("submit", 1), Move("work", 3, 1), Move("finish"), Move("finish"), Move("wait", 6)])
    run.play([Move("restart"), Move("work"), Move("synced"), Move("wait", 3), Move("work")])
    lowered = [one for step in run.steps for one in step.decisions if isinstance(one, e.DetachOrdered)]
    assert all(one.size >= 1 for one in lowered)


def test_in_observe_an_attempt_fails_once() -> None:
    run = Run("observe", 7)
    run.play([Move("submit", 0, 0, 7), Move("work"), Move("wait", 6)])
    failed = [one.claim for step in run.steps for one in step.decisions if isinstance(one, e.ClaimFailed)]
    assert failed
    assert len(failed) == len(set(failed))


def test_nothing_is_reserved_for_a_pod_that_is_gone() -> None:
    """An extended-resource claim outlives its pod for a moment; a promise to the pod would never be taken back."""
    run = Run("attach")
    opening = [Move("local device"), Move("claim", 4), Move("pod", 0, 0, 1), Move("allocate from the pool")]
    run.play(opening)
    assert list(run.state.hand_over.reservations) == ["pod:pod0"]
    run.move(Move("pod gone"))
    assert "pod:pod0" not in run.state.hand_over.reservations
    run.move(Move("claim gone"))
    assert not run.state.hand_over.reservations.rows


def test_a_claim_is_looked_at_when_the_pod_that_it_is_reserved_for_changes() -> None:
    """Also a pod that does not name it."""
    run = Run("observe")
    run.play([Move("claim"), Move("pod", 0, 1, 1), Move("allocate from the pool"), Move("consumers")])
    run.move(Move("condition"))  # that for which the scheduler waits
    run.move(Move("bind"))
    assert [life.state for life in run.state.lifecycle.lives.rows.values()] == ["Bound"]


def test_a_device_that_the_minimum_keeps_is_not_marked_for_a_claim_elsewhere_again_and_again() -> None:
    run = Run("detach", 3)
    run.play([Move("submit"), Move("work", 3, 1), Move("finish"), Move("finish"), Move("pool"), Move("submit", 1)])
    run.play([Move("cordon"), Move("schedule"), Move("wait", 6), Move("work", 3), Move("wait", 6)])
    marked = [one.resource for step in run.steps for one in step.decisions if isinstance(one, e.VictimMarked)]
    assert len(marked) == len(set(marked))


def test_an_order_takes_back_a_lower_size_that_was_not_written_yet() -> None:
    """The request then has the size that is ordered; what else is wanted is ordered with the next."""
    run = Run("detach", 5)
    run.play([Move("capabilities", 0), Move("submit", 4, 0, 3), Move("work", 4, 4, 4), Move("work", 5, 1)])
    run.play([Move("finish", 5, 7, 5), Move("submit", 5, 1), Move("wait", 7, 4, 4), Move("work", 2, 2, 2)])
    orders = [one for step in run.steps for one in step.decisions if isinstance(one, e.AttachOrdered)]
    lowered = [one for step in run.steps for one in step.decisions if isinstance(one, e.DetachOrdered)]
    assert any(one.size == one.previous for one in orders)
    assert any(low.size < one.size == one.previous for low in lowered for one in orders if one.request == low.request)


def test_a_victim_that_somebody_takes_off_already_lowers_no_size() -> None:
    """The operator has filled its place: with a lower size the new device would go from under the claim that has it."""
    run = Run("detach")
    run.play([Move("submit"), Move("work", 3, 1), Move("finish"), Move("wait", 6), Move("submit"), Move("wait", 3)])
    run.play([Move("resource state", 0, 5), Move("work", 1)])
    assert not [one for step in run.steps for one in step.decisions if isinstance(one, e.DetachOrdered)]


def test_an_exchange_that_a_second_pod_makes_impossible_ends_in_the_same_hand_over_with_and_without_a_restart() -> None:
    opening = [Move("submit"), Move("work", 3, 1), Move("work", 3, 1), *[Move("submit")] * 9, Move("submit", 4, 0, 6)]
    given = []
    for restarted in (False, True):
        run = Run("attach", 5)
        run.play(opening)
        assert [row.stage for row in run.state.hand_over.exchanges.rows.values()] == ["listing"]
        if restarted:
            run.restart()
            run.feed(e.Synced())
        run.play([Move("work", 3, 1)] * 2)
        given.append([one for step in run.steps for one in step.decisions if isinstance(one, e.HandOver)])
    assert given[0] == given[1] != []
    assert "not reserved for every pod" in given[0][0].why
