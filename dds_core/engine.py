"""The engine: takes one fact, folds it, decides, and returns the group of events to append to the log.

It owns the state and the deadlines. It has no clock and does no I/O: the caller says when a fact happened, feeds the deadlines
that are due before it, appends the group, and carries out decisions after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple

from dds_core.component import Component, P
from dds_core.events import SCHEMA_VERSION, Checkpoint, DeadlinePassed, Decision, Event, Transition, encode
from dds_core.kit.work import Caused
from dds_core.log.envelope import Group, NewEvent


class Step(NamedTuple):
    """A fact at its instant and all that it caused, each event with the index of its cause in the group. `broken` names the
    invariants that did not hold; a step that would have broken one was undone."""

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
    """The row of an event in the log."""
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


def checkpoint(component: Component[P], state: P, at: int, code: str) -> Step:
    """The step whose fact holds the whole state, so that a later start needs no event before it. `code`: the writer's version."""
    picture = Checkpoint(component.projection, component.dump(state), code, component.fingerprint)
    return Step(max(at, state.process.now), picture, [])


class EngineOf(Generic[P]):
    """Folds and decides for a component. `state` may come from a log; the default is an empty one."""

    def __init__(self, component: Component[P], state: P | None = None) -> None:
        self.component = component
        self.state: P = state if state is not None else component.state()
        self.deadline_queue = component.deadline_queue(self.state)

    def feed(self, fact: Event, at: int) -> Step:
        """Fold a fact that happened at `at` (microseconds; an earlier instant than the last fact's counts as the last fact's),
        and decide.

        An error in a rule becomes an `Alerted` about the object it was deciding for. If this method raises (a policy that is not
        valid, an illegal transition from outside), the caller must not log the fact and must rebuild the state from the log.
        """
        at = max(at, self.state.process.now)
        self.component.apply(self.state, fact, at)
        work = self.component.decide(self.state, at, keep=True)
        self.deadline_queue.refresh(work.touched)
        return Step(at, fact, work.emitted, work.broken)

    def due(self, until: int) -> DeadlinePassed | None:
        """The earliest deadline that is due at `until` or before, to be fed at its instant `due`; None if there is none. As in
        `feed`, an instant before the last fact's counts as the last fact's: then a clock that steps back skips no deadline."""
        first = self.deadline_queue.next()
        if first is None or first.due > max(until, self.state.process.now):
            return None
        return DeadlinePassed(kind=first.kind, of=first.of, due=first.due)

    def advance(self, until: int) -> Iterator[Step]:
        """Feed the deadlines that are due at `until` or before. Call it when no fact has come for a while."""
        while (deadline := self.due(until)) is not None:
            yield self.feed(deadline, deadline.due)

    def run(self, facts: Iterable[tuple[int, Event]]) -> Iterator[Step]:
        """Feed facts in the order of their instants, each after the deadlines due by then. This is the timer of a recording."""
        for at, fact in facts:
            yield from self.advance(at)
            yield self.feed(fact, at)
