"""A component of one's own: it tells a person of each claim that has waited for a device for too long.

It has a log of its own, `<cluster>/patience`, which `dds log verify`, `dds replay` and `dds timeline` read like those of dds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from dds_core.component import Component
from dds_core.events import (
    Alerted,
    ClaimGone,
    ClaimObserved,
    DeadlinePassed,
    Event,
    PolicyChanged,
    Synced,
    shared,
)
from dds_core.kit import deadlines as kit
from dds_core.kit import work
from dds_core.kit.deadlines import Deadline
from dds_core.kit.policy import MICROSECONDS, PositiveSeconds, Seconds, Strict, read
from dds_core.kit.state import Form, StateBase, Table
from dds_core.kit.work import NO_INVARIANTS
from dds_core.model import Claim
from dds_core.timeline.telling import (
    DecisionTeller,
    Directory,
    Everything,
    Known,
    Moment,
    Subject,
    Telling,
)


class PatiencePolicy(Strict):
    """What may be set."""

    mode: Literal["observe", "tell"] = "observe"
    patience_seconds: PositiveSeconds = 60
    scan_interval_seconds: Seconds = 0


class Dirty:
    """The claims to look at again."""

    def __init__(self) -> None:
        self.claims: set[str] = set()
        self.everything = False

    def __bool__(self) -> bool:
        return bool(self.claims or self.everything)

    def take(self) -> Dirty:
        taken = Dirty()
        taken.add(self)
        self.clear()
        return taken

    def add(self, other: Dirty) -> None:
        self.claims |= other.claims
        self.everything |= other.everything

    def clear(self) -> None:
        self.claims, self.everything = set(), False


class Waiting(StateBase[Any]):
    """Every claim, and since when those without a device wait (microseconds)."""

    claims: Table[str, Claim]
    since: Table[str, int]

    observed = {Claim: "claims"}

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.dirty = PatiencePolicy(), Dirty()
        self.since.watch(lambda uid, old, new: self.dirty.claims.add(uid))

    @property
    def mode(self) -> str:
        return str(self.policy.mode)

    @property
    def live(self) -> bool:
        return self.mode == "tell"


# -- apply: what is known ----------------------------------------------------------------------------------------------


def _observed(state: Waiting, event: Any, at: int) -> None:
    work.observed(state, event, at)
    if state.claims.rows[event.uid].allocation is not None:
        _served(state, event.uid)
    elif event.uid not in state.since:
        state.since.put(event.uid, at)


def _gone(state: Waiting, event: Any, at: int) -> None:
    work.gone(state, event, at)
    _served(state, event.uid)


def _served(state: Waiting, uid: str) -> None:
    state.since.drop(uid)
    state.notes.fired_deadlines.drop(("patience", uid))
    work.forget_words(state, uid)


def _policy(state: Waiting, event: PolicyChanged, at: int) -> None:
    state.policy, state.dirty.everything = _read(event.policy), True


def _synced(state: Waiting, event: Synced, at: int) -> None:
    work.synced(state, at, lambda state, at: ())
    state.dirty.everything = True


def _passed(state: Waiting, event: DeadlinePassed, at: int) -> None:
    state.notes.fired_deadlines.put((event.kind, event.of), event.due)
    state.dirty.claims.add(event.of)


apply = work.folding(
    {
        **work.FOLDS,
        ClaimObserved: _observed,
        ClaimGone: _gone,
        PolicyChanged: _policy,
        Synced: _synced,
        DeadlinePassed: _passed,
    }
)


# -- decide: what follows ----------------------------------------------------------------------------------------------


def decide(state: Waiting, at: int, *, keep: work.Keep[Waiting] = False) -> work.Work[Waiting]:
    return work.Work(state, at, apply, chained=False).decide(_run, keep)


def _run(work: work.Work[Waiting]) -> None:
    state = work.state
    dirty = state.dirty.take()
    work.touched.add(dirty)
    if state.process.synced:
        for uid in sorted(state.since if dirty.everything else dirty.claims):
            work.isolated("patience.tell", _tell, uid)
        work.touched.add(state.dirty.take())


def _tell(work: work.Work[Waiting], uid: str) -> None:
    if uid in work.state.since and work.has_come(_due(work.state, uid)):
        claim, seconds = work.state.claims.rows[uid], work.state.policy.patience_seconds
        work.alert(uid, "WaitsLong", f"claim {claim.namespace}/{claim.name} waits for a device since {seconds} s")


def _due(state: Waiting, uid: str) -> int:
    return int(state.since.rows[uid] + state.policy.patience_seconds * MICROSECONDS)


class DeadlineQueue(kit.DeadlineQueue[Waiting]):
    @classmethod
    def found(cls, state: Waiting) -> Iterator[Deadline]:
        for uid in state.since:
            yield Deadline(_due(state, uid), "patience", uid)

    def look(self, touched: Dirty) -> None:
        for uid in touched.claims:
            waits = uid in self._state.since
            due = [Deadline(_due(self._state, uid), "patience", uid)] if waits else []
            self._replace((("patience", uid),), due)


# -- how it is told, and all of it together ----------------------------------------------------------------------------


class Claims(Directory):
    kinds = "claim"
    advice = "give NAMESPACE/NAME of a claim"

    def read(self, told: Iterable[Moment]) -> Claims:
        known = Known()
        for moment in told:
            row = known.learn(moment.fact)[1] if moment.fact is not None else None
            if isinstance(row, Claim):
                self._add(("claim", f"{row.namespace}/{row.name}"), row.uid)
        return self


class OneClaim(Everything):
    """What is of the claim."""

    gathers = True

    def __init__(self, subject: Subject) -> None:
        self._uids = subject.uids

    def fact(self, fact: Event, pair: Any) -> bool:
        return fact.subject in self._uids

    def decision(self, decision: Event) -> bool:
        return decision.subject in self._uids


def _teller(subject: Subject | None, state: Any) -> DecisionTeller[Known]:
    return DecisionTeller(Known(), OneClaim(subject) if subject is not None else Everything())


def _read(written: Mapping[str, Any]) -> PatiencePolicy:
    return read(PatiencePolicy, written)


_FORM = Form(Waiting, 1, _read)
PATIENCE: Component[Waiting] = Component(
    name="patience",
    fingerprint="1",
    projection=1,
    state=Waiting,
    apply=apply,
    decide=decide,
    invariants=NO_INVARIANTS,
    deadline_queue=DeadlineQueue,
    dump=_FORM.dump,
    load=_FORM.load,
    same=_FORM.same,
    policy=_read,
    events=(*shared.EVENTS,),
    telling=Telling(frozenset({ClaimObserved.__name__}), iter, Claims, _teller),
)
assert Alerted in PATIENCE.events
