"""What the history says of claims agrees, instant by instant, with the lives in the state; stages and attempts are those that a
person would read off the log."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dds_core.lifecycle import BOUND as IN_USE
from dds_core.lifecycle import WAITING
from dds_core.scaler.events import ClaimMoved
from dds_core.scaler.history import BOUND, ClaimHistory, History, Span
from dds_core.scaler.history.words import advice, folded, summary
from dds_core.scaler.state import State
from dds_core.scaler.timeline import Directory, timeline
from dds_core.scaler.timeline.words import OTHERS
from tests.core.scaler.history.told import (
    LOGS,
    RECORDINGS,
    beginning_later,
    differences,
    new_states,
    side_by_side,
    told,
)


def of(name: str, claim: str) -> ClaimHistory:
    found = [one for one in History().read(told(name)).claims.values() if one.name == claim]
    return found[-1]


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_at_each_instant_it_waits_or_is_in_use_as_the_picture_says(name: str) -> None:
    for state, history in side_by_side(told(name)):
        for uid, life in state.lifecycle.lives.rows.items():
            if uid in state.demand.claims:
                one = history.claims[uid]
                assert one.state == life.state
                assert (one.stage == BOUND) == (life.state == IN_USE), one.name
                assert one.waits or life.state not in WAITING, one.name


SEVERAL = {("fabric", "operator"), ("operator", "fabric")}
"""The history remembers that the operator works at several resources at once; the state knows it from those that are on their way
at the moment, so it may say for less than a second that one waits for its turn."""
DIFFER = {
    "burst": (SEVERAL, 63),
    # a moment (2.4 ms) between the resource that the operator made for another claim and the next one that it makes
    "fleet-6-scaler": ({("order", "operator")}, 1),
}
"""What may differ, and how often at most."""


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_status_and_history_name_one_stage_for_each_waiting_claim_at_each_moment(name: str) -> None:
    found = differences(told(name))
    kinds, most = DIFFER.get(name, (set(), 0))
    assert found.keys() <= kinds and found.total() <= most, found


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_the_spans_of_a_wait_follow_one_another(name: str) -> None:
    for one in History().read(told(name)).claims.values():
        assert all(span.until > span.since for span in one.spans[:-1])
        assert all(first.until <= second.since for first, second in pairwise(one.spans))
        assert sum(one.stages(10**18).values()) + one.earlier == one.waited(10**18)
        for attempt, following in pairwise(one.attempts):
            assert attempt.outcome and attempt.until <= following.since


def test_the_stages_of_a_first_attach() -> None:
    one = of("first_attach", "default/train-1")
    assert [(span.stage, span.node) for span in one.spans] == [
        ("scheduler", ""),
        ("observe", "node0000"),
        ("operator", "node0000"),
        ("fabric", "node0000"),
        ("driver", "node0000"),
        ("observe", "node0000"),
        ("hand-over", "node0000"),
        ("scheduler", ""),
        ("pool", ""),
        ("observe", "node0001"),
        ("operator", "node0001"),
        ("fabric", "node0001"),
        ("driver", "node0001"),
        ("observe", "node0001"),
        ("hand-over", "node0001"),
        ("scheduler", ""),
        ("pool", ""),
        ("scheduler", "node0001"),
        ("bound", "node0001"),
    ]
    assert [(a.cycle, a.number, a.node, a.outcome) for a in one.attempts] == [
        (1, 1, "node0000", "diverted"),
        (1, 2, "node0001", "bound"),
    ]
    assert (one.outcome, one.cause) == ("bound", "")


def test_attempts_that_fail_keep_their_reason() -> None:
    one = of("node_limit", "default/job-2")
    assert [a.reason for a in one.attempts] == ["", *["NodeLimit"] * 12]
    assert one.outcome == "failed"
    assert one.cause == "NodeLimit: node0001 may have 1 of A100 40G and has or awaits 1"


def test_an_attempt_that_goes_on_has_no_cause_of_the_one_before() -> None:
    history, found = History(), set[tuple[str, str]]()
    for moment in told("node_limit"):
        history.take(moment)
        for one in history.claims.values():
            if len(one.attempts) > 1 and one.attempts[-2].outcome == "failed":
                found.add((one.attempts[-1].outcome, one.cause))
    assert {cause for outcome, cause in found if not outcome} == {""}
    assert any(cause for outcome, cause in found if outcome == "failed")


@pytest.mark.parametrize(("landed", "outcome"), [("", "moved"), ("elsewhere", "diverted")])
def test_an_attempt_that_is_lost_names_who_set_a_condition(landed: str, outcome: str) -> None:
    """Of an exchange that another client's condition cut short the scheduler allocates anew without a hand-over of dds."""
    one = ClaimHistory("u", "default/b", 1)
    first = ClaimMoved(claim="u", trigger="allocated_pool", source="New", target="Pending", cycle=1, attempt=1)
    one.moved(first, 1, "node0001", ("A100 40G",), ())
    one.by = OTHERS
    again = ClaimMoved(
        claim="u", trigger="allocated_pool", source="Attached", target="Pending", cycle=1, attempt=2, landed=landed
    )
    one.moved(again, 9, "node0000", ("A100 40G",), ())
    assert [(a.outcome, a.by) for a in one.attempts] == [(outcome, OTHERS), ("", "")]


