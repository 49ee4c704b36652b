"""The publisher's log told moment by moment: what the fabric has and answers, what was refused, and every decision.

Pure and streaming: of what it is told it keeps the last forms of things and the facts since the last entry.
"""

from __future__ import annotations

from dds_core import events as e
from dds_core.events import Decision, Event
from dds_core.publishing.model import Machine, Stock
from dds_core.timeline.decisions import decision_words
from dds_core.timeline.entries import DECISION, ERASED, FACT, Entry, Note, Teller
from dds_core.timeline.facts import fact_words
from dds_core.timeline.known import Pair
from dds_core.timeline.moments import Moment
from dds_core.timeline.phrases import listed, spoken
from dds_core.timeline.publisher.known import FAILS, PublisherKnown, question
from dds_core.timeline.publisher.words import broken, limits_words
from dds_core.timeline.scope import Scope

NEW, GONE = "New", "Gone"


class PublisherTeller(Teller):
    """Tells one moment after the other. Entries are of kind stock, machine, fabric (an answer about something failed, or came
    again), write (one was refused) and decision."""

    def __init__(self, known: PublisherKnown, scope: Scope) -> None:
        super().__init__(known, scope)

    def tell(self, moment: Moment) -> list[Entry]:
        """The entries that this moment gives: a change that its fact is, with what was decided; else each decision."""
        if not self._scope.gathers:
            self._pending = []
        change = self._change(moment)
        entries = [self._closed(change)] if change is not None else []
        if moment.erased:
            text = f"erased: {moment.erased} of the group at position {moment.position}"
            self._pending.append(Note(moment.at, ERASED, text))
        for event in moment.caused:
            if isinstance(event, Decision) and self._scope.decision(event):
                self._decision(event, moment, entries, under=change is not None)
        self._last = (moment.at, moment.position)
        return entries

    def _decision(self, event: Decision, moment: Moment, entries: list[Entry], *, under: bool) -> None:
        text = decision_words(event, self._known)
        if under:
            note = Note(moment.at, DECISION, text)
            entries[-1] = entries[-1]._replace(notes=(*entries[-1].notes, note))
        else:
            entries.append(self._closed(Entry(moment.at, moment.position, DECISION, cause=text)))

    def _change(self, moment: Moment) -> Entry | None:
        """The entry that the fact is; None, and a note of it, where it only leads to one."""
        fact = moment.fact
        if fact is None:
            return None
        pair = self._known.learn(fact)
        told = self._turned(_told(fact, pair), moment)
        if not self._scope.fact(fact, pair):
            return None
        if told is not None:
            return told
        self._pending += [Note(moment.at, FACT, text) for text in fact_words(fact, pair, self._known)]
        return None

    def _turned(self, told: Entry | None, moment: Moment) -> Entry | None:
        """The entry in its place, with the time that it was as before; how it is now is kept."""
        if told is None or not told.uid:
            return told._replace(at=moment.at, position=moment.position) if told is not None else None
        states = self._known.states
        state, since = states.get(told.uid, (NEW, 0))
        if told.target == GONE:
            states.pop(told.uid, None)
        elif state != told.target:
            states[told.uid] = (told.target, moment.at)
        source = state if told.kind == "fabric" else told.source
        after = moment.at - since if since else None
        return told._replace(at=moment.at, position=moment.position, source=source, after=after)


def _told(fact: Event, pair: Pair) -> Entry | None:
    """A fact as an entry without its place, None for one that is none."""
    match fact, pair:
        case e.StockObserved(), (before, Stock() as stock):
            was = before if isinstance(before, Stock) else None
            return _entry(
                "stock", spoken(fact.subject), fact.subject, _counted(was), _counted(stock), _which(was, stock)
            )
        case e.MachineObserved(), (before, Machine() as machine):
            was_in = _fabric(before) if isinstance(before, Machine) else NEW
            limits = limits_words(machine.limits)
            cause = f"may have {limits}" if limits else ""
            return _entry("machine", machine.name or machine.uuid, machine.uuid, was_in, _fabric(machine), cause)
        case e.MachineGone(), (before, _):
            gone = before if isinstance(before, Machine) else Machine(fact.machine)
            return _entry(
                "machine", gone.name or gone.uuid, gone.uuid, _fabric(gone), GONE, "no answer names it any more"
            )
        case e.FabricFailed(), _:
            return _entry("fabric", spoken(fact.of), question(fact.of), NEW, FAILS, fact.text)
        case e.FabricAnswered(), _:
            return _entry("fabric", spoken(fact.of), question(fact.of), NEW, "answers")
        case e.WriteRefused(), _:
            cause = f"{fact.code} {fact.reason} {fact.text}".strip()
            return _entry("write", f"{fact.action} of {spoken(fact.target)}", "", "asked", "refused", cause)
    return None


def _entry(kind: str, name: str, uid: str, source: str, target: str, cause: str = "") -> Entry:
    return Entry(0, 0, kind, name=name, uid=uid, trigger=kind, source=source, target=target, cause=cause)


def _counted(stock: Stock | None) -> str:
    if stock is None:
        return NEW
    return f"{stock.free} {'there' if stock.whole else 'free'}"


def _fabric(machine: Machine) -> str:
    return f"fabric {machine.fabric}" if machine.fabric else "no fabric"


def _which(before: Stock | None, stock: Stock) -> str:
    """Which devices came, went, or are not healthy, where the fabric names them."""
    if stock.devices is None:
        return ""
    ids = tuple(one.id for one in stock.devices)
    old = tuple(one.id for one in (before.devices if before is not None else None) or ())
    parts = [
        ("new", [one for one in ids if one not in old]),
        ("gone", [one for one in old if one not in ids]),
        ("not healthy", list(broken(stock.devices))),
    ]
    return "; ".join(f"{word}: {listed(names)}" for word, names in parts if names)
