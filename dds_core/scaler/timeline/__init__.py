"""Timelines of the scaler: each step of a claim's or a device's life, with what led to it and who did it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dds_core.events import KIND_OF, Decision, Event, Fact, Transition
from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE
from dds_core.log.envelope import LeanEvent
from dds_core.model import Allocation, AttachRequest, Claim, FabricResource, Node, Pod
from dds_core.scaler import events as e
from dds_core.scaler.state import State
from dds_core.scaler.timeline.scope import ClaimScope, DeviceScope, scope_of
from dds_core.scaler.timeline.words import CONDITION, DDS, OTHERS, Known
from dds_core.timeline import telling
from dds_core.timeline.telling import (
    ACT,
    DECISION,
    ERASED,
    FACT,
    NODE,
    UNCHANGED,
    Entry,
    Everything,
    Moment,
    Note,
    Pair,
    Row,
    Scope,
    Subject,
    Telling,
    decision_words,
    fact_words,
    with_note,
)

# -- who did it --------------------------------------------------------------------------------------------------------

# Conditions, requests and marks are what a scaler writes. A change of one that a live decision of dds asked for is dds's own; any
# other, and in mode observe every one, is another client's.

_SCALERS = ("FabricDevice",)


class Acts:
    """Remembers dds's live decisions by the object that they are about, until that object is gone."""

    def __init__(self) -> None:
        self._wanted: dict[str, set[tuple[str, str]]] = {}

    def decided(self, decision: Decision) -> None:
        """Remember what will show that the decision was carried out."""
        if getattr(decision, "mode", "") == "observe":
            return
        for of, what, value in decision.seen_by():
            self._wanted.setdefault(of, set()).add((what, value))

    def is_act(self, fact: Event, pair: Pair) -> bool:
        """Whether the fact shows that another client did a scaler's work."""
        before, after = pair
        match after:
            case AttachRequest():
                old = before.size if isinstance(before, AttachRequest) else None
                return after.size != old and not self._ours(after.name, "size", str(after.size))
            case Claim():
                return any(not self._ours(after.uid, "condition", name) for name in set_anew(before, after))
            case FabricResource():
                marked = before.marked if isinstance(before, FabricResource) else False
                return after.marked != marked and not self._ours(after.uid, "mark", str(after.marked))
            case None if before is not None:
                self._wanted.pop(before.name if isinstance(before, AttachRequest) else getattr(before, "uid", ""), None)
        return False

    def _ours(self, of: str, what: str, value: str) -> bool:
        return (what, value) in self._wanted.get(of, ())


def set_anew(before: object, after: Claim) -> set[str]:
    """The conditions of a scaler that have become True."""
    old = before.conditions if isinstance(before, Claim) else ()
    was = {(c.driver, c.pool, c.device, c.share, c.type) for c in old if c.status == "True"}
    return {
        c.type
        for c in after.conditions
        if c.status == "True"
        and c.type.startswith(_SCALERS)
        and (c.driver, c.pool, c.device, c.share, c.type) not in was
    }


# -- teller ------------------------------------------------------------------------------------------------------------


class Heard:
    """One event of a moment. `event`: None if it was erased. Of a fact, `pair` is what it is about before and after, and `act`
    says whether another client did a scaler's work; of a transition, `after` is the time spent in the state before."""

    __slots__ = ("_known", "_taken", "_words", "act", "after", "event", "pair")

    def __init__(
        self, event: Event | None, known: Known, pair: Pair = UNCHANGED, act: bool = False, after: int | None = None
    ) -> None:
        self.event, self.pair, self.act, self.after = event, pair, act, after
        self._known = known
        self._words: list[str] | None = None
        self._taken: str | None = None

    def words(self, fact: Event) -> list[str]:
        """The sentences of the fact; to be called before the next event is learned."""
        if self._words is None:
            self._words = fact_words(fact, self.pair, self._known)
        return self._words

    def taken(self) -> str:
        """Of a deleted node the claims and devices that were on it, with their states; "" without any. To be called before the
        next event is learned."""
        if self._taken is None:
            gone = self.pair[0]
            self._taken = _on_node(gone.name, self._known) if isinstance(gone, Node) else ""
        return self._taken


def _on_node(node: str, known: Known) -> str:
    here: dict[str, list[str]] = {"claim": [], "device": []}
    for uid, row in known.objects.items():
        match row:
            case Claim(allocation=Allocation() as allocation) if allocation.node == node and not row.ours:
                kind = "claim"
            case FabricResource() if row.node == node:
                kind = "device"
            case _:
                continue
        state = known.states.get(uid, ("", 0))[0]
        here[kind].append(f"{known.called(uid)} ({state})" if state else known.called(uid))
    told = [
        f"{kind if len(names) == 1 else kind + 's'} {', '.join(sorted(names))}" for kind, names in here.items() if names
    ]
    return " and ".join(told)


