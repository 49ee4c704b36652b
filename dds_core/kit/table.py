"""A table of the picture: rows by key, hooks that keep indexes right, and a journal that can take changes back.

The journal is what lets `decide` try steps and leave no trace. Every change goes through `put` or `drop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Undo = Callable[[], None]
Hook = Callable[[K, V | None, V | None], None]


class Journal:
    """The changes made since the last `start`, newest last; off until started."""

    __slots__ = ("changes", "on")

    def __init__(self) -> None:
        self.on = False
        self.changes: list[Undo] = []

    def start(self) -> None:
        self.on = True
        self.changes = []

    def undo(self) -> None:
        """Take every change back, newest first, and switch off."""
        self.on = False
        for change in reversed(self.changes):
            change()
        self.changes = []


class Table(Generic[K, V]):
    """Rows of one kind by key."""

    __slots__ = ("_hooks", "_journal", "get", "rows")

    def __init__(self, journal: Journal) -> None:
        self.rows: dict[K, V] = {}
        self.get: Callable[[K], V | None] = self.rows.get  # the dictionary's own: it is asked a hundred times a fact
        self._journal = journal
        self._hooks: tuple[Hook[K, V], ...] = ()

    def watch(self, hook: Hook[K, V]) -> None:
        """Call `hook` with (key, old row, new row) after every change, also one that is taken back."""
        self._hooks += (hook,)

    def __contains__(self, key: object) -> bool:
        return key in self.rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[K]:
        return iter(self.rows)

    def put(self, key: K, row: V) -> None:
        self._replace(key, row)

    def drop(self, key: K) -> None:
        if key in self.rows:
            self._replace(key, None)

    def _replace(self, key: K, row: V | None) -> None:
        old = self.rows.get(key)
        if self._journal.on:
            self._journal.changes.append(lambda: self._set(key, row, old))
        self._set(key, old, row)

    def _set(self, key: K, old: V | None, row: V | None) -> None:
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row
        for hook in self._hooks:
            hook(key, old, row)


class Index(Generic[K, V]):
    """For each key the set of members; an empty set takes no room."""

    __slots__ = ("sets",)

    def __init__(self) -> None:
        self.sets: dict[K, set[V]] = {}

    def __getitem__(self, key: K) -> set[V] | frozenset[V]:
        return self.sets.get(key, frozenset())

    def add(self, key: K, member: V) -> None:
        found = self.sets.get(key)
        if found is None:
            self.sets[key] = {member}
        else:
            found.add(member)

    def discard(self, key: K, member: V) -> None:
        found = self.sets.get(key)
        if found is not None:
            found.discard(member)
            if not found:
                del self.sets[key]

    def clear(self) -> None:
        self.sets.clear()
