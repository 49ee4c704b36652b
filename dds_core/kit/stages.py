"""The table of a protocol: which trigger takes it from which stage to which, with a sentence for each row.

A protocol is what dds writes in several steps, each of which waits for the outcome of the one before. Decisions of dds are
triggers too: one that the table does not have is refused. Outcomes and observations come late, or twice, and change nothing then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from dds_core.errors import IllegalTransition
from dds_core.kit.state import Table
from dds_core.lifecycle import NEW, Edge

K = TypeVar("K")
V = TypeVar("V")

NONE = NEW
"""The stage of what has not begun, or is over."""


def each(trigger: str, sources: Iterable[str], target: str, sentence: str) -> tuple[Edge, ...]:
    """The rows of a trigger that takes several stages to one."""
    return tuple(Edge(trigger, source, target, sentence) for source in sources)


class Stages:
    """A protocol's `table`; `decided` are the triggers that only a decision of dds pulls."""

    def __init__(self, name: str, table: tuple[Edge, ...], decided: Iterable[str]) -> None:
        self.name = name
        self.table = table
        self.decided = frozenset(decided)
        self._targets = {(edge.trigger, edge.source): edge.target for edge in table}
        assert len(self._targets) == len(table), "one row for a trigger and a stage"
        assert self.decided <= {edge.trigger for edge in table}

    def target(self, trigger: str, stage: str, of: str) -> str | None:
        """Where `trigger` takes a stage; None when the stage does not name it. `of`: the uid of what it is about, for the error.
        Raises IllegalTransition for a decision."""
        target = self._targets.get((trigger, stage))
        if target is None and trigger in self.decided:
            raise IllegalTransition(f"{self.name} of {of}: {trigger} does not start from {stage or 'nothing'}")
        return target

    def take(
        self,
        rows: Table[K, V],
        key: K,
        trigger: str,
        stage_of: Callable[[V | None], str],
        at: Callable[[V, str], V],
        begun: V | None = None,
    ) -> None:
        """Take a row to the next stage, or drop it at the end; nothing changes where the table names none. `at`: the row at a
        stage; `begun`: a new row in its place."""
        found = rows.get(key)
        target = self.target(trigger, stage_of(found), str(key))
        row = begun if begun is not None else found
        if target == NONE:
            rows.drop(key)
        elif target is not None and row is not None:
            rows.put(key, at(row, target))
