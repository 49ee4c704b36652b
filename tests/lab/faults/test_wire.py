"""When a rule strikes, and what it does to a request."""

from __future__ import annotations

from random import Random

import pytest

from dds_core.errors import InputError
from dds_lab.faults.wire import (
    NOTHING,
    Asked,
    Cut,
    Delay,
    Duplicate,
    Expire,
    HalfOpen,
    Lost,
    Refuse,
    Rule,
    Slow,
    WireFaults,
)
from dds_lab.latency import Fixed, Uniform

SECOND = 1_000_000
WATCH = Asked("dds", "watch", "resourceclaims")
PATCH = Asked("dds", "patch", "resourceclaims")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


def faults_of(*rules: Rule, clock: Clock | None = None, seed: int = 1) -> WireFaults:
    return WireFaults(rules, clock or Clock(), Random(seed))


def test_a_rule_strikes_whom_it_names() -> None:
    rule = Rule(Refuse(503), users=("dds",), verbs=("patch", "update"), resources=("resourceclaims",))
    assert faults_of(rule).for_request(PATCH).refused == Refuse(503)
    for other in (
        Asked("admin", "patch", "resourceclaims"),
        Asked("dds", "get", "resourceclaims"),
        Asked("dds", "patch", "nodes"),
    ):
        assert faults_of(rule).for_request(other) == NOTHING


def test_a_rule_that_names_nobody_strikes_all() -> None:
    assert faults_of(Rule(Lost())).for_request(PATCH).lost


def test_the_window_is_lab_time_after_the_start() -> None:
    clock = Clock()
    faults = faults_of(Rule(Refuse(500), start=10, end=20), clock=clock)
    struck = []
    for second in (0, 9, 10, 19, 20, 30):
        clock.now = (1_000 + second) * SECOND
        struck.append(faults.for_request(PATCH).refused is not None)
    assert struck == [False, False, True, True, False, False]


def test_a_share_is_drawn_from_the_seed() -> None:
    def drawn(seed: int) -> list[bool]:
        faults = faults_of(Rule(Refuse(409), share=0.3), seed=seed)
        return [faults.for_request(PATCH).refused is not None for _ in range(2_000)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 500 < sum(drawn(1)) < 700


def test_a_limit_ends_it() -> None:
    faults = faults_of(Rule(Lost(), limit=2))
    assert [faults.for_request(PATCH).lost for _ in range(4)] == [True, True, False, False]
    assert faults.struck == [2]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")],
)
def test_a_refusal_is_a_status(code: int, reason: str) -> None:
    error = Refuse(code, retry_after=7).error()
    assert (error.code, error.reason, error.status["code"]) == (code, reason, code)
    assert error.headers == ({"retry-after": "7"} if code == 429 else {})


def test_a_refusal_of_another_code_is_refused() -> None:
    with pytest.raises(InputError, match=r"418 cannot be had; choose one of 409, 429, 500, 503"):
        Refuse(418)


def test_slowness_adds_up_and_is_drawn() -> None:
    faults = faults_of(Rule(Slow(Fixed(1.5))), Rule(Slow(Uniform(1, 2))))
    assert 2.5 <= faults.for_request(PATCH).slow <= 3.5


def test_a_watch_is_cut_or_falls_silent_in_the_window_though_opened_before() -> None:
    clock = Clock()
    faults = faults_of(Rule(Cut(Fixed(2), mid_line=True), start=60), Rule(HalfOpen(Fixed(1)), start=30), clock=clock)
    effects = faults.for_request(WATCH).watch
    assert effects.cut_at == (1_000 + 62) * SECOND and effects.mid_line
    assert effects.silent_at == (1_000 + 31) * SECOND
    assert faults.for_request(PATCH) == NOTHING


def test_the_first_cut_of_several_counts() -> None:
    effects = faults_of(Rule(Cut(Fixed(9))), Rule(Cut(Fixed(3), mid_line=True))).for_request(WATCH).watch
    assert (effects.cut_at, effects.mid_line) == (1_003 * SECOND, True)


def test_a_storm_of_410_strikes_watches_from_a_version() -> None:
    faults = faults_of(Rule(Expire()))
    assert faults.for_request(Asked("dds", "watch", "nodes", versioned=True)).watch.expired
    assert faults.for_request(Asked("dds", "watch", "nodes")) == NOTHING


def test_duplicates_and_delays_concern_watches() -> None:
    faults = faults_of(Rule(Duplicate(0.5)), Rule(Delay(Fixed(2))))
    effects = faults.for_request(WATCH).watch
    assert effects.duplicates == 0.5 and effects.delay == Fixed(2)
    assert faults.for_request(PATCH) == NOTHING


def test_a_watch_is_never_lost() -> None:
    assert faults_of(Rule(Lost())).for_request(WATCH) == NOTHING
