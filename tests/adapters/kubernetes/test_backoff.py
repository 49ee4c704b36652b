"""Waits grow, are drawn at random, end with what lasts, and never let a server in trouble be asked too often."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes.limiter import FIRST, LONGEST, LONGEST_ASKED, REQUESTS, WINDOW, Backoff, Pace


class Highest(Random):
    """The dice at their worst: the ceiling itself."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Lowest(Random):
    """The dice at their most impatient."""

    def uniform(self, a: float, b: float) -> float:
        return a


def test_the_ceiling_doubles_from_the_first_to_the_longest() -> None:
    backoff = Backoff(Highest())
    waits = [backoff.failed(0.0) for _ in range(10)]
    assert waits[0] == FIRST == 0.8
    assert waits[-1] == LONGEST == 30.0
    assert all(later == min(2 * earlier, LONGEST) for earlier, later in pairwise(waits))


def test_the_jitter_is_full() -> None:
    waits = [Backoff(Random(seed)).failed(0.0) for seed in range(1000)]
    assert min(waits) < 0.02 and max(waits) > 0.78
    assert 0.37 < sum(waits) / len(waits) < 0.43


def test_what_the_server_asks_for_comes_first_and_jitter_after_it() -> None:
    assert Backoff(Highest()).failed(0.0, 7.0) == 7.8
    assert Backoff(Lowest()).failed(0.0, 7.0) == 7.0
    assert Backoff(Lowest()).failed(0.0, 86_400.0) == LONGEST_ASKED


def test_a_success_that_lasted_ends_the_trouble_and_a_short_one_does_not() -> None:
    backoff = Backoff(Highest())
    for _ in range(4):
        backoff.failed(0.0)
    backoff.succeeded(100.0)
    assert backoff.failed(109.0) == 12.8
    backoff.succeeded(200.0)
    backoff.succeeded(209.0)  # the same success goes on
    assert backoff.failed(210.0) == FIRST


def test_a_success_counts_from_its_own_beginning() -> None:
    backoff = Backoff(Highest())
    backoff.succeeded(0.0)
    backoff.failed(1.0)
    backoff.succeeded(100.0)
    assert backoff.failed(101.0) > FIRST


def test_a_sound_server_is_asked_freely() -> None:
    pace = Pace()
    for number in range(1000):
        assert pace.wait(number / 1000) == 0.0
        pace.sent(number / 1000)


def test_a_failure_after_many_requests_waits_until_they_are_past() -> None:
    pace = Pace()
    for number in range(100):
        pace.sent(number / 100)
    pace.failed(1.0)
    assert pace.wait(1.0) == (100 - REQUESTS) / 100 + WINDOW - 1.0
    assert pace.wait(11.0) == 0.0


@given(
    luck=st.lists(st.integers(0, 3072).map(lambda ticks: ticks / 1024), min_size=1, max_size=60),
    outcomes=st.lists(st.booleans(), min_size=1, max_size=60),
)
def test_no_luck_lets_a_failing_server_be_asked_more_often(luck: list[float], outcomes: list[bool]) -> None:
    """Requests of which some fail, with pauses of any length: after a failure there are at most so many in any window."""
    pace, now = Pace(), 0.0
    sent: list[float] = []
    failures: list[float] = []
    for number in range(60):
        now += pace.wait(now)
        pace.sent(now)
        sent.append(now)
        if outcomes[number % len(outcomes)]:
            pace.failed(now)
            failures.append(now)
        now += luck[number % len(luck)]
    for at in sent:
        window = [one for one in sent if at - WINDOW < one <= at]
        if any(at - WINDOW < failed < at for failed in failures):
            first = min(failed for failed in failures if at - WINDOW < failed < at)
            assert len([one for one in window if one > first]) <= REQUESTS
