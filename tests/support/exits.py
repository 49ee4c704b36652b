"""Processes that end at a chosen boundary: before or after an append is committed, before a request is sent, or after it was
carried out and before its answer is seen. The next one goes on from the log.

    run = crashed("first_attach", Boundaries("append", 7, "after"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from dds_core.log import Envelope, EventLog, Group
from dds_core.log.chain import anchor_of, verify_log
from tests.support.ours import Running, new_log, running, told_to_us

Kind = Literal["append", "write", "call"]
When = Literal["before", "after"]


class Exit(BaseException):
    """The process is gone. No code of ours may catch it."""


class Watched:
    """A log that calls `before` and `after` around each append; all else is the log's own."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.before: Callable[[], None] = _nothing
        self.after: Callable[[], None] = _nothing

    def append(
        self,
        groups: Sequence[Group],
        *,
        epoch: int,
        recorded_at: int,
        expected: Mapping[str, int] | None = None,
    ) -> list[Envelope]:
        self.before()
        rows = self.log.append(groups, epoch=epoch, recorded_at=recorded_at, expected=expected)
        self.after()
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


def _nothing() -> None: ...


class Boundaries:
    """Counts the boundaries that a run passes, and ends the process at one of them (`at` counts from 0)."""

    def __init__(self, kind: Kind = "append", at: int = -1, when: When = "before") -> None:
        self.passed: dict[tuple[Kind, When], int] = {}
        self.reached = False
        self._chosen = (kind, when)
        self._at = at

    def watch(self, run: Running) -> None:
        log: Any = run.log
        log.before, log.after = (lambda: self._pass("append", "before")), (lambda: self._pass("append", "after"))
        run.ours.requests.before = lambda method, path: self._request(method, "before")
        run.ours.requests.after = lambda method, path: self._request(method, "after")
        rack: Any = getattr(run, "rack", None)
        if rack is not None:
            rack.before, rack.after = (lambda: self._pass("call", "before")), (lambda: self._pass("call", "after"))

    def _request(self, method: str, when: When) -> None:
        if method != "GET":
            self._pass("write", when)

    def _pass(self, kind: Kind, when: When) -> None:
        number = self.passed.get((kind, when), 0)
        self.passed[kind, when] = number + 1
        if (kind, when) == self._chosen and number == self._at and not self.reached:
            self.reached = True
            raise Exit


def crashed(
    name: str, boundaries: Boundaries, *, away: float = 1.0, seed: int | None = None, more: float = 240.0
) -> Running:
    """A run of a scenario whose process ends at the boundary; another one begins `away` seconds later on the same log. What was
    committed by then is still there in the end, as it was."""
    scenario = told_to_us(name)
    log: Any = Watched(new_log(scenario))
    anchors = []
    with running(scenario, seed=seed, log=log, prepare=boundaries.watch, begin=False) as run:
        end = scenario.start + round((scenario.duration + more) * 1_000_000)
        begin: Callable[[], None] = run.ours.start
        while True:
            try:
                begin()
                run.lab.run(until=end)
                break
            except Exit:
                anchors.append(anchor_of(log.head()))
                begin = partial(_succeed, run, away)
    verify_log(log, anchors=anchors)
    return run


def _succeed(run: Running, away: float) -> None:
    """The process is gone; after a while there is another."""
    log: Any = run.log
    log.before = log.after = _nothing
    run.ours.kill()
    run.lab.time.after(away, lambda: run.another().start())
