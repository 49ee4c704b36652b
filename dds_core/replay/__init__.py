"""Replay of a log: fold it into a state, verify it against the rules, or decide again under another policy.

All functions take rows in the order of their positions, from any source, and hold one group at a time. `component` is the owner
of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from dds_core.component import Component, P
from dds_core.engine import EngineOf, Step
from dds_core.errors import DdsError, Unfoldable
from dds_core.events import (
    Checkpoint,
    DeadlinePassed,
    EventsLost,
    Fact,
    LogRepaired,
    PolicyChanged,
    Started,
    Superseded,
    WriteDone,
    WriteObsolete,
    WriteRefused,
    encode,
)
from dds_core.log.envelope import LOG_OPENED, Envelope, LeanEvent
from dds_core.replay.logged import LoggedGroup, event_of, groups, moments, of_steps, require_component
from dds_core.replay.parts import Part, PartReport, divided, joined, verify_part
from dds_core.replay.verification import Difference, Span, VerifyReport, verify
from dds_core.replay.versions import WrittenBy, written_by

OPEN_LOOP = "open loop: the world did not follow from here on"
_OUTCOMES = (DeadlinePassed, WriteDone, WriteObsolete, WriteRefused, Superseded)

Rows = Iterable[Envelope] | Iterable[LeanEvent]


def fold_log(rows: Rows, component: Component[P], state: P | None = None) -> P:
    """The state after all events of the log: only `apply`, no decisions. The log may start with a checkpoint. Redacted events are
    skipped, and so is what a repair passes over. Raises Unfoldable for a log that does not fold to its end."""
    apply = component.apply
    result = state if state is not None else component.state()
    result.noting = False
    first = state is None
    begun, stop = 0, None
    for row in rows:
        if row.type == LOG_OPENED:
            require_component(row, component)
            continue
        event = event_of(row, component)
        if event is None:
            continue
        if isinstance(event, Fact):
            begun = row.position
        if stop is not None:
            if isinstance(event, LogRepaired) and event.stops == stop.position:
                first, stop = True, None
            continue
        if isinstance(event, Checkpoint):
            if first:
                result = component.load(event.picture)
                result.noting = False
        else:
            try:
                apply(result, event, row.occurred_at)
            except Exception as error:
                stop = Unfoldable(begun, error.what if isinstance(error, DdsError) else repr(error))
            result.dirty.clear()
        first = False
    result.noting = True
    if stop is not None:
        raise stop
    return result


class Redecided(NamedTuple):
    """A step under another policy. `differs` is true from the first decision or transition on that differs from the log."""

    step: Step
    differs: bool


def re_decide(rows: Iterable[Envelope], policy: BaseModel, component: Component[Any]) -> Iterator[Redecided]:
    """Feed a log's facts to the rules under another policy of the component. Recorded deadlines and outcomes of writes are left
    out; the engine makes its own deadlines. From the first difference on the loop is open: the recorded facts do not react to the
    new decisions."""
    engine: EngineOf[Any] = EngineOf(component)
    comparison = _Comparison()
    changed = PolicyChanged(policy=policy.model_dump(mode="json"))
    given = False
    for group in groups(rows, component):
        comparison.recorded(group)
        fact = group.events[0]
        if isinstance(fact, Checkpoint) and engine.state.process.now == 0:
            engine = EngineOf(component, component.load(fact.picture))
            fact = None
        if isinstance(fact, PolicyChanged) or (
            fact is not None and not given and not isinstance(fact, (Started, EventsLost))
        ):
            if not given:
                given = True
                step = engine.feed(changed, group.at)
                yield Redecided(step, comparison.decided(step))
            if isinstance(fact, PolicyChanged):
                continue
        if fact is None or isinstance(fact, (*_OUTCOMES, Checkpoint)):
            continue
        for step in engine.run([(group.at, fact)]):
            yield Redecided(step, comparison.decided(step))


class _Comparison:
    """Compares the recorded and the new sequence of caused events, which arrive alternately."""

    def __init__(self) -> None:
        self._recorded: list[bytes] = []
        self._decided: list[bytes] = []
        self._differs = False

    def recorded(self, group: LoggedGroup) -> None:
        self._recorded += [row.data for row in group.envelopes[1:] if row.data is not None]

    def decided(self, step: Step) -> bool:
        self._decided += [encode(event) for event, _ in step.caused]
        if not self._differs:
            both = min(len(self._recorded), len(self._decided))
            self._differs = self._recorded[:both] != self._decided[:both] or len(self._decided) > len(self._recorded)
            del self._recorded[:both], self._decided[:both]
        return self._differs


__all__ = [
    "OPEN_LOOP",
    "Difference",
    "LoggedGroup",
    "Part",
    "PartReport",
    "Redecided",
    "Span",
    "VerifyReport",
    "WrittenBy",
    "divided",
    "event_of",
    "fold_log",
    "groups",
    "joined",
    "moments",
    "of_steps",
    "re_decide",
    "verify",
    "verify_part",
    "written_by",
]