def test_waiting_for_the_pool_is_told_from_waiting_for_the_scheduler() -> None:
    histories = History().read(told("pool_exhausted"))
    longest = max(histories.claims.values(), key=lambda one: one.stages(histories.now).get("pool", 0))
    stages = longest.stages(histories.now)
    assert stages["pool"] > sum(stages.values()) / 2


def since(one: ClaimHistory, at: int) -> list[Span]:
    """Its spans from an instant on; while its device is being attached, the state does not know how far that was, nor each claim
    that has lost a device."""
    attaching = ("order", "observe", "operator", "fabric", "driver", "taken")
    spans = (span._replace(since=max(span.since, at)) for span in one.spans if not 0 < span.until <= at)
    return list(
        dict.fromkeys(Span("attaching", 0, 0, span.node) if span.stage in attaching else span for span in spans)
    )


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_a_log_that_begins_in_the_middle_tells_what_follows(name: str) -> None:
    whole = History().read(told(name))
    for moments in beginning_later(name, new_states()):
        rest = History().read(moments)
        for uid, one in rest.claims.items():
            other = whole.claims[uid]
            assert since(one, rest.first) == since(other, rest.first), one.name
            waits = [span for span in one.spans if span.stage != BOUND]
            assert all(span.since >= rest.first for span in waits), "no stage is known of the time before the log"
            if one.outcome not in ("ended", "unused"):
                assert (one.outcome, one.node) == (other.outcome, other.node), one.name
            if one.begun and one.attempts:
                assert one.used(rest.now) == pytest.approx(other.used(rest.now), abs=10_000), one.name
            if name in RECORDINGS:
                assert one.waited(rest.now) <= other.waited(rest.now), one.name


def first_lines(name: str, claim_state: str) -> str:
    """What is said of the claim that is in the state when the log begins."""

    def there(state: State) -> bool:
        return any(
            life.state == claim_state for uid, life in state.lifecycle.lives.rows.items() if uid in state.demand.claims
        )

    history = History().read(next(beginning_later(name, there)))
    (one,) = [one for one in history.claims.values() if one.early and one.attempts]
    return "\n".join(summary(one, history)[:2])


WAITED = "when the log begins it was waiting already: the archive tells what was before"
USED = "when the log begins it was in use already: the archive tells what was before"


@pytest.mark.parametrize(
    ("name", "state", "lines"),
    [
        ("first_attach", "Attached", f"bound to node0001 after 18.8 s or more, in use for 6.1 s\n{WAITED}"),
        (
            "first_attach",
            "Bound",
            f"bound to node0001 before the log begins, after 6 ms or more, in use for 6.1 s\n{USED}",
        ),
        ("first_attach", "Detaching", "it had ended when the log begins"),
        (
            "attach_failure",
            "Failed",
            f"not bound, given up after 50.0 s or more: no pod refers to it any more\n{WAITED}",
        ),
    ],
)
def test_what_was_there_when_the_log_begins_is_told_as_such(name: str, state: str, lines: str) -> None:
    assert first_lines(name, state) == lines


def test_a_claim_that_dds_has_nothing_to_do_with_waits_until_its_pod_has_a_node() -> None:
    claims = History().read(told("shares")).claims.values()
    assert {one.outcome for one in claims} <= {"bound", "withdrawn", "unused"}
    bound = [one for one in claims if one.outcome == "bound"]
    assert bound and all(one.spans[-1].stage == "bound" and not one.attempts for one in bound)


def test_devices_that_idle_are_told_of_only_where_the_claim_could_have_had_them() -> None:
    history = History().read(told("pool_exhausted"))
    second = next(one for one in history.claims.values() if one.name == "default/second")
    assert list(advice(second, history)) == [], "the only device was in use, and came to it in the end"


def test_what_comes_after_attempts_that_ended_alike_is_told() -> None:
    moments = list(told("binding_timeout"))
    history = History().read(moments)
    entries = list(timeline(moments, Directory().read(moments).find("default/bt")))
    claim = next(one for one in history.claims.values() if one.name == "default/bt")
    short = list(folded(entries, history.claims, claim.uid))
    assert [one.kind for one in short].count("folded") == 1
    last = claim.attempts[-1]
    assert any(one.at == last.since and one.trigger.startswith("allocated") for one in short)
