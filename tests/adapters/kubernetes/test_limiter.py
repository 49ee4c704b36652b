"""Waits grow, are drawn at random and end with what lasts; a server in trouble is never asked too often, whoever asks."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from threading import Lock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes.cluster import Cluster, path_of, resource_of
from dds_adapters.kubernetes.limiter import (
    FIRST,
    LONGEST,
    LONGEST_ASKED,
    MOST,
    RECOVERED,
    REQUESTS,
    WINDOW,
    Backoff,
    Limiter,
)


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


# -- a whole process ---------------------------------------------------------------------------------------------------


class Process(Cluster):
    """What a cluster does about one resource before and after each request, without a server."""

    def __init__(self) -> None:
        self._limiters = {}
        self._limiting = Lock()

    def begins(self, now: float) -> bool:
        return self._begins(self._limiter("nodes"), now)

    def ended(self, now: float, code: int) -> None:
        self._ended(self._limiter("nodes"), now, code)

    def sent(self, now: float, code: int, times: int = 1) -> int:
        """How many of so many requests, one after the other, were let through and answered with this code."""
        through = 0
        for _ in range(times):
            if self.begins(now):
                self.ended(now, code)
                through += 1
        return through


@pytest.mark.parametrize("code", [0, 401, 429, 500, 503])
def test_a_server_that_only_fails_gets_so_many_in_a_window(code: int) -> None:
    process = Process()
    assert process.sent(0.0, code, 50) == MOST
    assert process.sent(WINDOW - 0.1, code, 50) == 0
    assert process.sent(WINDOW, code, 50) == MOST


def test_requests_without_an_answer_count() -> None:
    process = Process()
    process.sent(0.0, 503)
    assert sum(process.begins(1.0) for _ in range(50)) == MOST - 1
    process.ended(9.0, 0)
    assert not process.begins(9.0)
    assert process.begins(WINDOW), "the first is long ago"
    assert not process.begins(WINDOW), "but what hung until now is not"


@pytest.mark.parametrize("code", [200, 201, 403, 404, 409, 410, 422])
def test_whatever_is_an_answer_holds_nobody_up(code: int) -> None:
    assert Process().sent(0.0, code, 500) == 500


def test_a_sound_server_is_not_held_up_by_many_at_once() -> None:
    process = Process()
    assert all(process.begins(0.0) for _ in range(200))


def test_some_answers_in_a_row_end_the_trouble() -> None:
    process = Process()
    process.sent(0.0, 503, MOST - RECOVERED)
    assert process.sent(0.0, 200, RECOVERED) == RECOVERED
    assert process.sent(0.0, 200, 500) == 500
    assert process.sent(0.0, 503, 50) == MOST


@pytest.mark.parametrize("seed", range(20))
def test_no_window_has_more_whatever_the_order(seed: int) -> None:
    """Of a server that answers nothing well, with requests of any length from many threads."""
    random, process = Random(seed), Process()
    now = 0.0
    running: list[float] = []
    begun: list[float] = []
    for _ in range(400):
        now += random.expovariate(4.0)
        running.sort(reverse=True)
        while running and running[-1] <= now:
            process.ended(running.pop(), random.choice((0, 500, 503, 429)))
        if process.begins(now):
            begun.append(now)
            running.append(now + random.choice((0.0, 0.01, 3.0, 15.0)))
    first_failure = min(begun) + 15.0
    times = [at for at in begun if at >= first_failure]
    most = max(sum(at - WINDOW < other <= at for other in times) for at in times)
    assert most <= MOST


# -- one sender ---------------------------------------------------------------------------------------------------------


def test_a_sound_server_is_asked_freely() -> None:
    limiter = Limiter()
    for number in range(1000):
        assert limiter.wait(number / 1000) == 0.0
        limiter.running += 1


def test_requests_that_come_to_nothing_together_count_from_when_each_was_sent() -> None:
    limiter = Limiter()
    limiter.failed(number / 100 for number in range(100))
    assert limiter.wait(1.0) == (100 - REQUESTS) / 100 + WINDOW - 1.0
    assert limiter.wait(11.0) == 0.0


def test_several_at_once_need_room_for_all_of_them() -> None:
    limiter = Limiter()
    limiter.failed([0.0] * (REQUESTS - 2) + [5.0])
    assert limiter.wait(6.0, 1) == 0.0
    assert limiter.wait(6.0, 2) == WINDOW - 6.0
    assert limiter.wait(6.0, REQUESTS) == WINDOW - 1.0
    limiter.running = REQUESTS
    assert limiter.wait(6.0, 1) == WINDOW - 1.0


@given(
    luck=st.lists(st.integers(0, 3072).map(lambda ticks: ticks / 1024), min_size=1, max_size=60),
    outcomes=st.lists(st.booleans(), min_size=1, max_size=60),
)
def test_no_luck_lets_a_failing_server_be_asked_more_often(luck: list[float], outcomes: list[bool]) -> None:
    """Requests of which some fail, with pauses of any length: after a failure there are at most so many in any window."""
    limiter, now = Limiter(), 0.0
    sent: list[float] = []
    open_: list[float] = []
    failures: list[float] = []
    for number in range(60):
        now += limiter.wait(now)
        sent.append(now)
        open_.append(now)
        if outcomes[number % len(outcomes)]:
            limiter.failed(open_)
            failures.append(now)
            open_.clear()
        limiter.running = len(open_)
        now += luck[number % len(luck)]
    for at in sent:
        first = min((failed for failed in failures if at - WINDOW < failed < at), default=at)
        assert sum(first < one <= at for one in sent) <= REQUESTS


@pytest.mark.parametrize("version", ["v1", "resource.k8s.io/v1"])
@pytest.mark.parametrize(
    ("resource", "namespace", "name", "part"),
    [
        ("nodes", "", "", ""),
        ("nodes", "", "one", ""),
        ("nodes", "", "one", "status"),
        ("pods", "default", "", ""),
        ("pods", "default", "one", ""),
        ("pods", "default", "one", "status"),
        ("namespaces", "", "", ""),
        ("namespaces", "", "one", ""),
    ],
)
def test_the_resource_of_a_path(resource: str, namespace: str, name: str, part: str, version: str) -> None:
    path = path_of(resource, version, namespace, name, part)
    assert resource_of(f"{path}?watch=true&limit=5") == resource


@pytest.mark.parametrize("path", ["/version", "/apis", "/api/v1", "/apis/resource.k8s.io/v1", "/"])
def test_other_paths_are_their_own(path: str) -> None:
    assert resource_of(f"{path}?a=b") == path
