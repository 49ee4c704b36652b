"""The engine: takes one fact at a time, folds it, decides, and gives back the atomic group to be logged.

It owns the state and the agenda. It has no clock: who calls it says when a fact happened and asks for the deadlines that
are due before. It does no I/O: who calls it appends the group and carries decisions out after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple

from dds_core.component import Component, P
from dds_core.events import SCHEMA_VERSION, DeadlinePassed, Decision, Event, Transition, encode
from dds_core.kit.work import Caused
from dds_core.log.envelope import Group, NewEvent


class Step(NamedTuple):
    """One fact at its instant and all that it caused, each with the index in the group of what caused it; `broken` names the
    invariants that did not hold: what would have broken one was not decided."""

    at: int
    fact: Event
    caused: list[Caused]
    broken: Sequence[str] = ()

    @property
    def decisions(self) -> list[Decision]:
        return [event for event, _ in self.caused if isinstance(event, Decision)]

    @property
    def transitions(self) -> list[Transition]:
        return [event for event, _ in self.caused if isinstance(event, Transition)]

    def group(self, ordinal: int) -> Group:
        """The group to append; `ordinal` counts this writer's groups within its epoch."""
        rows = [
            new_event(self.fact, self.at, None),
            *(new_event(event, self.at, cause) for event, cause in self.caused),
        ]
        return Group(ordinal, tuple(rows))


def new_event(event: Event, at: int, cause: int | None) -> NewEvent:
    """The row of an event: its stream, type, states and exact bytes."""
    moved = isinstance(event, Transition)
    return NewEvent(
        stream=event.subject,
        type=type(event).__name__,
        schema_version=SCHEMA_VERSION,
        occurred_at=at,
        data=encode(event),
        from_state=getattr(event, "source", None) if moved else None,
        to_state=getattr(event, "target", None) if moved else None,
        cause=cause,
    )


class EngineOf(Generic[P]):
    """Folds and decides for a component. `state` may come from a log; by default nothing is known yet."""

    def __init__(self, component: Component[P], state: P | None = None) -> None:
        self.component = component
        self.state: P = state if state is not None else component.state()
        self.deadline_queue = component.deadline_queue(self.state)

    def feed(self, fact: Event, at: int) -> Step:
        """Take in a fact that happened at `at` (microseconds; never before the last one: time does not run back here).

        An error in a rule becomes an `Alerted` about the one object that it was deciding for. Whatever is raised (the policy
        of a `PolicyChanged` that is not valid, a transition from outside that is none) leaves the fact out of the log; the
        state is then to be rebuilt from there.
        """
        at = max(at, self.state.now)
        self.component.apply(self.state, fact, at)
        work = self.component.decide(self.state, at, keep=True)
        self.deadline_queue.refresh(work.touched)
        return Step(at, fact, work.emitted, work.broken)

    def due(self, until: int) -> DeadlinePassed | None:
        """The earliest deadline that is due at `until` or before, to be fed at its instant `due`; None when there is none."""
        first = self.deadline_queue.next()
        if first is None or first.due > until:
            return None
        return DeadlinePassed(kind=first.kind, of=first.of, due=first.due)

    def run(self, facts: Iterable[tuple[int, Event]]) -> Iterator[Step]:
        """Feed facts in order of their instants, each after the deadlines that are due before it or with it: the virtual
        timer of a recording."""
        for at, fact in facts:
            while (deadline := self.due(at)) is not None:
                yield self.feed(deadline, deadline.due)
            yield self.feed(fact, at)
