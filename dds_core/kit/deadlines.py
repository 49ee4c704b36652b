"""The instants that a state waits for. Each is (due, kind, of) and comes back as a `DeadlinePassed` fact, once; a deadline that
moves is another deadline. They are a pure function of the state, in every mode. `DeadlineQueue` keeps them in order; it looks
again only at what changed, so that the next one is found at no cost.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.state import StateBase

Name = tuple[str, str]
"""(kind, of): what a deadline is told apart by; one that moves is another deadline of the same name."""


class DeadlineKind(StrEnum):
    """What a deadline of dds's own components is for. Every component has the first two; a component of another package names its
    own kinds with plain strings."""

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
    GRACE = "grace"
    HOLD = "hold"
    UNLISTED = "unlisted"
    PROGRESS = "progress"
    COOLING = "cooling"
    PUBLISHER = "publisher"
    DETACHES = "detaches"
    PREWARM = "prewarm"
    RULES = "rules"
    # the publisher, which has COOLING too
    GONE = "gone"
    READBACK = "readback"
    # the autoscaler
    COMPOSE = "compose"


KINDS: dict[str, str] = {
    DeadlineKind.RETRY: "a refused write may be tried again",
    DeadlineKind.LEVEL: "a pass over the whole fleet is due",
}
"""What every component waits for, in words; each adds its own."""

P = TypeVar("P", bound=StateBase[Any])


class Deadline(NamedTuple):
    """An instant that the state waits for: `kind` says why, `of` for which object, cell, or the fleet."""

    due: int
    kind: str
    of: str


def of_fleet(state: StateBase[Any]) -> Iterator[Deadline]:
    if state.policy.scan_interval_seconds:
        yield Deadline(state.level_at + state.policy.scan_interval_seconds * MICROSECONDS, DeadlineKind.LEVEL, "fleet")


def retries(state: StateBase[Any]) -> Iterator[Deadline]:
    for refused, refusal in state.refusals.rows.items():
        yield Deadline(refusal.until, DeadlineKind.RETRY, "/".join(refused))


class DeadlineQueue(ABC, Generic[P]):
    """The deadlines of a state in order; `refresh` after each group."""

    def __init__(self, state: P) -> None:
        self._state = state
        self.rebuild()

    @classmethod
    @abstractmethod
    def found(cls, state: P) -> Iterator[Deadline]:
        """Every deadline of the component's own."""

    @abstractmethod
    def look(self, touched: Any) -> None:
        """Look again at what a group touched (`_replace`)."""

    @classmethod
    def deadlines(cls, state: P) -> set[Deadline]:
        """Every deadline of the state that has not come back yet."""
        found = {*of_fleet(state), *retries(state), *cls.found(state)}
        return {one for one in found if state.fired_deadlines.get((one.kind, one.of)) != one.due}

    def rebuild(self) -> None:
        """Look at everything again."""
        self._heap = list(self.deadlines(self._state))
        self._due: dict[Name, int] = {(one.kind, one.of): one.due for one in self._heap}
        heapq.heapify(self._heap)
        self._retries = {name for name in self._due if name[0] == DeadlineKind.RETRY}

    def refresh(self, touched: Any) -> None:
        """Look again at what a group touched."""
        if touched.everything:
            self.rebuild()
            return
        self.look(touched)
        state = self._state
        self._replace(((DeadlineKind.LEVEL, "fleet"),), of_fleet(state))
        if state.refusals or self._retries:
            now = list(retries(state))
            self._replace(self._retries, now)
            self._retries = {(one.kind, one.of) for one in now}

    def _replace(self, names: Iterable[Name], now: Iterable[Deadline]) -> None:
        """Of these names, only what is in `now` stays due."""
        due = self._due
        left = {name for name in names if name in due}
        for one in now:
            name = (one.kind, one.of)
            left.discard(name)
            if self._state.fired_deadlines.get(name) == one.due:
                due.pop(name, None)
            elif due.get(name) != one.due:
                due[name] = one.due
                heapq.heappush(self._heap, one)
        for name in left:
            del due[name]

    def has(self, one: Deadline) -> bool:
        """Whether this very deadline is still to come back."""
        return self._due.get((one.kind, one.of)) == one.due

    def next(self) -> Deadline | None:
        """The earliest deadline, None when there is none, or while the state is not whole or a view is stale."""
        if not self._state.synced or self._state.stale:
            return None
        heap = self._heap
        while heap and not self.has(heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None
