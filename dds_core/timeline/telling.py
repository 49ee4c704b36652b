"""The parts from which each component builds its timelines (in its own module `timeline`).

A `Directory` finds the `Subject` (a claim, a device, ...) for a name that a person gives. A `Teller` reads one `Moment` (a fact
and what it caused) after the other and makes the `Entry`s of the timeline. Its `Scope` says which events concern the subject; its
`Known` has the names. All of it is streaming: it keeps the last state of each object and the facts since the last entry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from msgspec import UNSET

from dds_core.errors import InputError
from dds_core.events import (
    KIND_OF,
    Checkpoint,
    Decision,
    Event,
    EventsLost,
    LogRepaired,
    PolicyChanged,
    Stale,
    Started,
    Synced,
    Transition,
    after,
)
from dds_core.log.envelope import LeanEvent
from dds_core.model import Allocation, Claim, ClaimRequest, Condition, FabricResource
from dds_core.timeline.phrases import spoken

# -- moments -----------------------------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """A fact (None when erased) at its instant and position, and the events that it caused. `erased` counts erased events."""

    position: int
    at: int
    fact: Event | None
    caused: list[Event]
    erased: int = 0

    @property
    def length(self) -> int:
        """Number of its events in the log."""
        return 1 + len(self.caused) + self.erased - (self.fact is None)


# -- entries -----------------------------------------------------------------------------------------------------------

FACT = "fact"
ACT = "act"
DECISION = "decision"
ERASED = "erased"
REST = "rest"
FOLDED = "folded"
NODE = "node"


class Note(NamedTuple):
    """A line under an entry. `kind` is fact, act (another client did what a scaler does), decision (of dds; not carried out in
    mode observe) or erased."""

    at: int
    kind: str
    text: str


class Entry(NamedTuple):
    """One entry of a timeline. `kind` is claim or device (a change of state), node (its deletion), decision (one without a change
    of state), rest (facts since the last entry) or folded (one entry for many similar ones).

    at: the instant; position: of its fact in the log; name, uid: of the claim or device; source, target: the states ("New" before
    the first); after: microseconds spent in `source`, None from New; cause: the reason in this case, or the decision; meaning:
    the sentence of the lifecycle table; notes: the facts that led to it and the decisions, in order.
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


# -- names and words ---------------------------------------------------------------------------------------------------

Row = Any
"""What a fact is about: an object of the cluster, or an answer of the fabric."""
Pair = tuple[Row | None, Row | None]
"""The row before and after a fact. None: it does not exist."""

UNCHANGED: Pair = (None, None)

Words = Callable[[Any, Any, Any], Iterator[str]]
"""Makes the sentences of a change from the row before (None: it did not exist), the row after, and the names (`Known`)."""


def fact_words(fact: Event, pair: Pair, known: Known) -> list[str]:
    """The sentences of a fact: for an object one sentence for each difference. Empty when nothing that a rule reads changed."""
    before, now = pair
    row = now if now is not None else before
    if row is None:
        return [text] if (text := fact.words(known)) else []
    noun, tell = known.kinds.get(type(row), ("", None))
    if tell is None:
        return []
    return list(tell(before, row, known)) if now is not None else [f"{noun} {known.name_of(row)} is gone"]


def decision_words(decision: Decision, known: Known) -> str:
    """One sentence: "dds would …" for mode observe; "dds decided again to …" for a decision repeated after a restart."""
    if decision.mode == "observe":
        return f"dds would {decision.words(known)}"
    return f"dds decided {'again ' if decision.reissued else ''}to {decision.words(known)}"


def event_words(event: Event, known: Known) -> str:
    """One line for an event of any kind; a fact is folded into `known`. Empty for a checkpoint."""
    if isinstance(event, Decision):
        return decision_words(event, known)
    if isinstance(event, Transition):
        life: Any = event
        step = f"{life.source or 'New'} → {life.target}" if life.source != life.target else f"stays {life.target}"
        what = f"{type(event).__name__.removesuffix('Moved').lower()} {known.called(event.subject)}: {step}"
        return f"{what}, {life.cause}" if life.cause else what
    fact: Any = event
    words = "; ".join(fact_words(event, known.learn(event), known))
    if words or type(event) not in KIND_OF:
        return words
    changed = [name for name in fact.changes.__struct_fields__ if getattr(fact.changes, name) is not UNSET]
    return f"{known.name(event.subject)}: {', '.join(changed) or 'seen'}"


def _asked(request: ClaimRequest) -> str:
    if not request.alternatives:
        return f"{request.count} of {' or '.join(request.classes)}"
    counts = {"all" if one.all else str(one.count) for one in request.alternatives}
    if len(counts) == 1:
        return f"{counts.pop()} of {' or '.join(one.device_class for one in request.alternatives)}"
    return " or ".join(f"{'all' if one.all else one.count} of {one.device_class}" for one in request.alternatives)


