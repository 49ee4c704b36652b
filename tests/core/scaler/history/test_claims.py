"""What the history says of claims agrees, instant by instant, with the lives in the picture; stages and attempts are those that a
person would read off the log."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dds_core.events import Checkpoint
from dds_core.lifecycle import BOUND as IN_USE
from dds_core.lifecycle import WAITING
from dds_core.scaler.fold import apply
from dds_core.scaler.history import BOUND, ClaimHistory, History
from dds_core.scaler.history.words import advice, folded
from dds_core.scaler.state import PROJECTION, Picture, dump
from dds_core.scaler.timeline import Directory, timeline
from dds_core.timeline import Moment
from tests.core.scaler.history.told import LOGS, RECORDINGS, begins_anew, told


def of(name: str, claim: str) -> ClaimHistory:
    found = [one for one in History().read(told(name)).claims.values() if one.name == claim]
    return found[-1]


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_at_each_instant_it_waits_or_is_in_use_as_the_picture_says(name: str) -> None:
    picture, history = Picture(), History()
    for moment in told(name):
        picture = begins_anew(picture, moment, first=not history.first)
        history.take(moment)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(picture, event, moment.at)
                picture.dirty.clear()
        for uid, life in picture.lives.rows.items():
            if uid in picture.claims:
                one = history.claims[uid]
                assert one.state == life.state
                assert (one.stage == BOUND) == (life.state == IN_USE), one.name
                assert one.waits or life.state not in WAITING, one.name


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_the_spans_of_a_wait_follow_one_another(name: str) -> None:
    for one in History().read(told(name)).claims.values():
        assert all(span.until > span.since for span in one.spans[:-1])
        assert all(first.until <= second.since for first, second in pairwise(one.spans))
        assert sum(one.stages(10**18).values()) == one.waited(10**18)
        for attempt, following in pairwise(one.attempts):
            assert attempt.outcome and attempt.until <= following.since


def test_the_stages_of_a_first_attach() -> None:
    one = of("first_attach", "default/train-1")
    assert [(span.stage, span.node) for span in one.spans] == [
        ("scheduler", ""),
        ("order", "node0000"),
        ("fabric", "node0000"),
        ("driver", "node0000"),
        ("hand-over", "node0000"),
        ("order", "node0001"),
        ("fabric", "node0001"),
        ("driver", "node0001"),
        ("hand-over", "node0001"),
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


def test_waiting_for_the_pool_is_told_from_waiting_for_the_scheduler() -> None:
    histories = History().read(told("pool_exhausted"))
    longest = max(histories.claims.values(), key=lambda one: one.stages(histories.now).get("pool", 0))
    stages = longest.stages(histories.now)
    assert stages["pool"] > sum(stages.values()) / 2


def with_most_in_use(name: str) -> list[Moment]:
    """The moments of a recording from that on at which most claims are in use, after a checkpoint."""
    moments, picture = list(told(name)), Picture()
    best, rest = 0, moments
    for place, moment in enumerate(moments):
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(picture, event, moment.at)
                picture.dirty.clear()
        used = sum(life.state == IN_USE for life in picture.lives.rows.values())
        if used > best:
            checkpoint = Checkpoint(projection=PROJECTION, picture=dump(picture))
            best, rest = used, [Moment(moment.position, moment.at, checkpoint, []), *moments[place + 1 :]]
    return rest


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_log_that_begins_in_the_middle_tells_the_same_end(name: str) -> None:
    whole, rest = History().read(told(name)), History().read(with_most_in_use(name))
    found = {uid: (one.outcome, one.cause, one.node) for uid, one in rest.claims.items() if one.attempts}
    assert found == {uid: (one.outcome, one.cause, one.node) for uid, one in whole.claims.items() if uid in found}


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
