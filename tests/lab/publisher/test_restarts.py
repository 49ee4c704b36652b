"""Stories in which our publisher ends and another goes on: at every append and every write, with its log and without, and in
which the API server is away. What claims hold stays, and in the end all is as it should be."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest

from dds_core.errors import LogUnavailable
from dds_core.events import Started
from dds_core.publisher.events import PoolWithdrawn
from dds_lab.driver import PUBLISHER_USER
from tests.lab.publisher.test_attaching import names_of, pods, ran, steps, story
from tests.support.exits import Boundaries, Exit, Kind, Watched, When
from tests.support.publishing import PublishRun, publishing
from tests.support.troubles import TroubledApi

PODS = pods("a", "b", "c", at=10, lasts="40s"), pods("d", at=25, lasts="60s"), pods("e", at=100, lasts="20s")
EVERYONE = set("abcde")
MARKS: tuple[tuple[Kind, When], ...] = (
    ("append", "before"),
    ("append", "after"),
    ("write", "before"),
    ("write", "after"),
)


def crashed(boundaries: Boundaries, *, away: float = 2.0, forget: bool = False) -> PublishRun:
    """A story whose publisher ends at the boundary; another begins a while later, on the same log or on an empty one."""

    def prepare(run: PublishRun) -> None:
        run.log = run.ours.publisher._log_writer.log = Watched(run.log)
        boundaries.watch(run)  # type: ignore[arg-type]

    with publishing(story(steps(*PODS)), prepare=prepare, begin=False) as run:
        end = run.lab.time.now() + 330_000_000
        begin: Callable[[], object] = run.ours.start
        while True:
            try:
                begin()
                run.lab.run(until=end)
                break
            except Exit:
                begin = partial(_succeed, run, away, forget)
        assert ran(run) == EVERYONE
        run.at_rest(40)
    return run


def _succeed(run: PublishRun, away: float, forget: bool) -> None:
    """The process is gone; after a while there is another."""
    log = run.log
    assert isinstance(log, Watched)
    log.before = log.after = lambda: None
    run.ours.kill()
    run.ours.crashed = None
    run.after(away, lambda: run.another(run.empty_log() if forget else log.log).start())


@cache
def passed() -> dict[tuple[Kind, When], int]:
    """How many boundaries a whole story has."""
    counted = Boundaries()
    crashed(counted)
    return counted.passed


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize(("kind", "when"), MARKS)
def test_another_goes_on_wherever_one_ends(kind: Kind, when: When, turn: int) -> None:
    """At the first boundaries, and at some up to the last."""
    number = passed()[kind, when]
    for at in sorted({*range(3), *range(3, number, max(1, number // 4))})[turn::3]:
        boundaries = Boundaries(kind, at, when)
        crashed(boundaries)
        assert boundaries.reached, at


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_another_goes_on_wherever_one_ends_at_each_single_place() -> None:
    for (kind, when), number in sorted(passed().items()):
        for at in range(number):
            crashed(Boundaries(kind, at, when), forget=at % 3 == 2)


@pytest.mark.parametrize("away", [0.5, 120.0])
@pytest.mark.parametrize("forget", [False, True])
def test_a_publisher_that_is_killed_in_the_middle_of_an_attach(away: float, forget: bool) -> None:
    with publishing(story(steps(*PODS))) as run:
        run.lab.run(12)
        before = {one.name: one.names for one in run.judge.view.slices.values()}
        run.ours.kill()
        run.lab.run(away)
        held = run.judge.view.holders(("gpu.nvidia.com", "nvidia-a100-fabric1"))
        assert held.keys() <= set(names_of(run)), "what a claim holds is there, whoever runs"
        run.another(run.empty_log() if forget else None).start()
        run.lab.run(5)
        assert before.keys() == {one.name for one in run.judge.view.slices.values()}, "no slice is made anew"
        run.lab.run(500)
        assert ran(run) == EVERYONE
        run.at_rest()
    assert run.events(PoolWithdrawn) == []


def test_a_second_publisher_takes_over_and_the_first_ends() -> None:
    with publishing(story(steps(*PODS))) as run:
        run.lab.run(15)
        first = run.ours
        run.another().start()
        run.lab.run(400)
        assert ran(run) == EVERYONE
        assert not first.alive and first.crashed is not None
        run.at_rest()
    assert [event.epoch for _, event in run.events(Started) if isinstance(event, Started)] == [1, 2]


def test_an_api_server_that_is_away_or_says_no_for_minutes() -> None:
    """What is wanted is written once it may be; nobody gives up."""
    with publishing(story(steps(*PODS))) as run:
        run.lab.run(9)
        run.ours.requests = TroubledApi(
            run.lab, ("silent", "unseen", "500", "503", "429", "409"), 0.9, 0, 150, user=PUBLISHER_USER
        )
        run.troubled.add("API")
        run.lab.run(150)
        run.troubled.clear()
        run.lab.run(400)
        assert ran(run) == EVERYONE
        run.at_rest()


@pytest.mark.parametrize("seconds", [3.0, 400.0])
def test_watches_that_break_and_lists_anew(seconds: float) -> None:
    """While claims are not heard of, nothing is decided: one that is not seen may hold a device."""
    with publishing(story(steps(*PODS))) as run:
        run.lab.run(11)
        for one in run.ours.controller.watched():
            run.ours.cut(one.resource, seconds)
        run.troubled.add("watches")
        run.lab.run(seconds + 2)
        run.troubled.clear()
        run.lab.run(500)
        assert ran(run) == EVERYONE
        run.at_rest()


def test_a_log_that_is_away_for_a_minute() -> None:
    """Nothing is written that is not in the log."""
    away: list[int] = []

    def prepare(run: PublishRun) -> None:
        log = run.log = run.ours.publisher._log_writer.log = Watched(run.log)

        def before() -> None:
            if 11 <= (run.lab.time.now() - run.lab.scenario.start) / 1e6 < 71:
                away.append(len(run.judge.writes))
                raise LogUnavailable("no answer", where="lab", fix="wait")

        log.before = before

    with publishing(story(steps(*PODS)), prepare=prepare) as run:
        run.lab.run(400)
        assert ran(run) == EVERYONE
        run.at_rest()
    assert len(away) > 10 and len(set(away[1:])) == 1
