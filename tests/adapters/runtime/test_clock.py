"""The time that a scaler goes by: the server's, and never backwards."""

from __future__ import annotations

import pytest

from dds_adapters.runtime.process import SECOND, LiveClock

NOON = 1_800_000_000 * SECOND


class Host:
    """A machine whose two clocks are set by the test."""

    def __init__(self) -> None:
        self.wall = NOON
        self.passed = 100.0
        self.clock = LiveClock(lambda: self.wall, lambda: self.passed)


def test_it_goes_on_with_the_steady_clock_whatever_the_wall_shows() -> None:
    host = Host()
    host.wall -= 3600 * SECOND
    host.passed += 1.5
    assert host.clock.now() == NOON + 3 * SECOND // 2


@pytest.mark.parametrize("ahead", [600, -600, 3, -3])
def test_the_servers_clock_is_gone_by_when_it_differs(ahead: int) -> None:
    host = Host()
    host.clock.go_by(NOON - ahead * SECOND)
    assert host.clock.skew == ahead * SECOND
    assert host.clock.now() == NOON - ahead * SECOND
    host.passed += 1.0
    assert host.clock.now() == NOON - (ahead - 1) * SECOND


@pytest.mark.parametrize("server", [0, NOON - 2 * SECOND, NOON + 2 * SECOND])
def test_what_whole_seconds_explain_is_no_difference_and_no_answer_is_none(server: int) -> None:
    host = Host()
    host.clock.go_by(server)
    assert (host.clock.skew, host.clock.now()) == (0, NOON)


def test_it_does_not_go_back_before_the_newest_fact() -> None:
    host = Host()
    assert host.clock.not_before(NOON - SECOND) == 0
    assert host.clock.now() == NOON
    assert host.clock.not_before(NOON + 5 * SECOND) == 5 * SECOND
    host.passed += 1.0
    assert host.clock.now() == NOON + 6 * SECOND
