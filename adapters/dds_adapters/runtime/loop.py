"""The loop of a component's process. `Controller.turn` makes facts of arrivals and groups of facts, appends the groups to the
log, and only then returns the tasks of the committed decisions.

It has no clock and no threads and sends nothing: the caller passes in instants (microseconds) and arrivals and carries out the
tasks. `process` drives it with threads against a real cluster; the lab drives it on virtual time. It never acts on a state that
is ahead of the log: groups that could not be appended are kept unchanged and appended before anything else is taken in. The
component's rules decide; the subclasses in `scaler`, `publisher` and `autoscaler` make the tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.watch.delta_queue import LOST, STALE, SYNCED, Arrival, DeltaQueue
from dds_adapters.kubernetes.watch.object_store import Identity, identity
from dds_adapters.kubernetes.watch.watch_spec import WatchSpec
from dds_adapters.kubernetes.write.tasks import Task
from dds_core.component import Component
from dds_core.engine import EngineOf, Step, checkpoint
from dds_core.errors import DdsError, LogUnavailable, PolicyError
from dds_core.events import (
    POLICY,
    Capabilities,
    DeadlinePassed,
    Decision,
    Event,
    EventsLost,
    PolicyChanged,
    Rejected,
    Stale,
    Started,
    Synced,
    WriteRefused,
)
from dds_core.kit.policy import Mode
from dds_core.kit.state import StateBase
from dds_core.log import Anchor, Envelope, EventLog, Group, Head
from dds_core.log.chain import lacks
from dds_core.replay import fold_log
from dds_core.text import scrub

# -- inputs and observers -----------------------------------------------------------------------------------------------


class EffectivePolicy(Protocol):
    """A valid policy."""

    @property
    def mode(self) -> str: ...
    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class Arriving(Protocol):
    """An input with the instant at which it came, in microseconds."""

    @property
    def at(self) -> int: ...


class Translating(Protocol):
    """Turns objects of the API server into facts, compared with one state."""

    def translate(self, resource: str, type: str, raw: bytes) -> Iterable[Event]: ...


P = TypeVar("P", bound=StateBase[Any])
P_contra = TypeVar("P_contra", contravariant=True)


class CommitListener(Protocol[P_contra]):
    """Called after every commit, on the thread that decides: metrics, log lines."""

    def committed(self, steps: Sequence[Committed], state: P_contra, /) -> None: ...


OnError = Callable[[DdsError], None]
"""Called with an error that concerns one object or task, while everything else continues."""


# -- faults: one line each, scrubbed of secrets -------------------------------------------------------------------------


def fault_with(one: object, error: Exception) -> DdsError:
    """The fault for an arrival or a fact that could not be processed."""
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
    """The fault for anything else that failed at the place `where`."""
    what = error.what if isinstance(error, DdsError) else f"{type(error).__name__}: {scrub(str(error))}"
    return DdsError(f"left out: {what}", where=where, fix="please report it; everything else goes on")


# -- groups on their way into the log -----------------------------------------------------------------------------------


CHUNK = 500
"""Most groups in one append."""


EVENT_BYTES = 650
"""Room that an event takes in a database, about, its part of the indexes included."""


def checkpoint_after(events: int, size: int) -> int:
    """After how many events the next checkpoint is written, 0 for never: `events`, or so many that they take as much room as the
    last checkpoint (`size`, in bytes; 0 for unknown). So checkpoints at most double a log, and a large cluster does not wait
    for them more often."""
    return max(events, size // EVENT_BYTES) if events else 0


class Committed(NamedTuple):
    """One committed group: the step, and its rows in the same order, the fact first."""

    step: Step
    envelopes: Sequence[Envelope]


class LogWriter:
    """The groups that one writer of a log has to append. `away`: the log is unavailable. `position`: of the newest known
    event. `left`: where this writer last left the log."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.epoch = 0
        self.position = 0
        self.away = False
        self.left: Anchor | None = None
        self._pending: deque[tuple[Step, Group]] = deque()
        self._ordinal = 0

    def __len__(self) -> int:
        """The number of waiting groups."""
        return len(self._pending)

    @property
    def oldest(self) -> int | None:
        """The instant of the first waiting group."""
        return self._pending[0][0].at if self._pending else None

    def take(self, now: int, above: int) -> Head:
        """Become the log's writer, in an epoch after `above`. Returns the head; older writers can no longer change it. Raises
        LogUnavailable."""
        self.epoch = self.log.take_epoch(now, above)
        self._ordinal = 0
        return self.log.head()

    def lost(self, known: Anchor | None, head: Head) -> EventsLost | None:
        """What the log with this head lacks of an earlier writer's, which left it at `known`."""
        if known is None or known.log != head.log:
            return None
        reachable = head.archived < known.position <= head.position
        rows = self.log.read(known.position - 1, known.position) if reachable else ()
        there = next((row.hash for row in rows), None)
        if not lacks(head, known, there):
            return None
        return EventsLost(min(head.position, known.position - 1), known.position, known.hash.hex(), known.epoch)

    def put(self, step: Step) -> Group:
        """Add a group at the end."""
        group = step.group(self._ordinal)
        self._pending.append((step, group))
        self._ordinal += 1
        return group

    def append(self, now: int) -> Iterator[list[Committed]]:
        """Append the waiting groups and yield them in batches. Raises Fenced and LogUnavailable; then the rest still waits."""
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
                newest = rows[-1]
                self.position = newest.position
                self.left = Anchor(newest.log, newest.position, newest.hash, self.epoch)
            left = iter(rows)
            yield [Committed(step, [*islice(left, len(group.events))]) for step, group in batch]


