"""Deadlines: the instants at which a component decides again although nothing in the cluster has changed.

A deadline is (due, kind, of). When it is due, the caller of the engine feeds it as a `DeadlinePassed` fact, once. Deadlines are a
pure function of the state, in every mode. `DeadlineQueue` keeps them in order and recomputes only what a group touched.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.state import StateBase

Name = tuple[str, str]
"""(kind, of): the identity of a deadline. One with another `due` replaces the former of the same name."""


class DeadlineKind(StrEnum):
    """Why a component waits. All components have the first two; one of another package names its own kinds with plain strings."""

    RETRY = "retry"
    LEVEL = "level"
    # the scaler
    BUDGET = "budget"
    RESERVATION = "reservation"
    GUARD = "guard"
    SETTLE = "settle"
    TELL = "tell"
    SLOW = "slow"
    IDLE = "idle"
    FENCE = "fence"
    STUCK = "stuck"
    GRACE = "grace"
    HOLD = "hold"
    UNLISTED = "unlisted"
    SICK = "sick"
    NUDGE = "nudge"
    CALL_OFF = "call-off"
    PROGRESS = "progress"
    COOLING = "cooling"
    PUBLISHER = "publisher"
    DETACHES = "detaches"
    PREWARM = "prewarm"
    # the publisher, which has COOLING too
    GONE = "gone"
    READBACK = "readback"
    # the autoscaler
    COMPOSE = "compose"


KINDS: dict[str, str] = {
    DeadlineKind.RETRY: "a refused write may be tried again",
    DeadlineKind.LEVEL: "a pass over the whole fleet is due",
}
"""The kinds of every component, in words; each component adds its own."""

P = TypeVar("P", bound=StateBase[Any])


class Deadline(NamedTuple):
    """An instant (`due`, microseconds) that the state waits for; `kind` says why, `of` for which object, cell, or "fleet"."""

    due: int
    kind: str
    of: str


def of_fleet(state: StateBase[Any]) -> Iterator[Deadline]:
    if state.policy.scan_interval_seconds:
        yield Deadline(
            state.process.level_at + state.policy.scan_interval_seconds * MICROSECONDS, DeadlineKind.LEVEL, "fleet"
        )


LATE = 10
"""Seconds after a deadline within which a running process has its fact in the log, unless it got no CPU or had no log."""


def writes_every(interval: int, synced: bool, stale: Iterable[str]) -> tuple[int, str]:
    """How long a running process is silent at most, in microseconds: level passes, each `interval` seconds, are facts. Where no
    deadline passes, nothing makes a process write: then 0, and why."""
    if not interval:
        return 0, "the policy's scan_interval_seconds is 0"
    if not synced:
        return 0, "not everything is listed yet since its start"
    if unseen := sorted(stale):
        return 0, f"{', '.join(unseen)} cannot be watched"
    return (interval + LATE) * MICROSECONDS, ""


def retries(state: StateBase[Any]) -> Iterator[Deadline]:
    for refused, refusal in state.notes.refusals.rows.items():
        yield Deadline(refusal.until, DeadlineKind.RETRY, "/".join(refused))


class DeadlineQueue(ABC, Generic[P]):
    """The pending deadlines of a state, in order. Call `refresh` after each group."""

    def __init__(self, state: P) -> None:
        self._state = state
        self.rebuild()

    @classmethod
    @abstractmethod
    def found(cls, state: P) -> Iterator[Deadline]:
        """All deadlines of the component's own kinds."""

    @abstractmethod
    def look(self, touched: Any) -> None:
        """Recompute the component's own deadlines of what a group touched, with `_replace_of` or `_replace`."""

    @classmethod
    def deadlines(cls, state: P) -> set[Deadline]:
        """All deadlines of the state that have not passed yet."""
        found = {*of_fleet(state), *retries(state), *cls.found(state)}
        return {one for one in found if state.notes.fired_deadlines.get((one.kind, one.of)) != one.due}

    def rebuild(self) -> None:
        self._heap = list(self.deadlines(self._state))
        heapq.heapify(self._heap)
        self._due: dict[str, dict[str, int]] = {}  # by object and kind
        for one in self._heap:
            self._due.setdefault(one.of, {})[one.kind] = one.due
        self._retries = {(one.kind, one.of) for one in self._heap if one.kind == DeadlineKind.RETRY}

    def refresh(self, touched: Any) -> None:
        if touched.everything:
            self.rebuild()
            return
        self.look(touched)
        state = self._state
        self._replace_of("fleet", (DeadlineKind.LEVEL,), of_fleet(state))
        if state.notes.refusals or self._retries:
            now = list(retries(state))
            self._replace(self._retries, now)
            self._retries = {(one.kind, one.of) for one in now}

    def _replace(self, names: Iterable[Name], now: Iterable[Deadline]) -> None:
        """Make `now` the only pending deadlines among these names."""
        left = set(names)
        for one in now:
            left.discard((one.kind, one.of))
            self._put(one)
        for kind, of in left:
            self._drop(kind, of)

    def _replace_of(self, of: str, kinds: Sequence[str], now: Iterable[Deadline]) -> None:
        """Make `now` the only pending deadlines of these kinds of one object. Most objects wait for nothing."""
        found = list(now)
        if of in self._due:
            left = {one.kind for one in found}
            for kind in [one for one in self._due[of] if one in kinds and one not in left]:
                self._drop(kind, of)
        for one in found:
            self._put(one)

    def _put(self, one: Deadline) -> None:
        """Make the deadline pending, unless it has passed."""
        due, kind, of = one
        if self._state.notes.fired_deadlines.get((kind, of)) == due:
            self._drop(kind, of)
        elif not self.has(one):
            self._due.setdefault(of, {})[kind] = due
            heapq.heappush(self._heap, one)

    def _drop(self, kind: str, of: str) -> None:
        pending = self._due.get(of)
        if pending is not None and pending.pop(kind, None) is not None and not pending:
            del self._due[of]

    def has(self, one: Deadline) -> bool:
        """Whether exactly this deadline is still pending."""
        pending = self._due.get(one.of)
        return pending is not None and pending.get(one.kind) == one.due

    def next(self) -> Deadline | None:
        """The earliest pending deadline; None if there is none, before the state is synced, and while a watch is stale."""
        if not self._state.process.synced or self._state.process.stale:
            return None
        heap = self._heap
        while heap and not self.has(heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None
