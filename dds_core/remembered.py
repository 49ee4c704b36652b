"""What every picture remembers, of whichever component: its own decisions, what was refused, and a few facts that are no rows.

What was observed, and what is derived from it, is each component's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from dds_core.rows import Refusal
from dds_core.table import Journal, Table

Kind = TypeVar("Kind")


class Remembered(Generic[Kind]):
    """`Kind` are the kinds of objects that are observed, `dirty` what the fold of the current group touched, in a class of the
    component's own. All changes go through the tables' `put` and `drop`."""

    dirty: Any
    _tables: dict[type[Kind], Table[str, Any]]

    def __init__(self) -> None:
        journal = self.journal = Journal()
        self.labelled: Table[tuple[str, str], str] = Table(journal)
        self.refusals: Table[tuple[str, str], Refusal] = Table(journal)
        self.shown: Table[tuple[str, str], bytes] = Table(journal)
        self.passed: Table[tuple[str, str], int] = Table(journal)
        self.reissue: Table[tuple[str, str], bool] = Table(journal)
        self.rejections: Table[tuple[str, str, str], bool] = Table(journal)

        self.now = 0
        self.synced = False
        self.synced_at = 0
        self.level_at = 0
        self.stale: set[str] = set()
        self.epoch = 0
        self.restarted = False

    def table(self, kind: type[Kind]) -> Table[str, Any]:
        """The table of an object kind."""
        return self._tables[kind]

    def object(self, kind: type[Kind], uid: str) -> Any:
        """The object as last observed, None when not known."""
        return self._tables[kind].get(uid)

    def told(self, uid: str, field: str, reason: str) -> bool:
        """Whether this rejection is already a fact."""
        return (uid, field, reason) in self.rejections

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Changes made inside leave no trace."""
        kept = type(self.dirty)()
        kept.add(self.dirty)
        self.journal.start()
        try:
            yield
        finally:
            self.journal.undo()
            self.dirty = kept