# -- the loop ----------------------------------------------------------------------------------------------------------

BATCH = 2_000
"""Most arrivals in one turn. When more wait, no deadline later than the last of them passes in this turn."""


class Stall(NamedTuple):
    """The process got no CPU for so many seconds from the instant `at`, so none of its views can be trusted."""

    at: int
    seconds: float


@dataclass(frozen=True)
class Surroundings(Generic[P]):
    """What a controller is made with: the API server, the queue of arrivals, the API version in which a resource is watched (""
    for one that is not), observers of commits, and the function that reports errors of a part of the process."""

    api: Asking
    arrivals: DeltaQueue
    version: Callable[[str], str]
    listeners: Sequence[CommitListener[P]]
    trouble: Callable[[str, DdsError], None]


class Controller(ABC, Generic[P]):
    """One component's loop. Call `open` once, then `turn` when something came or a deadline is due, always on the same thread.

    `lost` are required resources that are not served or may not be read; without them nothing is decided. `wanted_lists` are
    resources to list anew; the caller removes those that it lists.
    """

    resources: frozenset[str]
    """Resources that must be listed before the first decision."""
    optional: frozenset[str]
    """Those of them that may be missing on the API server, or stale."""
    evaluator = ""
    """Name and version of the evaluator of CEL selectors."""

    def __init__(
        self,
        component: Component[P],
        log: EventLog,
        policy: EffectivePolicy,
        *,
        code: str,
        listeners: Sequence[CommitListener[P]] = (),
        on_error: OnError = lambda error: None,
    ) -> None:
        self.lost: frozenset[str] = frozenset()  # frozen, as other threads look at them
        self.synced_resources: frozenset[str] = frozenset()
        self.wanted_lists: set[str] = set()
        self.checkpoint_at = self.checkpoint_bytes = 0
        self.component = component
        self._log_writer = LogWriter(log)
        self._policy = policy
        self.policy_broken = False
        """Whether the policy's file was not valid when it was read last."""
        self._code = code
        self._listeners = listeners
        self._on_error = on_error
        self._seen_capabilities: Capabilities | None = None
        self._arrivals, self._facts = deque[Arriving](), deque[Event]()
        self._tasks: list[Task] = []
        self._stale: dict[str, int] = {}
        """Resource → the instant at or after which a new list of it must begin."""
        self._state_invalid = self._begun = self._more = self._resumed = self._held = False
        self._use(component.state())

    # -- what each component defines -----------------------------------------------------------------------------

    @abstractmethod
    def watched(self) -> Sequence[WatchSpec]:
        """The resources to watch."""

    @abstractmethod
    def seeds(self) -> Mapping[str, Iterable[Identity]]:
        """Resource → its objects that the log already has."""

    @abstractmethod
    def translator(self, state: P) -> Translating:
        """A translator that compares with this state."""

    @abstractmethod
    def capabilities(self) -> Capabilities | None:
        """What the API server supports, as far as known; None if the component does not use it."""

    @abstractmethod
    def tasks_of(self, decision: Decision, event_id: str, at: int) -> Iterable[Task]:
        """The tasks of a committed decision. If it raises, the decision counts as refused."""

    @abstractmethod
    def announce(self, step: Step) -> Iterable[Task]:
        """Further tasks after a commit of this step, such as Kubernetes Events."""

    @property
    @abstractmethod
    def limit(self) -> Mode:
        """The mode that limits writes now: a task runs only if the mode that it needs is not stronger."""

    def before(self, fact: Event) -> None:
        """Called before a fact is folded."""

    def on_input(self, one: Arriving) -> None:
        """Process an input that is not from the API server. Pass its facts to `happened`."""
        raise TypeError(f"a {type(one).__name__} is nothing that arrives here")

    def listed(self, arrival: Arrival) -> None:
        """Called when a resource was listed and the whole list was folded."""

    def on_synced(self) -> Iterable[Task]:
        """Tasks to run once after every resource has been listed (at start, or after a resync)."""
        return ()

    @property
    def ready(self) -> bool:
        """Whether decisions may begin once all resources were listed. Call `look_again` when it becomes true."""
        return True

    def first_tasks(self) -> Iterable[Task]:
        """Tasks to run once, before all others, as soon as all is listed and this process may write."""
        return ()

    def preflight(self, where: str) -> list[DdsError]:
        """What is missing in the cluster at this address, so that dds can do nothing although nothing fails."""
        return []

    def take_wanted_lists(self) -> list[str]:
        """Those of which a new list is wanted, in an order that does not depend on the hash seed; they are wanted no more."""
        taken = sorted(self.wanted_lists)
        self.wanted_lists.clear()
        return taken

    # Inputs from other sources than the API server. By default there are none.

    def begin(self) -> None:
        """Start the other sources. Called when the log is open and the watches have started."""

    def take_inputs(self) -> Sequence[Arriving]:
        """The inputs from other sources since the last call. A source wakes the queue of arrivals when it has one."""
        return ()

    def after_turn(self) -> None:
        """Called at the end of a turn: all inputs so far have been decided on."""

    def end(self) -> Sequence[str]:
        """Stop the other sources. Returns the names of threads that still hang."""
        return ()

    def threads(self) -> Mapping[str, bool]:
        """The component's own threads that should run, and whether each is alive. From any thread."""
        return {}

    # -- what others may read ------------------------------------------------------------------------------------

    @property
    def state(self) -> P:
        """The component's state, only for the thread that calls `turn`."""
        return self._engine.state

    @property
    def synced(self) -> bool:
        """Whether all resources were listed, so that decisions are made."""
        return self.state.process.synced

    @property
    def log(self) -> EventLog:
        return self._log_writer.log

    @property
    def epoch(self) -> int:
        """The writer's epoch; 0 before `open`."""
        return self._log_writer.epoch

    @property
    def position(self) -> int:
        """The position of the newest known event."""
        return self._log_writer.position

    @property
    def left(self) -> Anchor | None:
        """Where this process last left the log; None before its first append. From any thread."""
        return self._log_writer.left

    @property
    def away(self) -> bool:
        """Whether the log cannot be written. Then no input is taken in and no write may start."""
        return self._log_writer.away

    @property
    def behind(self) -> int:
        """Number of groups that are folded but not appended yet."""
        return len(self._log_writer)

    @property
    def oldest_pending(self) -> int | None:
        """The instant of the first of these groups."""
        return self._log_writer.oldest

    def due(self) -> int | None:
        """The instant of the next turn: the next deadline, or now when inputs or tasks were held back while the log was away.
        None when there is none."""
        if self._tasks or self._arrivals:
            return self.state.process.now
        first = self._engine.deadline_queue.next()
        return first.due if first is not None else None

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self, now: int, known: Anchor | None = None) -> None:
        """Fold the log from its newest checkpoint, take the next epoch, append `Started` and, if it is new, the policy. `known`:
        where an earlier process left the log; what is missing of it is appended as a fact. Raises LogUnavailable, and the errors
        of a log that cannot be read."""
        # Fold first and take the epoch then: folding may take long, and until then the former writer may go on.
        self._use(self._folded())
        head = self._log_writer.take(now, known.epoch if known is not None and known.log == self.log.name else 0)
        if head.position != self.position:  # the former writer has appended meanwhile
            self._use(self._folded())
        # From here on no other process can append. The start is a fact, as every decision depends on who made it and when.
        first = self.state.process.epoch == 0
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
        # A database that was restored may lack what the former process has acted on.
        lost = self._log_writer.lost(known, head)
        if lost is not None:
            self._feed(lost, now)
        if first or self.state.policy != self._policy or (self.state.notes.policy_fault and not self.policy_broken):
            self._feed(PolicyChanged(policy=self._policy.model_dump(mode="json")), now)
        self.checkpoint_at = head.checkpoint
        self._append(now)

    def change_policy(self, policy: EffectivePolicy) -> None:
        """Let another policy take effect in the next turn, as a fact; also the same one, if its file was broken meanwhile."""
        if policy != self._policy or self.policy_broken:
            self._policy, self.policy_broken = policy, False
            self._facts.append(PolicyChanged(policy=policy.model_dump(mode="json")))

    def reject_policy(self, error: PolicyError) -> None:
        """The policy's file is not valid: the policy in force stays, and the fault becomes a fact, unless it is one."""
        self.policy_broken = True
        if self.state.notes.policy_fault != str(error):
            what = "(the last valid policy stays in force)"
            self._facts.append(Rejected(POLICY, POLICY, "file", field=str(error), reason=what))

    def turn(
        self, arrivals: Sequence[Arriving], facts: Sequence[Event], now: int, *, stall: Stall | None = None
    ) -> list[Task]:
        """Take in the arrivals, then the facts (outcomes of writes), then the deadlines up to `now`; append all; return the
        tasks. After a `stall` an arrival that would cancel a deadline may still wait in a socket, so no deadline passes before
        all resources were listed anew.

        Raises LogUnavailable when the log is away. All input was kept: call again without input. The first call after the log
        is back only appends and returns no tasks. Raises Fenced when another process has taken over the log, and LogWentBack
        when the log lacks what was appended: then end the process. Other errors concern one object: they are reported and the
        object is left out.
        """
        was_away = self.away
        # After a stall every view is doubtful: it counts as stale until a list that begins from now on.
        if stall is not None:
            followed = [one.resource for one in self.watched()]
            self.wanted_lists.update(followed)
            self._arrivals.extend(
                Arrival(resource, STALE, b"", stall.at, round(stall.seconds), since=now) for resource in followed
            )
        # Of a burst only a part is here, so this turn ends at its last instant: a later deadline could overtake what waits.
        # What other sources have stays there then, and while the log is away.
        self._more = len(arrivals) >= BATCH
        if self._more:
            now = arrivals[-1].at
        elif not was_away and (beside := self.take_inputs()):
            arrivals = sorted([*arrivals, *beside], key=lambda one: one.at)
        # What an earlier turn could not append goes first. If the log is still away this raises, and the input stays queued.
        self._arrivals.extend(arrivals)
        self._facts.extend(facts)
        self._append(now)
        # A failed input may have changed the state in part, and the log was away when it should have been folded anew.
        if self._state_invalid:
            self._rebuild()
        if was_away:  # take in newer arrivals first: they may cancel a deadline or change a write
            self._resumed = True
            return []
        # Arrivals before outcomes of writes, and deadlines last: what was observed may make a deadline pointless. Each arrival
        # lets the deadlines pass that were due before it, so that decisions do not depend on how input is cut into turns.
        self._take_in(self._arrivals, now)
        self._take_in(self._facts, now)
        self._release(now)
        self._deadlines(now)
        # Nothing leaves before it is in the log: only the tasks of committed decisions are returned.
        self._append(now)
        tasks, self._tasks = self._tasks, []
        if not self._begun and self.synced and self.state.live:
            self._begun = True
            tasks[:0] = self.first_tasks()
        return tasks

    def _take_in(self, left: deque[Arriving] | deque[Event], now: int) -> None:
        while left:
            one = left[0]
            self._guarded(one, now if isinstance(one, Event) else one.at)
            left.popleft()
            if len(self._log_writer) >= CHUNK:
                self._append(now)

    def checkpoint(self, now: int) -> None:
        """Append the whole state to the log, so that a later start needs no event before it."""
        self._append(now)
        group = self._log_writer.put(checkpoint(self.component, self.state, now, self._code))
        self.checkpoint_bytes = len(group.events[0].data)
        self._append(now)
        self.checkpoint_at = self.position

    # -- facts ---------------------------------------------------------------------------------------------------

    def _guarded(self, one: Arriving | Event, at: int) -> None:
        """Process one arrival or fact. If that fails, only this one is left out."""
        try:
            if isinstance(one, Event):
                self.happened(one, at)
            elif isinstance(one, Arrival):
                self._arrived(one)
            else:
                self.on_input(one)
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
        self.check_synced(at, back=was_stale and not self._stale)
        self.listed(arrival)

    def _resource_lost(self, arrival: Arrival) -> None:
        if arrival.resource in self.optional:
            self.synced_resources |= {arrival.resource}
            self.check_synced(arrival.at)
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
        if self.state.process.synced and not was_stale:
            self.happened(Stale(resource=resource, age=arrival.age), arrival.at)

    def check_synced(self, at: int, *, back: bool = False) -> None:
        """Begin to decide if every resource was listed and `ready`, or continue after a stale resource is back (`back`)."""
        if not self.resources <= self.synced_resources or not (self.state.process.synced or self.ready):
            return
        known = self.capabilities()
        if known is not None and self._seen_capabilities != known:
            self._seen_capabilities = known
            self.happened(known, at)
        if (back and not self._held) or not (self.state.process.synced or self._stale):
            self._all_is_known(at)

    def _all_is_known(self, at: int) -> None:
        self.happened(Synced(), at)
        self._tasks.extend(self.on_synced())

    def forget_capabilities(self) -> None:
        """Feed the capabilities again, even if they are unchanged."""
        self._seen_capabilities = None

    def _deadlines(self, until: int) -> None:
        """Feed the deadlines that are due up to and including the instant `until`."""
        while (deadline := self._engine.due(until)) is not None:
            late = self._late(deadline)
            if late is not None:
                self._held = True
                self._feed(late, deadline.due)
                return
            try:
                self._feed(deadline, deadline.due)
            except Exception as error:
                self._leave_out(fault_with(deadline, error), until)
                self.state.notes.fired_deadlines.put(
                    (deadline.kind, deadline.of), deadline.due
                )  # else it would fire again
                self._engine.deadline_queue.rebuild()

    def _late(self, deadline: DeadlinePassed) -> Stale | None:
        """A `Stale` for the deadline's instant, if an arrival that is not taken in yet may have come before the deadline: an
        object that changed several times while the log was away has only the instant of its last change."""
        due = deadline.due
        for one in self._arrivals if self._resumed else ():
            if isinstance(one, Arrival) and one.first and (one.first < due <= one.at):
                return Stale(resource=one.resource, age=(one.at - one.first) // 1_000_000)
        return None

    def _release(self, now: int) -> None:
        """All that came is taken in: the deadlines that were held may pass, unless a view is stale by itself."""
        if self._more:
            return
        held, self._held, self._resumed = self._held, False, False
        if held and not self._stale:
            self._all_is_known(now)

    def happened(self, fact: Event, at: int) -> None:
        """Feed a fact, after the deadlines that are due by then."""
        self._deadlines(at)
        self.before(fact)
        self._feed(fact, at)

    def _feed(self, fact: Event, at: int) -> None:
        self._log_writer.put(self._engine.feed(fact, at))

    # -- the log -------------------------------------------------------------------------------------------------

    def _append(self, now: int) -> None:
        """Append the waiting groups, make tasks of the committed decisions, and call the listeners."""
        for committed in self._log_writer.append(now):
            for one in committed:
                self._carry_out(one)
            for listener in self._listeners:
                try:
                    listener.committed(committed, self.state)
                except Exception as error:  # a listener must not stop the loop
                    self._on_error(fault_of(type(listener).__name__, error))

    def _carry_out(self, one: Committed) -> None:
        """Make the tasks of a group: first those of its decisions, in order, then those of `announce`."""
        for (event, _), row in zip(one.step.caused, one.envelopes[1:], strict=True):
            if isinstance(event, Decision):
                self._make_tasks(event, row.event_id, one.step.at)
        try:
            self._tasks.extend(self.announce(one.step))
        except Exception as error:
            self._on_error(fault_of(type(one.step.fact).__name__, error))

    def _make_tasks(self, decision: Decision, event_id: str, at: int) -> None:
        """Make the tasks of a decision. If that fails, the decision counts as refused."""
        try:
            self._tasks.extend(self.tasks_of(decision, event_id, at))
        except Exception as error:
            action = type(decision).__name__
            self._on_error(fault_of(f"{action} {decision.subject}", error))
            self._facts.append(
                WriteRefused(event_id, action, decision.subject, 0, "InternalError", type(error).__name__)
            )

    def _leave_out(self, fault: DdsError, at: int) -> None:
        """Report the fault and fold the log anew, because the failed input may have changed the state in part."""
        self._on_error(fault)
        self._state_invalid = True
        self._append(at)
        self._rebuild()

    def _rebuild(self) -> None:
        self._log_writer.away = True
        self._use(self._folded())
        self._log_writer.away = self._state_invalid = False

    def _folded(self) -> P:
        head = self.log.head()
        self._log_writer.position = head.position
        return fold_log(self.log.read_lean(after=max(0, head.checkpoint - 1)), component=self.component)

    def _use(self, state: P) -> None:
        self._engine = EngineOf(self.component, state)
        self._translator = self.translator(state)
        self._seen_capabilities = None


Make = Callable[[EventLog, EffectivePolicy, Surroundings[P]], Controller[P]]
"""Makes a controller on a log and under a policy. It is not opened yet."""
