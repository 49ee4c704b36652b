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
from dds_core.kit.invariants import NONE
from dds_core.kit.policy import MICROSECONDS, PositiveSeconds, Seconds, Strict, read
from dds_core.kit.state import Form, Remembered, Table
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


class Waiting(Remembered[Any]):
    """Every claim, and since when those without a device wait (microseconds)."""

    claims: Table[str, Claim]
    since: Table[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.dirty = PatiencePolicy(), Dirty()
        self._observe({Claim: self.claims})
        self.since.watch(lambda uid, old, new: self.dirty.claims.add(uid))

    @property
    def mode(self) -> str:
        return str(self.policy.mode)

    @property
    def live(self) -> bool:
        return self.mode == "tell"


# -- apply: what is known ----------------------------------------------------------------------------------------------


def _observed(picture: Waiting, event: Any, at: int) -> None:
    work.observed(picture, event, at)
    if picture.claims.rows[event.uid].allocation is not None:
        _served(picture, event.uid)
    elif event.uid not in picture.since:
        picture.since.put(event.uid, at)


def _gone(picture: Waiting, event: Any, at: int) -> None:
    work.gone(picture, event, at)
    _served(picture, event.uid)


def _served(picture: Waiting, uid: str) -> None:
    picture.since.drop(uid)
    picture.passed.drop(("patience", uid))
    work.forget_words(picture, uid)


def _policy(picture: Waiting, event: PolicyChanged, at: int) -> None:
    picture.policy, picture.dirty.everything = _read(event.policy), True


def _synced(picture: Waiting, event: Synced, at: int) -> None:
    work.synced(picture, at, lambda picture, at: ())
    picture.dirty.everything = True


def _passed(picture: Waiting, event: DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    picture.dirty.claims.add(event.of)


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


def decide(picture: Waiting, at: int, *, keep: bool = False) -> work.Work[Waiting]:
    return work.Work(picture, at, apply, chained=False).decide(_run, keep)


def _run(work: work.Work[Waiting]) -> None:
    picture = work.picture
    dirty = picture.dirty.take()
    work.touched.add(dirty)
    if picture.synced:
        for uid in sorted(picture.since if dirty.everything else dirty.claims):
            work.guarded("patience.tell", _tell, uid)
        work.touched.add(picture.dirty.take())


def _tell(work: work.Work[Waiting], uid: str) -> None:
    if uid in work.picture.since and work.has_come(_due(work.picture, uid)):
        claim, seconds = work.picture.claims.rows[uid], work.picture.policy.patience_seconds
        work.alert(uid, "WaitsLong", f"claim {claim.namespace}/{claim.name} waits for a device since {seconds} s")


def _due(picture: Waiting, uid: str) -> int:
    return int(picture.since.rows[uid] + picture.policy.patience_seconds * MICROSECONDS)


class Agenda(kit.Agenda[Waiting]):
    @classmethod
    def found(cls, picture: Waiting) -> Iterator[Deadline]:
        for uid in picture.since:
            yield Deadline(_due(picture, uid), "patience", uid)

    def look(self, touched: Dirty) -> None:
        for uid in touched.claims:
            waits = uid in self._picture.since
            due = [Deadline(_due(self._picture, uid), "patience", uid)] if waits else []
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


def _teller(subject: Subject | None, picture: Any) -> DecisionTeller[Known]:
    return DecisionTeller(Known(), OneClaim(subject) if subject is not None else Everything())


def _read(written: Mapping[str, Any]) -> PatiencePolicy:
    return read(PatiencePolicy, written)


_FORM = Form(Waiting, 1, _read)
PATIENCE: Component[Waiting] = Component(
    name="patience",
    fingerprint="1",
    projection=1,
    picture=Waiting,
    apply=apply,
    decide=decide,
    invariants=NONE,
    agenda=Agenda,
    dump=_FORM.dump,
    load=_FORM.load,
    same=_FORM.same,
    policy=_read,
    events=(*shared.EVENTS,),
    told=Telling(frozenset({ClaimObserved.__name__}), iter, Claims, _teller),
)
assert Alerted in PATIENCE.events