class Learning:
    """What is known of a log so far; tellers of the same moments share one."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._acts = Acts()

    def events(self, moment: Moment) -> Iterator[Heard]:
        """The events of the moment, each learned before it is yielded."""
        if moment.fact is not None:
            pair = self.known.learn(moment.fact)
            yield Heard(moment.fact, self.known, pair, self._acts.is_act(moment.fact, pair))
        if moment.erased:
            yield Heard(None, self.known)
        for event in moment.caused:
            if isinstance(event, Decision):
                self._acts.decided(event)
            after = self._moved(event, moment.at) if isinstance(event, Transition) else None
            yield Heard(event, self.known, after=after)

    def _moved(self, event: Transition, at: int) -> int | None:
        """Note the state that a life is in now; returns the time spent in the state before."""
        states = self.known.states
        state, since = states.get(event.subject, ("", at))
        target = getattr(event, "target", "")
        if target in ("Gone", ""):
            states.pop(event.subject, None)
        elif state != target or getattr(event, "trigger", "").startswith("allocated"):
            states[event.subject] = (target, at)
        return at - since if state else None


def concerns(scope: Scope, heard: Heard, moment: Moment) -> bool:
    """Whether an event of the moment belongs to the scope; one that was erased may belong to any."""
    event = heard.event
    if event is not None and event is moment.fact:
        return scope.fact(event, heard.pair)
    if isinstance(event, Transition):
        return scope.transition(event)
    return not isinstance(event, Decision) or scope.decision(event)


_OF_ALL = (None, Node, Pod)
"""Kinds of objects of which a fact may belong to any claim; None for facts about no object."""
_NOT_OF_DEVICES = (e.PodObserved, e.PodGone, e.ClaimMoved)
"""Events that belong to no device."""


class Scopes:
    """Many scopes, asked about each event as if one by one. Most events are about other objects: of them a claim's scope is asked
    only while its claim waits."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self._scopes = scopes
        self._living: set[int] = set()
        self._awake: set[int] = set()
        self._hearing: dict[type[Event], set[int]] = {}
        self._of_claim: dict[str, set[int]] = {}
        for place, scope in enumerate(scopes):
            for uid in scope.uids if isinstance(scope, ClaimScope) else ():
                self._of_claim.setdefault(uid, set()).add(place)

    def live(self, places: Iterable[int]) -> None:
        """Ask only the scopes at these places from now on."""
        self._living = set(places)
        self._awake = {one for one in self._living if not self._rests(one)}
        self._hearing.clear()

    def concerned(self, heard: Heard, moment: Moment) -> list[int]:
        """The places of the scopes that the event belongs to."""
        found = [one for one in self._asked(heard.event) if concerns(self._scopes[one], heard, moment)]
        if isinstance(heard.event, Transition) and any(self._rests(one) == (one in self._awake) for one in found):
            self.live(self._living)
        return found

    def _rests(self, place: int) -> bool:
        scope = self._scopes[place]
        return isinstance(scope, ClaimScope) and not scope.waits

    def _asked(self, event: Event | None) -> set[int]:
        if event is None:
            return self._living
        kind = type(event)
        if kind not in self._hearing:
            some = self._living if KIND_OF.get(kind) in _OF_ALL and isinstance(event, Fact) else self._awake
            devices = isinstance(event, _NOT_OF_DEVICES)
            self._hearing[kind] = {one for one in some if not (devices and isinstance(self._scopes[one], DeviceScope))}
        hearing = self._hearing[kind]
        named = event.for_claims() if isinstance(event, Decision) else (event.subject,)
        claims = [one for uid in named if (one := self._of_claim.get(uid))]
        return hearing.union(*claims) & self._living if claims else hearing


