"""A timeline: each change of a claim's or a device's state with what led to it, told moment by moment.

Pure and streaming: of what it is told it keeps the objects' last forms and the facts since the last change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dds_core.events import Decision, Event, Transition
from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE
from dds_core.scaler.events import ClaimMoved, DeviceMoved
from dds_core.timeline.acts import Acts
from dds_core.timeline.decisions import decision_words
from dds_core.timeline.facts import fact_words
from dds_core.timeline.known import Known
from dds_core.timeline.moments import Moment
from dds_core.timeline.scope import Everything, Scope, scope_of
from dds_core.timeline.subjects import Subject

FACT = "fact"
ACT = "act"
DECISION = "decision"
ERASED = "erased"
REST = "rest"


class Note(NamedTuple):
    """What is told under a change: `kind` is fact, act (somebody else did what a scaler does), decision (of dds; a wish
    only, in mode observe) or erased."""

    at: int
    kind: str
    text: str


class Entry(NamedTuple):
    """One change (`kind` is claim or device), a decision that came without one (decision), or what was learned since the
    last entry (rest).

    at: the instant; position: that of its fact in the log; name, uid: whose change it is; source, target: the states
    ("New" before the first); after: microseconds spent in `source`, None from New; cause: why, in this case, or the
    decision; meaning: the sentence of the lifecycle table; notes: the facts that led to it and what was decided, in order.
    """

    at: int
    position: int
    kind: str
    name: str = ""
    uid: str = ""
    trigger: str = ""
    source: str = ""
    target: str = ""
    after: int | None = None
    cause: str = ""
    meaning: str = ""
    notes: tuple[Note, ...] = ()


def timeline(told: Iterable[Moment], subject: Subject | None = None) -> Iterator[Entry]:
    """The entries of a subject, or of every life when there is none, in the order of their instants."""
    known = Known()
    teller = Teller(known, scope_of(subject, known) if subject is not None else Everything())
    for moment in told:
        yield from teller.tell(moment)
    yield from teller.rest()


class Teller:
    """Tells one moment after the other."""

    def __init__(self, known: Known, scope: Scope) -> None:
        self._known = known
        self._scope = scope
        self._acts = Acts()
        self._pending: list[Note] = []
        self._last = (0, 0)

    def tell(self, moment: Moment) -> list[Entry]:
        """The entries that this moment gives; often none."""
        if not self._scope.gathers:
            self._pending = []
        self._note_fact(moment)
        entries: list[Entry] = []
        for event in moment.caused:
            self._take(event, moment, entries)
        self._last = (moment.at, moment.position)
        return entries or self._decided(moment)

    def _decided(self, moment: Moment) -> list[Entry]:
        """A decision that no change of a state came with."""
        first = next((note for note in self._pending if note.kind == DECISION), None)
        if first is None:
            return []
        self._pending.remove(first)
        return [self._closed(Entry(moment.at, moment.position, DECISION, cause=first.text))]

    def rest(self) -> list[Entry]:
        """What was learned since the last change."""
        if not self._pending or not self._scope.gathers:
            return []
        return [self._closed(Entry(*self._last, REST))]

    def _note_fact(self, moment: Moment) -> None:
        if moment.fact is not None:
            pair = self._known.learn(moment.fact)
            act = self._acts.is_act(moment.fact, pair)
            if self._scope.fact(moment.fact, pair):
                words = fact_words(moment.fact, pair, self._known)
                self._pending += [Note(moment.at, ACT if act else FACT, text) for text in words]
        if moment.erased:
            many = "1 event was" if moment.erased == 1 else f"{moment.erased} events were"
            self._pending.append(Note(moment.at, ERASED, f"{many} erased, of the group at position {moment.position}"))

    def _take(self, event: Event, moment: Moment, entries: list[Entry]) -> None:
        if isinstance(event, Transition):
            since = self._moved(event, moment.at)
            if self._scope.transition(event):
                entries.append(self._closed(self._entry(event, moment, since)))
        elif isinstance(event, Decision):
            self._acts.decided(event)
            if self._scope.decision(event):
                note = Note(moment.at, DECISION, decision_words(event, self._known))
                if entries:
                    entries[-1] = entries[-1]._replace(notes=(*entries[-1].notes, note))
                else:
                    self._pending.append(note)

    def _moved(self, event: Transition, at: int) -> int | None:
        """Keep the state that a life is in now; gives the time spent in the one before."""
        states = self._known.states
        state, since = states.get(event.subject, ("", at))
        target = getattr(event, "target", "")
        if target in ("Gone", ""):
            states.pop(event.subject, None)
        elif state != target or getattr(event, "trigger", "").startswith("allocated"):
            states[event.subject] = (target, at)
        return at - since if state else None

    def _entry(self, event: Transition, moment: Moment, after: int | None) -> Entry:
        assert isinstance(event, ClaimMoved | DeviceMoved)
        kind = "claim" if isinstance(event, ClaimMoved) else "device"
        return Entry(
            at=moment.at,
            position=moment.position,
            kind=kind,
            name=self._known.called(event.subject),
            uid=event.subject,
            trigger=event.trigger,
            source=event.source or "New",
            target=event.target,
            after=after,
            cause=event.cause,
            meaning=_MEANINGS.get((kind, event.trigger, event.source, event.target), ""),
        )

    def _closed(self, entry: Entry) -> Entry:
        notes, self._pending = tuple(self._pending), []
        return entry._replace(notes=notes)


_MEANINGS = {
    (kind, edge.trigger, edge.source, edge.target): edge.sentence
    for kind, table in (("claim", CLAIM_TABLE), ("device", DEVICE_TABLE))
    for edge in table
}
