"""The instants that a picture waits for. Each is (due, kind, of) and comes back as a `DeadlinePassed` fact, once; one that
moves is another deadline. They are a pure function of the picture, in every mode. The `Agenda` keeps them in order and is told
what changed, so that finding the next one costs nothing.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.state import Remembered

Name = tuple[str, str]
"""(kind, of): what a deadline is told apart by; one that moves is another deadline of the same name."""

KINDS = {"retry": "a refused write may be tried again", "level": "a pass over the whole fleet is due"}
"""What every component waits for, in words; each adds its own."""

P = TypeVar("P", bound=Remembered[Any])


class Deadline(NamedTuple):
    """An instant that the picture waits for: `kind` says why, `of` for which object, cell, or the fleet."""

    due: int
    kind: str
    of: str


def of_fleet(picture: Remembered[Any]) -> Iterator[Deadline]:
    if picture.policy.scan_interval_seconds:
        yield Deadline(picture.level_at + picture.policy.scan_interval_seconds * MICROSECONDS, "level", "fleet")


def retries(picture: Remembered[Any]) -> Iterator[Deadline]:
    for refused, refusal in picture.refusals.rows.items():
        yield Deadline(refusal.until, "retry", "/".join(refused))


class Agenda(ABC, Generic[P]):
    """The deadlines of a picture in order; `refresh` after each group."""

    def __init__(self, picture: P) -> None:
        self._picture = picture
        self.rebuild()

    @classmethod
    @abstractmethod
    def found(cls, picture: P) -> Iterator[Deadline]:
        """Every deadline of the component's own."""

    @abstractmethod
    def look(self, touched: Any) -> None:
        """Look again at what a group touched (`_replace`)."""

    @classmethod
    def deadlines(cls, picture: P) -> set[Deadline]:
        """Every deadline of the picture that has not come back yet."""
        found = {*of_fleet(picture), *retries(picture), *cls.found(picture)}
        return {one for one in found if picture.passed.get((one.kind, one.of)) != one.due}

    def rebuild(self) -> None:
        """Look at everything again."""
        self._heap = list(self.deadlines(self._picture))
        self._due: dict[Name, int] = {(one.kind, one.of): one.due for one in self._heap}
        heapq.heapify(self._heap)
        self._retries = {name for name in self._due if name[0] == "retry"}

    def refresh(self, touched: Any) -> None:
        """Look again at what a group touched."""
        if touched.everything:
            self.rebuild()
            return
        self.look(touched)
        picture = self._picture
        self._replace((("level", "fleet"),), of_fleet(picture))
        if picture.refusals or self._retries:
            now = list(retries(picture))
            self._replace(self._retries, now)
            self._retries = {(one.kind, one.of) for one in now}

    def _replace(self, names: Iterable[Name], now: Iterable[Deadline]) -> None:
        """Of these names, only what is in `now` stays due."""
        due = self._due
        left = {name for name in names if name in due}
        for one in now:
            name = (one.kind, one.of)
            left.discard(name)
            if self._picture.passed.get(name) == one.due:
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
        """The earliest deadline, None when there is none, or while the picture is not whole or a view is stale."""
        if not self._picture.synced or self._picture.stale:
            return None
        heap = self._heap
        while heap and not self.has(heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None
