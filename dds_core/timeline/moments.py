"""What a timeline is told from: one fact and what it caused, wherever they come from, a replay or a log.

Nothing here reads a log; `moments` and `of_steps` only bring two forms to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dds_core.component import SCALER, Component
from dds_core.engine import Step
from dds_core.events import TYPES, Decision, Event, Fact, Transition
from dds_core.log.envelope import LOG_OPENED, Envelope, LeanEvent
from dds_core.replay.logged import event_of, require_component

FIRST = 2
"""Position of the first fact in a log; the log's own opening has position 1."""


class Moment(NamedTuple):
    """A fact (None when it was erased) at its instant, what it caused, and the position of the fact in its log."""

    position: int
    at: int
    fact: Event | None
    caused: list[Event]
    erased: int = 0

    @property
    def length(self) -> int:
        """Events in the log."""
        return 1 + len(self.caused) + self.erased - (self.fact is None)


def of_steps(steps: Iterable[Step], first: int = FIRST) -> Iterator[Moment]:
    """The moments of a replay, with the positions that they have in a log that begins with them."""
    position = first
    for step in steps:
        yield Moment(position, step.at, step.fact, [event for event, _ in step.caused])
        position += 1 + len(step.caused)


def moments(rows: Iterable[Envelope] | Iterable[LeanEvent], component: Component[Any] = SCALER) -> Iterator[Moment]:
    """The moments of a log of that component. A group begins with its fact, and nothing else in it is one, so lean rows will
    do; types are kept when data are erased."""
    current: Moment | None = None
    for row in rows:
        if row.type == LOG_OPENED:
            require_component(row, component)
            continue
        event = event_of(row, component)
        if current is None or not issubclass(TYPES.get(row.type, Fact), Decision | Transition):
            if current is not None:
                yield current
            current = Moment(row.position, row.occurred_at, event, [], int(event is None))
        elif event is None:
            current = current._replace(erased=current.erased + 1)
        else:
            current.caused.append(event)
    if current is not None:
        yield current
