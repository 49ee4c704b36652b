"""Verification: compares a log, fact by fact, with what the rules decide. `dds_core.log.verify_chain` checks the hashes.

Rules change from one version to the next, so a log is judged in spans, by the code that wrote them: the decisions of the same
code (by the fingerprint in `Started`) have to be the same, those of other code are compared and the differences told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Generic

from dds_core.component import Component, P
from dds_core.engine import new_event
from dds_core.errors import DdsError, IllegalTransition
from dds_core.events import (
    SCHEMA_VERSION,
    Checkpoint,
    DeadlinePassed,
    Event,
    EventsLost,
    Fact,
    LogRepaired,
    PolicyChanged,
    Started,
    encode,
)
from dds_core.kit.deadlines import Deadline
from dds_core.kit.work import Broken, Caused, Work
from dds_core.log.chain import event_id
from dds_core.log.envelope import Envelope, NewEvent
from dds_core.replay.logged import LoggedGroup, groups

AT_MOST = 100
"""Differences after which a verification stops."""


@dataclass(frozen=True, slots=True)
class Difference:
    """At `position` the log holds `found`, but the rules say `expected`."""

    position: int
    expected: str
    found: str

    def __str__(self) -> str:
        return f"position {self.position}: expected {self.expected}, found {self.found}"


@dataclass(slots=True)
class Span:
    """What one version wrote, from position `first` to `last`: `code` is its version ("": unknown), `same` whether it decides by
    the rules that verify, and `differences` how many of its decisions these rules would not make."""

    first: int
    last: int
    code: str
    fingerprint: str
    same: bool
    differences: int = 0


@dataclass(slots=True)
class VerifyReport:
    """The result of a verification. `differences` are in spans of the same code, `told` in those of other code. `unjudged` are
    ranges (first and last position) that cannot be judged because of redaction, `repaired` are the repairs, which say what was
    passed over. `evaluators` name the CEL evaluators that the log was written with."""

    events: int = 0
    groups: int = 0
    first: int = 0
    last: int = 0
    spans: list[Span] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    told: list[Difference] = field(default_factory=list)
    unjudged: list[tuple[int, int]] = field(default_factory=list)
    repaired: list[LogRepaired] = field(default_factory=list)
    evaluators: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every decision of the same code is the one that the rules make."""
        return not self.differences


def verify(
    rows: Iterable[Envelope], component: Component[Any], *, fingerprint: str = "", at_most: int = AT_MOST
) -> VerifyReport:
    """Decide at each fact of the log, compare byte for byte with the recorded events, then fold the recorded events.

    Also checked: that each recorded deadline was due, that none is missing, and the component's invariants. Ids, recording times,
    salts and hashes are not compared. Stops after `at_most` differences, and tells so many of other code. `fingerprint` is by
    default that of the component. A log that begins with no `Started` and no checkpoint counts as written by the same code.
    """
    return Verification(component, fingerprint, at_most).run(groups(rows, component))