class Teller(telling.Teller[Known]):
    """Its entries are steps of claims and devices, deletions of nodes, and decisions that no step came with."""

    def __init__(self, learning: Learning, scope: Scope) -> None:
        super().__init__(learning.known, scope)
        self._learning = learning
        self._entries: list[Entry] = []

    def _tell(self, moment: Moment) -> list[Entry]:
        for heard in self._learning.events(moment):
            if concerns(self._scope, heard, moment):
                self.take(heard, moment)
        return self.heard(moment)

    def take(self, heard: Heard, moment: Moment) -> None:
        """Take in one event of the moment, which belongs to the scope."""
        event = heard.event
        if event is None:
            many = "1 event was" if moment.erased == 1 else f"{moment.erased} events were"
            self._pending.append(Note(moment.at, ERASED, f"{many} erased, of the group at position {moment.position}"))
        elif event is moment.fact:
            if isinstance(event, e.NodeGone) and (heard.taken() or self._scope.gathers):
                self._entries.append(self._closed(self._deletion(heard, moment)))
                return
            kind = ACT if heard.act else FACT
            self._pending += [Note(moment.at, kind, text) for text in heard.words(event)]
        elif isinstance(event, Transition):
            self._entries.append(self._closed(self._entry(event, moment, heard.after)))
        elif isinstance(event, Decision):
            self._note(Note(moment.at, DECISION, decision_words(event, self._known)))

    def rest_until(self, last: Moment | None) -> list[Entry]:
        """The entries of what was heard since the last step; `last` is the log's last moment."""
        self._last = (last.at, last.position) if last is not None else self._last
        return self.rest()

    def _note(self, note: Note) -> None:
        if self._entries:
            self._entries[-1] = with_note(self._entries[-1], note)
        else:
            self._pending.append(note)

    def heard(self, moment: Moment) -> list[Entry]:
        """The entries of a moment, once all its events were heard."""
        entries, self._entries = self._entries, []
        return entries or self._decided(moment)

    def _decided(self, moment: Moment) -> list[Entry]:
        """The entry of a decision that no step came with."""
        first = next((note for note in self._pending if note.kind == DECISION), None)
        if first is None:
            return []
        self._pending.remove(first)
        return [self._closed(Entry(moment.at, moment.position, DECISION, cause=first.text))]

    def _deletion(self, heard: Heard, moment: Moment) -> Entry:
        """The entry of a deleted node."""
        node = heard.pair[0]
        name = node.name if isinstance(node, Node) else ""
        cause = f"took along {heard.taken()}" if heard.taken() else "no claim or device was on it"
        uid = getattr(heard.event, "uid", "")
        return Entry(moment.at, moment.position, NODE, name, uid, source="Registered", target="Deleted", cause=cause)

    def _entry(self, event: Transition, moment: Moment, after: int | None) -> Entry:
        assert isinstance(event, e.ClaimMoved | e.DeviceMoved)
        kind = "claim" if isinstance(event, e.ClaimMoved) else "device"
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
            cause=f"{self._setter()}{event.cause}" if event.cause.startswith(CONDITION) else event.cause,
            meaning=_MEANINGS.get((kind, event.trigger, event.source, event.target), ""),
        )

    def _setter(self) -> str:
        """Who set the condition that leads to this step: "another client set "; "" if that is not known."""
        kinds = {note.kind for note in self._pending if CONDITION in note.text}
        return f"{OTHERS} set " if ACT in kinds else f"{DDS} set " if FACT in kinds else ""


_MEANINGS = {
    (kind, edge.trigger, edge.source, edge.target): edge.sentence
    for kind, table in (("claim", CLAIM_TABLE), ("device", DEVICE_TABLE))
    for edge in table
}


# -- subjects ----------------------------------------------------------------------------------------------------------

_AT_FIRST = (e.ClaimObserved, e.FabricResourceObserved, e.NodeObserved, e.PodObserved, e.AttachRequestObserved)
_NAMED_AT_FIRST = frozenset(kind.__name__ for kind in _AT_FIRST)
NAMING = _NAMED_AT_FIRST | {
    kind.__name__ for kind in (e.Checkpoint, e.ConfigObserved, e.PolicyChanged, e.SliceObserved)
}
"""The types of events that hold names: only these have to be read to find a subject."""

_NAMES = (b'"name":', b'"uuid":', b'"claims":', b'"extended_claim":', b'"labels":')


def naming(rows: Iterable[LeanEvent]) -> Iterator[LeanEvent]:
    """The rows of these types that can hold a name, or did before they were erased: most later changes hold none, and need not be
    decoded."""
    for row in rows:
        data = row.data
        if data is None or row.type not in _NAMED_AT_FIRST or any(word in data for word in _NAMES):
            yield row