def _claim(before: Claim | None, claim: Claim, known: Known) -> Iterator[str]:
    name = f"claim {known.name_of(claim)}"
    if before is None:
        wanted = ", ".join(map(_asked, claim.requests))
        yield f"{name} asks for {wanted}" if wanted else f"{name} is there"
    old = before if before is not None else Claim(uid=claim.uid)
    if claim.allocation != old.allocation:
        yield f"{name}: {_allocation(claim.allocation)}"
    if claim.consumers != old.consumers:
        users = ", ".join(f"{c.resource.removesuffix('s')} {c.name or known.name(c.uid)}" for c in claim.consumers)
        yield f"{name}: reserved for {users}" if users else f"{name}: reserved for nobody any more"
    yield from (f"{name}: {text}" for text in _conditions(old.conditions, claim.conditions))
    if claim.deleting and not old.deleting:
        yield f"{name} is being deleted"


def _allocation(allocation: Allocation | None) -> str:
    if allocation is None:
        return "its allocation was cleared"
    devices = ", ".join(
        f"{r.device} of pool {r.pool}" + (f" ({_amounts(r.consumed)})" if r.consumed else "")
        for r in allocation.results
    )
    return f"allocated {devices}" + (f" on {allocation.node}" if allocation.node else "")


def _amounts(consumed: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(consumed.items()))


