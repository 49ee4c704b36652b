"""The loop of a process, from "something arrived" to "these tasks may start": what arrives becomes facts, facts become groups,
groups are appended to the log, and only then are decisions handed on as tasks.

It has no clock and no threads, and sends nothing: instants are given (microseconds), arrivals are given, tasks are given back.
`process` drives it with threads against a real cluster, the lab with its own time. Memory that is ahead of the log is never acted
on: what could not be appended is kept and appended first, whole and unchanged, before anything else is taken in. What is decided
is the component's business; what a decision becomes is that of the two subclasses, in `scaler` and `publisher`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.watch.arrivals import LOST, STALE, SYNCED, Arrival, DeltaQueue
from dds_adapters.kubernetes.watch.known import Identity, identity
from dds_adapters.kubernetes.watch.watched import WatchSpec
from dds_adapters.kubernetes.write.tasks import Task
from dds_core.component import Component
from dds_core.engine import EngineOf, Step
from dds_core.errors import DdsError, LogUnavailable
from dds_core.events import (
    Capabilities,
    Checkpoint,
    DeadlinePassed,
    Decision,
    Event,
    PolicyChanged,
    Stale,
    Started,
    Synced,
    WriteRefused,
)
from dds_core.kit.policy import Mode
from dds_core.kit.state import StateBase
from dds_core.log import Envelope, EventLog, Group, Head
from dds_core.replay import fold_log
from dds_core.text import scrub

# -- what it has to do with ---------------------------------------------------------------------------------------------


class Effective(Protocol):
    """A policy that is valid."""

    @property
    def mode(self) -> str: ...
    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class Arriving(Protocol):
    """Something that came, and when, in microseconds."""

    @property
    def at(self) -> int: ...


class Translating(Protocol):
    """Objects of the API server to facts, against one state."""

    def translate(self, resource: str, type: str, raw: bytes) -> Iterable[Event]: ...


P = TypeVar("P", bound=StateBase[Any])
P_contra = TypeVar("P_contra", contravariant=True)


class Watcher(Protocol[P_contra]):
    """Is told of every commit, on the thread that decides: metrics, log lines."""

    def committed(self, steps: Sequence[Committed], state: P_contra, /) -> None: ...


OnError = Callable[[DdsError], None]
"""Is told what went wrong with one thing while everything else goes on."""


# -- faults: one line each, without foreign words -----------------------------------------------------------------------


def fault_with(one: object, error: Exception) -> DdsError:
    """An arrival or a fact that could not be taken in."""
    match one:
        case Arrival():
            who = identity(one.raw)
            where = f"{one.resource} {who.namespace}/{who.name}".replace(" /", " ")
        case DeadlinePassed():
            where = f"{type(one).__name__} {one.kind} of {one.of}"
        case _:
            where = type(one).__name__
    return fault_of(where, error)


def fault_of(where: str, error: Exception) -> DdsError:
    """Whatever else could not be done."""
    what = error.what if isinstance(error, DdsError) else f"{type(error).__name__}: {scrub(str(error))}"
    return DdsError(f"left out: {what}", where=where, fix="please report it; everything else goes on")


# -- groups on their way into the log -----------------------------------------------------------------------------------


CHUNK = 500
"""Groups that are appended at a time."""


class Committed(NamedTuple):
    """One group that is in the log: the step, and its rows in the same order, the fact first."""

    step: Step
    envelopes: Sequence[Envelope]


class LogWriter:
    """For one writer of a log. `away` is True while the log cannot be written; `position` is that of the newest event known."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.epoch = 0
        self.position = 0
        self.away = False
        self._pending: deque[tuple[Step, Group]] = deque()
        self._ordinal = 0

    def __len__(self) -> int:
        """Groups that wait."""
        return len(self._pending)

    @property
    def oldest(self) -> int | None:
        """The instant of the first of them."""
        return self._pending[0][0].at if self._pending else None

    def take(self, now: int) -> Head:
        """Become the one who writes; gives the log's head as it is from then on. Raises LogUnavailable."""
        self.epoch = self.log.take_epoch(now)
        self._ordinal = 0
        return self.log.head()

    def put(self, step: Step) -> None:
        """One more group, behind all others."""
        self._pending.append((step, step.group(self._ordinal)))
        self._ordinal += 1

    def append(self, now: int) -> Iterator[list[Committed]]:
        """Write what waits, and give it batch by batch. Raises LogUnavailable: what was not given waits on; and Fenced."""
        while self._pending:
            batch = [self._pending[i] for i in range(min(CHUNK, len(self._pending)))]
            try:
                rows = self.log.append([group for _, group in batch], epoch=self.epoch, recorded_at=now)
            except LogUnavailable:
                self.away = True
                raise
            self.away = False
            for _ in batch:
                self._pending.popleft()
            if rows:
                self.position = rows[-1].position
            yield _with_rows(batch, rows)


