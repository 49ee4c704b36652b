"""Replay: a log folded into a picture, verified against the rules, or decided again under another policy.

Works on envelopes in the order of their positions, wherever they were read from, and holds one group at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from dds_core.agenda import Agenda, Deadline
from dds_core.engine import Engine, Step, new_event
from dds_core.errors import DdsError, IllegalTransition, MalformedEvent, UnknownEvent
from dds_core.events import (
    SCHEMA_VERSION,
    TYPES,
    Checkpoint,
    DeadlinePassed,
    Event,
    Fact,
    PolicyChanged,
    Started,
    Superseded,
    WriteDone,
    WriteObsolete,
    WriteRefused,
    decode,
    encode,
)
from dds_core.fingerprint import FINGERPRINT
from dds_core.fold import apply
from dds_core.log.envelope import LOG_OPENED, Envelope, LeanEvent, NewEvent, event_id
from dds_core.log.upcast import Upcasts
from dds_core.picture import Picture
from dds_core.policy import Policy
from dds_core.rules import Caused, settle
from dds_core.snapshot import PROJECTION, dump, load

UPCASTS = Upcasts(dict.fromkeys(TYPES, SCHEMA_VERSION))

OPEN_LOOP = "open loop: the world did not follow from here on"
_OUTCOMES = (DeadlinePassed, WriteDone, WriteObsolete, WriteRefused, Superseded)


class LoggedGroup(NamedTuple):
    """A fact and what it caused, as stored. `events` is None for an event whose data was redacted."""

    envelopes: list[Envelope]
    events: list[Event | None]

    @property
    def position(self) -> int:
        return self.envelopes[0].position

    @property
    def at(self) -> int:
        return self.envelopes[0].occurred_at


def event_of(row: Envelope | LeanEvent) -> Event | None:
    """The event of a stored row, brought to the current schema version; None when its data was redacted.

    Raises UnknownEvent, naming the position, for a type or a projection that this version does not know, and
    MalformedEvent for data that is not of the form of its type.
    """
    if row.data is None:
        return None
    where = f"position {row.position}"
    try:
        event = _decoded(row, row.data)
    except KeyError:
        raise UnknownEvent(f"type {row.type!r} is not known", where=where, fix=_NEWER) from None
    except msgspec.ValidationError as error:
        raise MalformedEvent(f"{row.type} is not of its form: {error}", where=where, fix=_CHANGED) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedEvent(f"{row.type} holds no JSON: {error}", where=where, fix=_CHANGED) from None
    if isinstance(event, Checkpoint) and event.projection != PROJECTION:
        what = f"the checkpoint holds projection {event.projection}, this version knows {PROJECTION}"
        raise UnknownEvent(what, where=where, fix=_NEWER)
    return event


_NEWER = "use the version of dds that wrote it, or a newer one"
_CHANGED = "it was changed; compare with an export or archive made before"


def _decoded(row: Envelope | LeanEvent, data: bytes) -> Event:
    if row.schema_version == SCHEMA_VERSION:
        return decode(row.type, data)
    return decode(row.type, msgspec.json.encode(UPCASTS.decoded(row.type, row.schema_version, data)))


def groups(rows: Iterable[Envelope]) -> Iterator[LoggedGroup]:
    """The groups of a log; the opening event is left out."""
    current: list[Envelope] = []
    for row in rows:
        if current and (row.epoch, row.group) != (current[0].epoch, current[0].group):
            yield LoggedGroup(current, [event_of(e) for e in current])
            current = []
        if row.type != LOG_OPENED:
            current.append(row)
    if current:
        yield LoggedGroup(current, [event_of(e) for e in current])


def fold_log(rows: Iterable[Envelope] | Iterable[LeanEvent], picture: Picture | None = None) -> Picture:
    """The picture that a log amounts to: `apply` and nothing else. It may start with a checkpoint. Redacted events are
    passed over."""
    result = picture if picture is not None else Picture()
    first = picture is None
    for row in rows:
        if row.type == LOG_OPENED:
            continue
        event = event_of(row)
        if event is None:
            continue
        if isinstance(event, Checkpoint):
            if first:
                result = load(event.picture)
        else:
            apply(result, event, row.occurred_at)
            result.dirty.clear()
        first = False
    result.dirty.clear()
    return result


# --- verify ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """At `position` the log holds something else than the rules say."""

    position: int
    expected: str
    found: str

    def __str__(self) -> str:
        return f"position {self.position}: expected {self.expected}, found {self.found}"


@dataclass(slots=True)
class VerifyReport:
    """What a verification saw. `unjudged` lists ranges (first, last position) that redaction keeps from being judged;
    `fingerprints` are those of the code that wrote the log."""

    events: int = 0
    groups: int = 0
    first: int = 0
    last: int = 0
    differences: list[Difference] = field(default_factory=list)
    unjudged: list[tuple[int, int]] = field(default_factory=list)
    fingerprints: list[str] = field(default_factory=list)
    other_code: bool = False

    @property
    def ok(self) -> bool:
        return not self.differences


def verify(rows: Iterable[Envelope], *, fingerprint: str = FINGERPRINT, at_most: int = 100) -> VerifyReport:
    """Walk the log, decide at each fact, compare byte for byte with what was recorded, and go on with what was recorded.

    Ids, recording times, salts and hashes are not compared (the chain is checked by `dds_core.log.verify_chain`). Deadlines
    are checked too: each must have been due, and none may be missing. Stops after `at_most` differences.
    """
    return Verification(fingerprint, at_most).run(groups(rows))


class Verification:
    """One walk. The picture is that of the recorded events, so one difference does not cascade."""

    def __init__(self, fingerprint: str, at_most: int) -> None:
        self.report = VerifyReport()
        self._fingerprint = fingerprint
        self._at_most = at_most
        self._picture = Picture()
        self._agenda = Agenda(self._picture)
        self._blind = False

    def run(self, logged: Iterable[LoggedGroup]) -> VerifyReport:
        for group in logged:
            self.take(group)
            if len(self.report.differences) >= self._at_most:
                break
        return self.report

    def take(self, group: LoggedGroup) -> None:
        report = self.report
        report.first = report.first or group.position
        report.last = group.envelopes[-1].position
        report.groups += 1
        report.events += len(group.envelopes)
        fact = group.events[0]
        if isinstance(fact, Checkpoint):
            self._checkpoint(group.position, fact)
            return
        if None in group.events:
            self._blind = True
        if self._blind:
            self._pass_over(group)
            return
        assert fact is not None
        if isinstance(fact, Started):
            report.fingerprints.append(fact.fingerprint)
            report.other_code = report.other_code or fact.fingerprint != self._fingerprint
        self._judge(group, fact)

    def _checkpoint(self, position: int, fact: Checkpoint) -> None:
        """A checkpoint must hold what the events before it amount to; the walk goes on from it."""
        try:
            found = load(fact.picture)
        except DdsError as error:
            self._differ(position, "a checkpoint that can be loaded", error.what)
            return
        if not self._blind and self.report.groups > 1 and dump(self._picture) != dump(found):
            self._differ(position, "a checkpoint of the picture so far", "a checkpoint of another picture")
        self._picture = found
        self._agenda = Agenda(found)
        self._blind = False

    def _pass_over(self, group: LoggedGroup) -> None:
        """After a redaction nothing can be judged until the next checkpoint; what can be folded is folded."""
        span = (group.position, group.envelopes[-1].position)
        unjudged = self.report.unjudged
        if unjudged and unjudged[-1][1] == span[0] - 1:
            unjudged[-1] = (unjudged[-1][0], span[1])
        else:
            unjudged.append(span)
        for row, event in zip(group.envelopes, group.events, strict=True):
            if event is not None:
                try:
                    apply(self._picture, event, row.occurred_at)
                except DdsError:
                    continue
        self._picture.dirty.clear()

    def _judge(self, group: LoggedGroup, fact: Event) -> None:
        picture, at = self._picture, group.at
        self._check_deadlines(group, fact)
        self._check_form(group.envelopes[0], fact)
        try:
            apply(picture, fact, at)
            with picture.trial():
                work = settle(picture, at)
        except DdsError as error:
            self._differ(group.position, f"a {type(fact).__name__} that can be folded", error.what)
            picture.dirty.clear()
            return
        self._compare(group, work.emitted)
        for row, event in zip(group.envelopes[1:], group.events[1:], strict=True):
            assert event is not None
            try:
                apply(picture, event, row.occurred_at)
            except IllegalTransition as error:
                self._differ(row.position, "a transition of the lifecycle table", error.what)
        touched = picture.dirty.take()
        touched.add(work.touched)
        self._agenda.refresh(touched)

    def _check_deadlines(self, group: LoggedGroup, fact: Event) -> None:
        first = self._agenda.next()
        if isinstance(fact, DeadlinePassed):
            if first is None or fact.due > group.at or not self._agenda.has(Deadline(fact.due, fact.kind, fact.of)):
                self._differ(group.position, _said(first), f"deadline {fact.kind} of {fact.of}")
        elif first is not None and first.due < group.at and not isinstance(fact, (Started, PolicyChanged)):
            self._differ(group.position, _said(first), f"{type(fact).__name__} before it")

    def _check_form(self, row: Envelope, fact: Event) -> None:
        """A group starts with a fact, in its own stream and caused by nothing, no earlier than the last; it is stored in its
        one canonical form, and a policy as it was given."""
        if not isinstance(fact, Fact):
            self._differ(row.position, "a fact", f"{row.type} that no fact caused")
        elif row.correlation_id != row.event_id:
            self._differ(row.position, f"{row.type} correlated with itself", f"it correlated with {row.correlation_id}")
        if (row.stream, row.from_state, row.to_state, row.causation_id) != (fact.subject, None, None, None):
            self._differ(row.position, f"{row.type} in stream {fact.subject}", f"it in stream {row.stream}, as a step")
        if row.occurred_at < self._picture.now:
            self._differ(row.position, f"an instant from {self._picture.now} on", f"{row.type} at {row.occurred_at}")
        if row.schema_version == SCHEMA_VERSION and row.data != encode(fact):
            self._differ(row.position, f"{row.type} in its canonical form", _told(row))
        if isinstance(fact, PolicyChanged) and fact.digest != fact.digest_of_policy():
            self._differ(row.position, "a policy that fits its digest", "a policy that was changed")

    def _compare(self, group: LoggedGroup, expected: list[Caused]) -> None:
        head = group.envelopes[0]
        wanted = [new_event(event, group.at, cause) for event, cause in expected]
        found = group.envelopes[1:]
        for index in range(max(len(wanted), len(found))):
            row = found[index] if index < len(found) else None
            new = wanted[index] if index < len(wanted) else None
            if row is None or new is None or not _same(row, new, head):
                position = row.position if row is not None else group.envelopes[-1].position
                self._differ(position, _told(new), _told(row) if row is not None else "nothing")
                return

    def _differ(self, position: int, expected: str, found: str) -> None:
        self.report.differences.append(Difference(position, expected, found))


def _same(row: Envelope, new: NewEvent, head: Envelope) -> bool:
    if row.correlation_id != head.correlation_id:
        return False
    cause = event_id(head.log, head.epoch, head.group, new.cause or 0)
    return (
        row.type == new.type
        and row.stream == new.stream
        and row.data == new.data
        and row.from_state == new.from_state
        and row.to_state == new.to_state
        and row.occurred_at == new.occurred_at
        and row.causation_id == cause
    )


def _told(row: NewEvent | Envelope | None) -> str:
    if row is None:
        return "nothing"
    data = row.data.decode(errors="replace") if row.data is not None else "redacted"
    return f"{row.type} {data if len(data) <= 300 else data[:297] + '...'}"


def _said(deadline: Deadline | None) -> str:
    return f"deadline {deadline.kind} of {deadline.of} due at {deadline.due}" if deadline is not None else "no deadline"


# --- with another policy -----------------------------------------------------------------------------------------------


class Redecided(NamedTuple):
    """A step under another policy; `differs` once anything decided so far is not what was recorded."""

    step: Step
    differs: bool


def re_decide(rows: Iterable[Envelope], policy: Policy) -> Iterator[Redecided]:
    """Feed a log's facts to the rules under another policy. Recorded deadlines and outcomes are dropped, the virtual timer
    gives its own. From the first difference on the loop is open: the world did not follow."""
    engine = Engine()
    comparison = _Comparison()
    changed = PolicyChanged(policy=policy.model_dump(mode="json"))
    given = False
    for group in groups(rows):
        comparison.recorded(group)
        fact = group.events[0]
        if isinstance(fact, Checkpoint) and engine.picture.now == 0:
            engine = Engine(load(fact.picture))
            fact = None
        if isinstance(fact, PolicyChanged) or (fact is not None and not given and not isinstance(fact, Started)):
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
    """Whether two sequences of caused events, which come in turns, are alike so far."""

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
    "Redecided",
    "VerifyReport",
    "event_of",
    "fold_log",
    "groups",
    "re_decide",
    "verify",
]