class Verification(Generic[P]):
    """One verification. Its state folds the recorded events, so one difference does not cause others."""

    def __init__(self, component: Component[P], fingerprint: str, at_most: int) -> None:
        self.report = VerifyReport()
        self._component = component
        self._fingerprint = fingerprint or component.fingerprint
        self._at_most = at_most
        self._state = component.state()
        self._deadline_queue = component.deadline_queue(self._state)
        self._blind = False
        self._broken: set[Broken] = set()
        self.differed = 0
        """Differences found so far, those of a part that was repaired later included."""

    def run(self, logged: Iterable[LoggedGroup]) -> VerifyReport:
        for group in logged:
            if len(self.report.differences) < self._at_most or isinstance(group.events[0], LogRepaired):
                self.take(group)
        return self.end()

    def end(self) -> VerifyReport:
        """The report, after the last group of the log."""
        if len(self.report.differences) < self._at_most and not self._blind and self._state.process.synced:
            self._break(self.report.last, self._component.invariants.everywhere(self._state))
        return self.report

    def begin(self, group: LoggedGroup, code: str, fingerprint: str) -> None:
        """Begin in the middle of a log, at the group of a checkpoint; `code` and `fingerprint` are of the span that it is in."""
        self.report.spans.append(
            Span(group.position, group.position, code, fingerprint, fingerprint == self._fingerprint)
        )
        self.take(group)

    def end_at(self, group: LoggedGroup, fact: Checkpoint) -> None:
        """End before a checkpoint that the next part of the log begins at, and counts: only compare it."""
        if self._blind or not self._is_dumped(group.envelopes[0], fact):
            self._loaded(group.position, fact, compared=self.report.groups > 0)

    @property
    def broken(self) -> set[Broken]:
        """The invariants that were found not to hold, or were known not to."""
        return self._broken

    def take(self, group: LoggedGroup) -> None:
        report = self.report
        report.first = report.first or group.position
        report.last = group.envelopes[-1].position
        report.groups += 1
        report.events += len(group.envelopes)
        fact = group.events[0]
        self._span(group.position, fact).last = report.last
        if isinstance(fact, Checkpoint):
            if report.groups == 1 or self._blind or not self._is_dumped(group.envelopes[0], fact):
                self._checkpoint(group.position, fact)
            return
        if isinstance(fact, LogRepaired):
            self._repaired(group.position, fact)
            return
        if None in group.events:
            self._blind = True
        if self._blind:
            self._pass_over(group)
            return
        assert fact is not None
        if isinstance(fact, Started):
            report.evaluators.append(fact.evaluator)
        self._judge(group, fact)

    def _span(self, position: int, fact: Event | None) -> Span:
        """The span that begins with this fact, or goes on."""
        spans = self.report.spans
        if isinstance(fact, Started) or (isinstance(fact, Checkpoint) and not spans):
            code, by = fact.code, fact.fingerprint
        elif spans:
            return spans[-1]
        else:
            code, by = "", self._fingerprint
        if not spans or (spans[-1].code, spans[-1].fingerprint) != (code, by):
            spans.append(Span(position, position, code, by, by == self._fingerprint))
            if self._state.process.synced:  # what is broken already is not this writer's fault
                self._broken.update(self._component.invariants.everywhere(self._state))
        return spans[-1]

    def _repaired(self, position: int, fact: LogRepaired) -> None:
        """What a repair passes over is not judged, nor is anything up to the checkpoint that follows it."""
        report, found = self.report, False
        for kept in (report.differences, report.told):
            for one in [one for one in kept if one.position >= fact.stops]:
                kept.remove(one)
                next(span for span in report.spans if one.position <= span.last).differences -= 1
                found = True
        if not found:
            self._differ(
                position, f"events from {fact.stops} on that cannot be folded", "a repair of what can be folded"
            )
        report.repaired.append(fact)
        self._blind = True

    def _checkpoint(self, position: int, fact: Checkpoint) -> None:
        """Compare a checkpoint with the state folded so far, then continue from the checkpoint."""
        found = self._loaded(position, fact, compared=self.report.groups > 1)
        if found is not None:
            self._state = found
            self._deadline_queue = self._component.deadline_queue(found)
            self._blind = False

    def _is_dumped(self, row: Envelope, fact: Checkpoint) -> bool:
        """Whether a checkpoint is the dump of the state so far, byte for byte: then it need not be loaded."""
        dumped = Checkpoint(self._component.projection, self._component.dump(self._state), fact.code, fact.fingerprint)
        return encode(dumped) == row.data

    def _loaded(self, position: int, fact: Checkpoint, *, compared: bool) -> P | None:
        """The state that a checkpoint holds, None if it cannot be loaded; `compared` with the state so far, if that is known."""
        try:
            found = self._component.load(fact.picture)
        except DdsError as error:
            self._differ(position, "a checkpoint that can be loaded", error.what)
            return None
        if compared and not self._blind and not self._component.same(self._state, found):
            self._differ(position, "a checkpoint of the state so far", "a checkpoint of another state")
        return found

    def _pass_over(self, group: LoggedGroup) -> None:
        """After a redacted event nothing can be judged until the next checkpoint. Readable events are folded as far as
        possible."""
        span = (group.position, group.envelopes[-1].position)
        unjudged = self.report.unjudged
        if unjudged and unjudged[-1][1] == span[0] - 1:
            unjudged[-1] = (unjudged[-1][0], span[1])
        else:
            unjudged.append(span)
        for row, event in zip(group.envelopes, group.events, strict=True):
            if event is not None:
                try:
                    self._component.apply(self._state, event, row.occurred_at)
                except Exception:
                    continue
        self._state.dirty.clear()

    def _judge(self, group: LoggedGroup, fact: Event) -> None:
        state, at = self._state, group.at
        difference: tuple[int, str, str] | None = None

        def agrees(work: Work[P]) -> bool:
            """Whether the rules decide what was recorded: then that is folded already, and no event broke an invariant."""
            nonlocal difference
            difference = _difference(group, work.emitted)
            return difference is None

        self._check_deadlines(group, fact)
        self._check_form(group.envelopes[0], fact)
        try:
            self._component.apply(state, fact, at)
            work = self._component.decide(state, at, keep=agrees)
        except Exception as error:  # events of other code may fit no state of this one
            self._differ(group.position, f"a {type(fact).__name__} that can be folded", _why(error))
            state.dirty.clear()
            return
        if difference is not None:
            self._differ(*difference)
            self._fold_recorded(group)
        events = [event for event in group.events if event is not None]
        self._break(group.envelopes[-1].position, self._component.invariants.after(state, events))
        touched = state.dirty.take()
        touched.add(work.touched)
        self._deadline_queue.refresh(touched)

    def _fold_recorded(self, group: LoggedGroup) -> None:
        """Fold the recorded events, since the rules decided others."""
        state = self._state
        for row, event in zip(group.envelopes[1:], group.events[1:], strict=True):
            assert event is not None
            self._break(row.position, self._component.invariants.against(state, event))
            try:
                self._component.apply(state, event, row.occurred_at)
            except Exception as error:
                wanted = "a transition of the lifecycle table" if isinstance(error, IllegalTransition) else "what folds"
                self._differ(row.position, wanted, _why(error))

    def _check_deadlines(self, group: LoggedGroup, fact: Event) -> None:
        first = self._deadline_queue.next()
        if isinstance(fact, DeadlinePassed):
            known = self._deadline_queue.has(Deadline(fact.due, fact.kind, fact.of))
            if first is None or not known or not first.due == fact.due <= group.at:
                self._differ(group.position, _said(first), f"deadline {fact.kind} of {fact.of}")
        elif first is not None and first.due < group.at and not isinstance(fact, (Started, EventsLost, PolicyChanged)):
            self._differ(group.position, _said(first), f"{type(fact).__name__} before it")

    def _check_form(self, row: Envelope, fact: Event) -> None:
        """A group starts with a fact in the fact's own stream, without a cause, not earlier than the fact before it, and in
        canonical JSON. The digest of a policy fits the policy."""
        if not isinstance(fact, Fact):
            self._differ(row.position, "a fact", f"{row.type} that no fact caused")
        elif row.correlation_id != row.event_id:
            self._differ(row.position, f"{row.type} correlated with itself", f"it correlated with {row.correlation_id}")
        if (row.stream, row.from_state, row.to_state, row.causation_id) != (fact.subject, None, None, None):
            self._differ(row.position, f"{row.type} in stream {fact.subject}", f"it in stream {row.stream}, as a step")
        if row.occurred_at < self._state.process.now:
            self._differ(
                row.position, f"an instant from {self._state.process.now} on", f"{row.type} at {row.occurred_at}"
            )
        if row.schema_version == SCHEMA_VERSION and row.data != encode(fact):
            self._differ(row.position, f"{row.type} in its canonical form", _told(row))
        if isinstance(fact, PolicyChanged) and fact.digest != fact.digest_of_policy():
            self._differ(row.position, "a policy that fits its digest", "a policy that was changed")

    def _break(self, position: int, broken: Iterable[Broken]) -> None:
        """Report invariants that do not hold, each of them once."""
        for one in broken:
            if one not in self._broken:
                self._broken.add(one)
                self._differ(position, f"that invariant {one.name} holds", one.text)

    def _differ(self, position: int, expected: str, found: str) -> None:
        span = self.report.spans[-1]
        span.differences += 1
        self.differed += 1
        kept = self.report.differences if span.same else self.report.told
        if len(kept) < self._at_most:
            kept.append(Difference(position, expected, found))


def _difference(group: LoggedGroup, expected: list[Caused]) -> tuple[int, str, str] | None:
    """The first recorded event that is not the decided one: its position, what is expected, what was found."""
    head = group.envelopes[0]
    wanted = [new_event(event, group.at, cause) for event, cause in expected]
    for row, new in zip_longest(group.envelopes[1:], wanted):
        if row is None or new is None or not _same(row, new, head):
            return (row or group.envelopes[-1]).position, _told(new), _told(row)
    return None


def _why(error: Exception) -> str:
    return error.what if isinstance(error, DdsError) else repr(error)


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