def _with_rows(batch: Sequence[tuple[Step, Group]], rows: Sequence[Envelope]) -> list[Committed]:
    committed, start = [], 0
    for step, group in batch:
        committed.append(Committed(step, rows[start : start + len(group.events)]))
        start += len(group.events)
    return committed


# -- the loop ----------------------------------------------------------------------------------------------------------

BATCH = 2_000
"""Arrivals that are taken in at a time. Where more wait, no later deadline passes before them."""


class Stall(NamedTuple):
    """The process got no processor for so many seconds, from an instant on: it believes none of its views."""

    at: int
    seconds: float


@dataclass(frozen=True)
class Surroundings(Generic[P]):
    """What one who decides is made with: the API server, the queue of what came, in which version a resource is followed ("" for
    one that is not), who looks on, and who is told what went wrong (with which part of the process)."""

    api: Asking
    arrivals: DeltaQueue
    version: Callable[[str], str]
    watchers: Sequence[Watcher[P]]
    trouble: Callable[[str, DdsError], None]


class Controller(ABC, Generic[P]):
    """`open` it once, then call `turn` whenever something came or a deadline is due; always from the same thread.

    `lost` are resources without which no decision is taken and that are not served, or may not be read. `wanted_lists` are
    resources to be listed anew; who does so takes them out.
    """

    resources: frozenset[str]
    """What has to be listed before anything is decided."""
    optional: frozenset[str]
    """Those of them without which everything else goes on."""
    evaluator = ""
    """What evaluates selectors, with its version."""

    def __init__(
        self,
        component: Component[P],
        log: EventLog,
        policy: Effective,
        *,
        code: str,
        watchers: Sequence[Watcher[P]] = (),
        on_error: OnError = lambda error: None,
    ) -> None:
        self.lost: frozenset[str] = frozenset()  # frozen, as other threads look at them
        self.synced_resources: frozenset[str] = frozenset()
        self.wanted_lists: set[str] = set()
        self.checkpoint_at = 0
        self.component = component
        self._log_writer = LogWriter(log)
        self._policy = policy
        self._code = code
        self._watchers = watchers
        self._on_error = on_error
        self._seen_capabilities: Capabilities | None = None
        self._arrivals, self._facts = deque[Arriving](), deque[Event]()
        self._tasks: list[Task] = []
        self._stale: dict[str, int] = {}
        """By resource the instant from which a list of it has to have begun."""
        self._spoilt = self._begun = False
        self._use(component.state())

    # -- what is the component's own -----------------------------------------------------------------------------

    @abstractmethod
    def watched(self) -> Sequence[WatchSpec]:
        """What of the cluster is followed."""

    @abstractmethod
    def seeds(self) -> Mapping[str, Iterable[Identity]]:
        """By resource the objects that the log knows from before."""

    @abstractmethod
    def translator(self, state: P) -> Translating:
        """Translates against this state."""

    @abstractmethod
    def capabilities(self) -> Capabilities | None:
        """What the API serves and keeps, as far as it is known by now; None for who does not care."""

    @abstractmethod
    def plan(self, decision: Decision, event_id: str, at: int) -> Iterable[Task]:
        """The tasks of a decision that is in the log; what it raises makes the decision void."""

    @abstractmethod
    def announce(self, step: Step) -> Iterable[Task]:
        """What people are told of a group that is in the log, and whatever else follows from it."""

    @property
    @abstractmethod
    def limit(self) -> Mode:
        """How strong a write may be now, as its tasks know it."""

    def before(self, fact: Event) -> None:
        """A fact is about to be folded."""

    def came(self, one: Arriving) -> None:
        """Something that is no arrival from the API server came. Facts of it go into `happened`."""
        raise TypeError(f"a {type(one).__name__} is nothing that arrives here")

    def listed(self, arrival: Arrival) -> None:
        """A resource was listed, and all of the list was folded."""

    def seen_whole(self) -> Iterable[Task]:
        """Everything was seen, or is there again: what has to be asked then."""
        return ()

    @property
    def ready(self) -> bool:
        """Whether the first decisions may be taken once all resources were listed; `look_again` when it becomes so."""
        return True

    def first(self) -> Iterable[Task]:
        """What is sent, once and before everything else, as soon as all is known and this process may write."""
        return ()

    def preflight(self, where: str) -> list[DdsError]:
        """What the cluster at this address lacks, so that nothing can be served although nothing fails."""
        return []

    # What else it listens to beside the API server. A scaler has nothing of the kind.

    def begin(self) -> None:
        """The log is open, listening has begun: start whatever else listens."""

    def arrived(self) -> Sequence[Arriving]:
        """What came that way since the last call; who puts something there wakes the queue."""
        return ()

    def turned(self) -> None:
        """Once around: all that had come is decided on."""

    def end(self) -> Sequence[str]:
        """Nothing is to be listened to any more; gives the names of threads that still hang."""
        return ()

    def threads(self) -> Mapping[str, bool]:
        """Which threads of its own should run, and whether they do; from any thread."""
        return {}

    # -- what others may see -------------------------------------------------------------------------------------

    @property
    def state(self) -> P:
        """What is known; only for the thread that calls `turn`."""
        return self._engine.state

    @property
    def synced(self) -> bool:
        """Whether the whole cluster was seen, so that decisions are taken."""
        return self.state.synced

    @property
    def log(self) -> EventLog:
        return self._log_writer.log

    @property
    def epoch(self) -> int:
        """The one that is written in, 0 before `open`."""
        return self._log_writer.epoch

    @property
    def position(self) -> int:
        """That of the newest event that is known."""
        return self._log_writer.position

    @property
    def away(self) -> bool:
        """Whether the log cannot be written: then nothing new is taken in, and no write may be begun."""
        return self._log_writer.away

    @property
    def behind(self) -> int:
        """Groups that are folded and not appended yet."""
        return len(self._log_writer)

    @property
    def oldest_pending(self) -> int | None:
        """The instant of the first of them."""
        return self._log_writer.oldest

    def due(self) -> int | None:
        """The instant of the next turn: that of a deadline, or at once for what was held back while the log was away; None when
        there is none."""
        if self._tasks or self._arrivals:
            return self.state.now
        first = self._engine.deadline_queue.next()
        return first.due if first is not None else None

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self, now: int) -> None:
        """Fold the log from its newest checkpoint, take the next epoch, and append who decides and under which policy.

        Raises LogUnavailable, and the errors of a log that cannot be read."""
        self._use(self._folded())
        head = self._log_writer.take(now)
        if head.position != self.position:  # the writer before has still appended
            self._use(self._folded())
        first = self.state.epoch == 0
        self._feed(
            Started(
                code=self._code,
                fingerprint=self.component.fingerprint,
                projection=self.component.projection,
                epoch=self.epoch,
                mode=self._policy.mode,
                evaluator=self.evaluator,
            ),
            now,
        )
        if first or self.state.policy != self._policy:
            self._feed(PolicyChanged(policy=self._policy.model_dump(mode="json")), now)
        self.checkpoint_at = head.checkpoint
        self._append(now)

    def change_policy(self, policy: Effective) -> None:
        """Another policy takes effect, as a fact, with the next turn."""
        if policy != self._policy:
            self._policy = policy
            self._facts.append(PolicyChanged(policy=policy.model_dump(mode="json")))

    def turn(
        self, arrivals: Sequence[Arriving], facts: Sequence[Event], now: int, *, stall: Stall | None = None
    ) -> list[Task]:
        """Take in what arrived, then what became of writes, then the deadlines up to `now`; append; give what is to be written.
        After a `stall`, what would keep a deadline from passing may still wait in a socket: none passes before all was listed
        anew.

        Raises LogUnavailable when the log is away: everything given was kept, call again with nothing; once it is back, that only
        appends, and gives no tasks. Raises Fenced when another process has taken over the log: then this one is to end. What else
        goes wrong with one object is reported, and the object is left out.
        """
        was_away = self.away
        if stall is not None:
            followed = [one.resource for one in self.watched()]
            self.wanted_lists.update(followed)
            self._arrivals.extend(
                Arrival(resource, STALE, b"", stall.at, round(stall.seconds), since=now) for resource in followed
            )
        if len(arrivals) >= BATCH:
            now = arrivals[-1].at
        elif not was_away and (beside := self.arrived()):
            arrivals = sorted([*arrivals, *beside], key=lambda one: one.at)
        self._arrivals.extend(arrivals)
        self._facts.extend(facts)
        self._append(now)
        if self._spoilt:
            self._rebuild()
        if was_away:  # what has arrived since comes first: a deadline may wait for it, and a write be another after it
            return []
        self._take_in(self._arrivals, now)
        self._take_in(self._facts, now)
        self._deadlines(now)
        self._append(now)
        tasks, self._tasks = self._tasks, []
        if not self._begun and self.synced and self.state.live:
            self._begun = True
            tasks[:0] = self.first()
        return tasks

    def _take_in(self, left: deque[Arriving] | deque[Event], now: int) -> None:
        while left:
            one = left[0]
            self._guarded(one, now if isinstance(one, Event) else one.at)
            left.popleft()
            if len(self._log_writer) >= CHUNK:
                self._append(now)

    def checkpoint(self, now: int) -> None:
        """Write the whole state into the log, so that a start needs no event before it."""
        self._append(now)
        fact = Checkpoint(projection=self.component.projection, picture=self.component.dump(self.state))
        self._log_writer.put(Step(max(now, self.state.now), fact, []))
        self._append(now)
        self.checkpoint_at = self.position

    # -- facts ---------------------------------------------------------------------------------------------------

    def _guarded(self, one: Arriving | Event, at: int) -> None:
        """One arrival or fact; when it cannot be taken in, it alone is left out."""
        try:
            if isinstance(one, Event):
                self.happened(one, at)
            elif isinstance(one, Arrival):
                self._arrived(one)
            else:
                self.came(one)
        except LogUnavailable:
            raise
        except Exception as error:
            self._leave_out(fault_with(one, error), at)

    def _arrived(self, arrival: Arrival) -> None:
        if arrival.type == SYNCED:
            self._resource_synced(arrival)
        elif arrival.type == STALE:
            self._resource_stale(arrival)
        elif arrival.type == LOST:
            self._resource_lost(arrival)
        else:
            for fact in self._translator.translate(arrival.resource, arrival.type, arrival.raw):
                self.happened(fact, arrival.at)

    def _resource_synced(self, arrival: Arrival) -> None:
        resource, at = arrival.resource, arrival.at
        self.synced_resources |= {resource}
        self.lost -= {resource}
        was_stale = resource in self._stale
        if arrival.since >= self._stale.get(resource, 0):
            self._stale.pop(resource, None)
        self.look_again(at, back=was_stale and not self._stale)
        self.listed(arrival)

    def _resource_lost(self, arrival: Arrival) -> None:
        if arrival.resource in self.optional:
            self.synced_resources |= {arrival.resource}
            self.look_again(arrival.at)
            return
        self.lost |= {arrival.resource}
        if arrival.resource in self.synced_resources:
            self.synced_resources -= {arrival.resource}
            self._resource_stale(arrival)

    def _resource_stale(self, arrival: Arrival) -> None:
        resource = arrival.resource
        if resource in self.optional:
            return
        was_stale = resource in self._stale
        self._stale[resource] = max(arrival.since, self._stale.get(resource, 0))
        if self.state.synced and not was_stale:
            self.happened(Stale(resource=resource, age=arrival.age), arrival.at)

    def look_again(self, at: int, *, back: bool = False) -> None:
        """Once every resource was listed, or is there again (`back`), decisions may be taken."""
        if not self.resources <= self.synced_resources or not (self.state.synced or self.ready):
            return
        self._look_at_capabilities(at)
        if back or not (self.state.synced or self._stale):
            self.happened(Synced(), at)
            self._tasks.extend(self.seen_whole())

    def forget_capabilities(self) -> None:
        """They are told anew, whatever was told before."""
        self._seen_capabilities = None

    def _look_at_capabilities(self, at: int) -> None:
        known = self.capabilities()
        if known is not None and self._seen_capabilities != known:
            self._seen_capabilities = known
            self.happened(known, at)

    def _deadlines(self, until: int) -> None:
        """Feed what is due before a fact of the instant `until`, or with it."""
        until = max(until, self.state.now)
        while (deadline := self._engine.due(until)) is not None:
            try:
                self._feed(deadline, max(deadline.due, self.state.now))
            except Exception as error:
                self._leave_out(fault_with(deadline, error), until)
                self.state.fired_deadlines.put((deadline.kind, deadline.of), deadline.due)  # else it came back at once
                self._engine.deadline_queue.rebuild()

    def happened(self, fact: Event, at: int) -> None:
        """Feed a fact, after all that is due by then."""
        self._deadlines(at)
        self.before(fact)
        self._feed(fact, at)

    def _feed(self, fact: Event, at: int) -> None:
        self._log_writer.put(self._engine.feed(fact, at))

    # -- the log -------------------------------------------------------------------------------------------------

    def _append(self, now: int) -> None:
        """Append what is folded; what was committed is told and its decisions become tasks."""
        for committed in self._log_writer.append(now):
            for one in committed:
                self._carry_out(one)
            for watcher in self._watchers:
                try:
                    watcher.committed(committed, self.state)
                except Exception as error:  # who only looks on must not stop what it looks at
                    self._on_error(fault_of(type(watcher).__name__, error))

    def _carry_out(self, one: Committed) -> None:
        """Tasks for the decisions of a group, in its order; what people are told comes behind."""
        for decision, row in _decisions(one):
            self._planned(decision, row.event_id, one.step.at)
        try:
            self._tasks.extend(self.announce(one.step))
        except Exception as error:
            self._on_error(fault_of(type(one.step.fact).__name__, error))

    def _planned(self, decision: Decision, event_id: str, at: int) -> None:
        """The tasks of a decision. One that cannot even be drawn up is void, as if it had been refused."""
        try:
            self._tasks.extend(self.plan(decision, event_id, at))
        except Exception as error:
            action = type(decision).__name__
            self._on_error(fault_of(f"{action} {decision.subject}", error))
            self._facts.append(
                WriteRefused(event_id, action, decision.subject, 0, "InternalError", type(error).__name__)
            )

    def _leave_out(self, fault: DdsError, at: int) -> None:
        """What could not be taken in has left its traces in memory: the log is the truth."""
        self._on_error(fault)
        self._spoilt = True
        self._append(at)
        self._rebuild()

    def _rebuild(self) -> None:
        self._log_writer.away = True
        self._use(self._folded())
        self._log_writer.away = self._spoilt = False

    def _folded(self) -> P:
        head = self.log.head()
        self._log_writer.position = head.position
        return fold_log(self.log.read_lean(after=max(0, head.checkpoint - 1)), component=self.component)

    def _use(self, state: P) -> None:
        self._engine = EngineOf(self.component, state)
        self._translator = self.translator(state)
        self._seen_capabilities = None


def _decisions(one: Committed) -> Iterator[tuple[Decision, Envelope]]:
    for (event, _), row in zip(one.step.caused, one.envelopes[1:], strict=True):
        if isinstance(event, Decision):
            yield event, row


Make = Callable[[EventLog, Effective, Surroundings[P]], Controller[P]]
"""Makes one who decides, not opened yet, on a log and under a policy."""