def _conditions(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> Iterator[str]:
    def key(c: Condition) -> tuple[str, ...]:
        return (c.driver, c.pool, c.device, c.share, c.type)

    was = {key(c): c for c in old}
    for c in new:
        former = was.pop(key(c), None)
        if former is None or former.status != c.status or former.reason != c.reason:
            yield f"condition {c.type}={c.status} on {c.device}" + (f" ({c.reason})" if c.reason else "")
    for c in was.values():
        yield f"condition {c.type} on {c.device} was taken away"


def _resource(before: FabricResource | None, row: FabricResource, known: Known) -> Iterator[str]:
    name = f"resource {row.name}"
    old = before if before is not None else FabricResource(uid=row.uid)
    if before is None:
        yield f"{name} was made: one {row.model} for {row.node}, for request {row.request or '(none)'}"
    if row.uuid != old.uuid:
        yield f"{name} is device {row.uuid}" if row.uuid else f"{name} names no device any more"
    if row.state != old.state and row.state:
        yield f"{name} is {row.state}"
    if row.error != old.error:
        yield f"{name} reports: {row.error}" if row.error else f"{name} reports no error any more"
    if row.marked != old.marked:
        yield f"{name} is marked to be detached" if row.marked else f"{name} is no longer marked to be detached"
    if row.deleting and not old.deleting:
        yield f"{name} is being deleted"


def config_words(before: Row | None, config: Row, known: Known) -> Iterator[str]:
    """For the ConfigMap, of which each component keeps a record of its own."""
    models = ", ".join(model.model for model in config.models) or "no model"
    yield f"the ConfigMap knows {models}" + (f"; mode {config.mode}" if config.mode else "")


class Known:
    """The names of objects: a fold of the facts about objects, much lighter than the component's state.

    `objects` are the existing ones by uid, `gone` the names of deleted ones by uid. `states` has for each claim and device its
    state and the instant at which it began. `kinds` has the noun and the words for each class of objects, `tables` the tables of
    the component's state that hold objects. For `guards` and `deadlines` see `dds_core.events.Names`.
    """

    guards: ClassVar[bool] = True
    deadlines: ClassVar[Mapping[str, str]] = {}
    tables: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[dict[type[Any], tuple[str, Words]]] = {
        Claim: ("claim", _claim),
        FabricResource: ("resource", _resource),
    }

    def __init__(self) -> None:
        self.objects: MutableMapping[str, Row] = {}
        self.gone: dict[str, str] = {}
        self.states: dict[str, tuple[str, int]] = {}
        self._uuids: dict[str, str] = {}
        self._last: tuple[Event | None, Pair] = (None, UNCHANGED)

    def learn(self, fact: Event) -> Pair:
        """Fold a fact and return its row before and after. Several tellers may share this object: the same fact, given again
        directly afterwards, is folded once."""
        if fact is not self._last[0]:
            self._last = (fact, self._learnt(fact))
        return self._last[1]

    def changes(self, fact: Event) -> list[Pair]:
        """Fold a fact and return its row before and after; for a checkpoint, each row that it brings."""
        pair = self.learn(fact)
        return [(None, row) for row in self._rows()] if isinstance(fact, Checkpoint) else [pair]

    def _rows(self) -> Iterable[Row]:
        return list(self.objects.values())

    def begin(self, state: Any) -> None:
        """Begin in the middle of a log, such as where an archive was cut off: the state holds everything before."""
        for table in self.tables:
            for row in state.tables[table].rows.values():
                self._keep(row)

    def _learnt(self, fact: Event) -> Pair:
        if type(fact) not in KIND_OF:
            return UNCHANGED
        change: Any = fact
        before = self.objects.get(change.uid)
        if not hasattr(change, "changes"):
            if before is not None:
                self.gone[change.uid] = self.name_of(before)
                del self.objects[change.uid]
            return before, None
        now = after(before, change)
        self._keep(now)
        return before, now

    def _keep(self, row: Row) -> None:
        self.objects[row.uid] = row
        if isinstance(row, FabricResource) and row.uuid:
            self._uuids[row.uid] = row.uuid  # the resource loses its UUID during the detach

    def forget(self, most: int) -> None:
        """Keep only the newest `most` names of deleted objects."""
        for uid in list(self.gone)[: max(0, len(self.gone) - most)]:
            del self.gone[uid]
            self._uuids.pop(uid, None)

    @staticmethod
    def name_of(row: Row) -> str:
        name = getattr(row, "name", "") or getattr(row, "uid", "")
        namespace = getattr(row, "namespace", "")
        return f"{namespace}/{name}" if namespace else name

    def name(self, uid: str) -> str:
        """The name of an object or stream; the uid when the object was never seen."""
        row = self.objects.get(uid)
        return self.name_of(row) if row is not None else self.gone.get(uid) or spoken(uid)

    def called(self, uid: str) -> str:
        """The name for a change of state: the claim's name; for a resource its device's UUID, once known."""
        return self._uuids.get(uid) or self.name(uid)

    def claim_fields(self, uid: str) -> Mapping[str, Any]:
        return {"claim": self.name(uid)}

    def device_fields(self, uid: str) -> Mapping[str, Any]:
        return {"device": self.called(uid)}


# -- scope -------------------------------------------------------------------------------------------------------------

ABOUT_ALL = (Started, EventsLost, LogRepaired, Stale, Synced, PolicyChanged)
"""Facts that concern every subject."""


class Scope(Protocol):
    """Which events concern the subject. `gathers`: facts are kept until the next entry, instead of only for their own moment."""

    gathers: bool

    def fact(self, fact: Event, pair: Pair) -> bool: ...
    def decision(self, decision: Decision) -> bool: ...
    def transition(self, moved: Transition) -> bool:
        """Whether it is a transition of the subject itself."""


class Everything:
    """All claims and devices at once: each change of state with the fact that caused it."""

    gathers = False

    def fact(self, fact: Event, pair: Pair) -> bool:
        return True

    def decision(self, decision: Decision) -> bool:
        return True

    def transition(self, moved: Transition) -> bool:
        return True


def either(pair: Pair) -> Row | None:
    return pair[1] if pair[1] is not None else pair[0]


# -- tellers -----------------------------------------------------------------------------------------------------------

K = TypeVar("K", bound=Known)


class Teller(ABC, Generic[K]):
    """Makes the entries of a timeline from one moment after the other."""

    def __init__(self, known: K, scope: Scope) -> None:
        self._known = known
        self._scope = scope
        self._pending: list[Note] = []
        self._last = (0, 0)

    @property
    def known(self) -> K:
        return self._known

    def tell(self, moment: Moment) -> list[Entry]:
        """The entries of this moment; often there are none."""
        if not self._scope.gathers:
            self._pending = []
        entries = self._tell(moment)
        self._last = (moment.at, moment.position)
        return entries

    @abstractmethod
    def _tell(self, moment: Moment) -> list[Entry]: ...

    def rest(self) -> list[Entry]:
        """At the end: one entry with the facts since the last entry, if there are any."""
        if not self._pending or not self._scope.gathers:
            return []
        return [self._closed(Entry(*self._last, REST))]

    def _closed(self, entry: Entry) -> Entry:
        notes, self._pending = tuple(self._pending), []
        return entry._replace(notes=notes)


class DecisionTeller(Teller[K]):
    """Makes an entry of each decision, with the facts that came before it."""

    def _tell(self, moment: Moment) -> list[Entry]:
        fact = moment.fact
        if fact is not None:
            pair = self._known.learn(fact)
            if self._scope.fact(fact, pair):
                self._pending += [Note(moment.at, FACT, text) for text in fact_words(fact, pair, self._known)]
        decided = [one for one in moment.caused if isinstance(one, Decision) and self._scope.decision(one)]
        return [
            self._closed(Entry(moment.at, moment.position, DECISION, cause=decision_words(one, self._known)))
            for one in decided
        ]


def with_note(entry: Entry, note: Note) -> Entry:
    return entry._replace(notes=(*entry.notes, note))


# -- subjects ----------------------------------------------------------------------------------------------------------

_SHORTEST = 6


class Subject(NamedTuple):
    """What a timeline is about. `kind` is one of the component's, such as claim or pool. `name` is namespace/name, a UUID, or the
    name of a node or pool. `uids` are those of its claims, resources or nodes, or the pool's stream: several when objects of the
    same name followed one another, none for a device without a resource."""

    kind: str
    name: str
    uids: frozenset[str]


class NoSuchSubject(InputError):
    """The log has no object of this name."""


class AmbiguousSubject(InputError):
    """Several objects have this name."""


class Directory(ABC):
    """All subjects of a log, by all their names. A unique prefix of a name suffices, from six characters on."""

    kinds: ClassVar[str]
    advice: ClassVar[str]
    order: ClassVar[tuple[str, ...]] = ()
    """Kinds by priority: when subjects of several kinds have the same full name, the first kind wins. KIND/NAME selects
    another."""

    def __init__(self) -> None:
        self._names: dict[str, set[tuple[str, str]]] = {}
        self._uids: dict[tuple[str, str], set[str]] = {}

    @abstractmethod
    def read(self, told: Iterable[Moment]) -> Directory:
        """Take in the moments. Returns the directory itself."""

    def _add(self, thing: tuple[str, str], uid: str, *names: str) -> None:
        self._uids.setdefault(thing, set()).add(uid)
        for name in (thing[1], uid, *names):
            self._call(thing, name)

    def _call(self, thing: tuple[str, str], name: str) -> None:
        self._names.setdefault(name, set()).add(thing)

    def subjects(self) -> list[Subject]:
        """All subjects, sorted by kind and name."""
        return [
            self._subject(thing) for thing in sorted({thing for called in self._names.values() for thing in called})
        ]

    def find(self, text: str) -> Subject:
        """The subject with the name `text`. Raises NoSuchSubject or AmbiguousSubject, which list similar names."""
        things = self._things(text)
        if not things:
            near = self._near(text)
            fix = f"did you mean {', '.join(near)}?" if near else self._advice()
            raise NoSuchSubject(f"no {self.kinds} is called {text!r}", fix=fix)
        if len(things) > 1:
            listed = ", ".join(f"{kind} {name}" for kind, name in sorted(things)[:8])
            raise AmbiguousSubject(f"{text!r} may be {listed}", fix="give one of these in full, or a uid")
        return self._subject(things.pop())

    def _subject(self, thing: tuple[str, str]) -> Subject:
        return Subject(*thing, frozenset(self._uids.get(thing, ())))

    def _things(self, text: str) -> set[tuple[str, str]]:
        kind, _, rest = text.partition("/")
        wanted = {thing for thing in self._called(rest) if thing[0] == kind} if kind in self.order and rest else set()
        found = wanted or self._called(text)
        full = {thing for thing in found if thing[1] == text} or found
        if self.order and len({name for _, name in full}) == 1:
            return {min(full, key=lambda thing: self.order.index(thing[0]))}
        return found

    def _called(self, text: str) -> set[tuple[str, str]]:
        found = set(self._names.get(text, ()))
        if not found and len(text) >= _SHORTEST:
            found = {thing for name, things in self._names.items() if name.startswith(text) for thing in things}
        return found

    def _near(self, text: str) -> list[str]:
        """Full names that are spelled similarly or contain the text."""
        near = get_close_matches(text, sorted(self._names), n=5, cutoff=0.6)
        near += sorted(name for name in self._names if text and text in name)[:5]
        return list(dict.fromkeys(full for name in near for _, full in sorted(self._names[name])))[:5]

    def _advice(self) -> str:
        if not self._names:
            return "nothing was recorded there"
        return self.advice


# -- telling -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Telling:
    """What a component brings for its timelines. `names` are the types of events that the directory reads; `naming` filters out
    rows of them that hold no name. `teller` makes a teller for a subject, or for all (None), that starts with the given state, if
    any."""

    names: frozenset[str]
    naming: Callable[[Iterable[LeanEvent]], Iterable[LeanEvent]]
    directory: Callable[[], Directory]
    teller: Callable[[Subject | None, Any], Teller[Any]]

    def timeline(
        self, told: Iterable[Moment], subject: Subject | None = None, teller: Teller[Any] | None = None
    ) -> Iterator[Entry]:
        """The entries of a subject, or of all, in the order of their instants."""
        teller = teller if teller is not None else self.teller(subject, None)
        for moment in told:
            yield from teller.tell(moment)
        yield from teller.rest()