class Directory(telling.Directory):
    """Every claim, device and node that was ever seen, by all their names: a claim by namespace/name, name or uid, a device by
    UUID or by name or uid of its resource, a node by name or uid. Also what stands for several: a pod for its claims (and for
    itself, if it waited for an extended resource), a request for the devices that it brought, a model or a fabric for its
    devices."""

    kinds = "claim, device, node, pod, request, model or fabric"
    advice = (
        "give namespace/name of a claim or pod, a UUID or resource of a device, a node, a request, a model or a fabric"
    )
    order = ("claim", "device", "node", "pod", "request", "model", "fabric")

    def __init__(self) -> None:
        super().__init__()
        self._resources: dict[str, FabricResource] = {}
        self._pods: dict[
            str, tuple[Pod, set[str]]
        ] = {}  # with the names of all its claims: one that was made for it may go
        self._asking: set[str] = set()
        self._claims: dict[tuple[str, str], set[str]] = {}
        self._known = Known()

    def read(self, told: Iterable[Moment]) -> Directory:
        """Take in these moments; returns itself."""
        for moment in told:
            if moment.fact is not None:
                for _, row in self._known.changes(moment.fact):
                    self._take(row)
        for uid, resource in self._resources.items():
            self._add(("device", self._known.called(uid)), uid, resource.name)
            self._stands_for(("request", resource.request), uid)
            self._stands_for(("model", resource.model), uid)
            self._stands_for(("fabric", self._known.fabric_of(resource.node)), uid)
        for uuid in self._known.uuid_at.values():
            self._call(("device", uuid), uuid)
        for model in self._known.config.models:
            self._call(("model", model.model), model.model)
        for pod, claims in self._pods.values():
            name = ("pod", f"{pod.namespace}/{pod.name}")
            for text in (name[1], pod.name, pod.uid):
                self._call(name, text)
            if pod.uid in self._asking:
                self._stands_for(name, pod.uid)
            for claim in claims:
                for uid in self._claims.get((pod.namespace, claim), ()):
                    self._stands_for(name, uid)
        return self

    def _take(self, row: Row | None) -> None:
        match row:
            case Claim():
                self._add(("claim", f"{row.namespace}/{row.name}"), row.uid, row.name)
                self._claims.setdefault((row.namespace, row.name), set()).add(row.uid)
            case FabricResource():
                self._resources[row.uid] = row
            case Node():
                self._add(("node", row.name), row.uid)
            case Pod():
                claims = self._pods[row.uid][1] if row.uid in self._pods else set()
                self._pods[row.uid] = (row, claims | {*row.claims, row.extended_claim})
                if row.extended_resources:
                    self._asking.add(row.uid)
            case AttachRequest():
                self._add(("request", row.name), row.uid)

    def _stands_for(self, thing: tuple[str, str], uid: str) -> None:
        """Add a device or claim of something that has a name of its own."""
        if thing[1]:
            self._uids.setdefault(thing, set()).add(uid)
            self._call(thing, thing[1])


def _teller(subject: Subject | None, state: State | None) -> Teller:
    known = Known()
    if state is not None:
        known.begin(state)
    return Teller(Learning(known), scope_of(subject, known) if subject is not None else Everything())


TOLD = Telling(NAMING, naming, Directory, _teller)
"""How the scaler's log is told."""

timeline = TOLD.timeline


def timelines(
    told: Iterable[Moment], subjects: Sequence[Subject], lives: Sequence[tuple[int, int]] | None = None
) -> list[list[Entry]]:
    """The timelines of many subjects (as `timeline` makes them) in one pass. `lives`: the first and the last instant of
    each subject's entries. Without it every subject is offered every event of the log, which takes long for many."""
    learning = Learning(Known())
    asked = [scope_of(subject, learning.known) for subject in subjects]
    scopes, tellers = Scopes(asked), [Teller(learning, scope) for scope in asked]
    found: list[list[Entry]] = [[] for _ in subjects]
    spans = lives if lives is not None else [_ALWAYS] * len(subjects)
    coming = sorted(zip(spans, range(len(subjects)), strict=True), reverse=True)
    living: list[int] = []
    ends = _ALWAYS[1]
    moment: Moment | None = None
    for moment in told:
        if moment.at > ends or (coming and coming[-1][0][0] <= moment.at):
            living = [one for one in living if spans[one][1] >= moment.at]
            while coming and coming[-1][0][0] <= moment.at:
                living.append(coming.pop()[1])
            ends = min((spans[one][1] for one in living), default=_ALWAYS[1])
            scopes.live(living)
        taking: set[int] = set()
        for heard in learning.events(moment):
            for place in scopes.concerned(heard, moment):
                taking.add(place)
                tellers[place].take(heard, moment)
        for one in taking:
            found[one] += tellers[one].heard(moment)
    for entries, teller in zip(found, tellers, strict=True):
        entries += teller.rest_until(moment)
    return found


_ALWAYS = (0, 1 << 63)
