"""An instant that a picture waits for; the agendas find them, and each comes back as a `DeadlinePassed`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

Name = tuple[str, str]
"""(kind, of): what a deadline is told apart by; one that moves is another deadline of the same name."""


class Deadline(NamedTuple):
    """An instant that the picture waits for: `kind` says why, `of` for which object, cell, or the fleet."""

    due: int
    kind: str
    of: str


class Deadlines:
    """Deadlines by their names, the earliest first."""

    __slots__ = ("_heap", "due")

    def __init__(self, found: Iterable[Deadline] = ()) -> None:
        self._heap = list(found)
        self.due: dict[Name, int] = {(one.kind, one.of): one.due for one in self._heap}
        heapq.heapify(self._heap)

    def put(self, name: Name, due: int) -> None:
        """It is due at this instant, and at no other."""
        if self.due.get(name) != due:
            self.due[name] = due
            heapq.heappush(self._heap, Deadline(due, *name))

    def drop(self, name: Name) -> None:
        """It is waited for no more."""
        self.due.pop(name, None)

    def has(self, one: Deadline) -> bool:
        """Whether this very deadline is still to come back."""
        return self.due.get((one.kind, one.of)) == one.due

    def first(self) -> Deadline | None:
        """The earliest, None when there is none."""
        heap = self._heap
        while heap and not self.has(heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None
