"""The product's scaler and publisher in a lab on virtual time.

The code that decides, logs, queues and writes is the product's. The lab replaces only what waits: mirrors replace the
reflectors, `Rounds` the threads of the fabric poller, one timer the process's own loop. A driver knows only what a client of
the API can know.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic
from urllib.parse import urlencode

import msgspec

from dds_adapters.fabric.fabric_settings import FabricSettings, Outside
from dds_adapters.fabric.provider import Provider
from dds_adapters.fabric.registry import open_provider
from dds_adapters.fabric.survey import Answer, Question, entries, survey
from dds_adapters.kubernetes.cluster import Answer as HttpAnswer
from dds_adapters.kubernetes.cluster import Unreachable, path_of
from dds_adapters.kubernetes.watch.delta_queue import LOST, STALE, SYNCED, DeltaQueue
from dds_adapters.kubernetes.watch.object_store import Identity, ObjectStore, identity
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS, WatchSpec
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.tasks import Guard, NotLeading, Task, carry_out
from dds_adapters.runtime.loop import BATCH, CommitListener, Controller, EffectivePolicy, P, Stall, Surroundings
from dds_adapters.runtime.process import STANDSTILL
from dds_adapters.runtime.publisher import Answers, Pollers, PublisherController
from dds_adapters.runtime.publishing import ApiProbe
from dds_adapters.runtime.scaler import make_scaler
from dds_core.errors import DdsError, Fenced, LogUnavailable
from dds_core.events import Event
from dds_core.log import EventLog
from dds_core.publisher.model import Machine, PoolModel
from dds_core.publisher.policy import PublishPolicy
from dds_core.publisher.state import PoolState
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State
from dds_lab.api.requests import MASTERS, Request, Response, User
from dds_lab.api.server import ApiServer
from dds_lab.api.status import ApiError
from dds_lab.api.watches import Stream
from dds_lab.client import Client, Mirror
from dds_lab.lab import Lab
from dds_lab.latency import Latency, LogNormal
from dds_lab.manager import Manager
from dds_lab.manager.transport import ManagerTransport
from dds_lab.time import MICROSECONDS, Time, Timer

# -- the API server without a socket -----------------------------------------------------------------------------------

Before = Callable[[str, str], None]
"""Called with the method and path of a request, before or after it is made. An exception that it raises replaces the answer."""


class Direct:
    """One user's requests to the API server (`Cluster.ask`), answered within the call. `requests` counts them by method."""

    def __init__(self, server: ApiServer, user: str, groups: tuple[str, ...] = (MASTERS,)) -> None:
        self._token = f"direct-{user}"
        self.before: Before | None = None
        self.after: Before | None = None
        self.carry: Callable[[Request], Response | Stream] = server.respond
        self.requests: dict[str, int] = {}
        server.access.register(self._token, User(user, groups))

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 60.0,
    ) -> HttpAnswer:
        """The answer, whatever its status. TypeError for a watch."""
        if self.before is not None:
            self.before(method, path)
        self.requests[method] = self.requests.get(method, 0) + 1
        headers = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
        if body is not None:
            headers["content-type"] = content_type
        response = self.carry(Request(method, path, urlencode(query or {}), headers, body or b""))
        if self.after is not None:
            self.after(method, path)
        if isinstance(response, Stream):
            raise TypeError("a watch has no whole answer")
        wait = response.headers.get("Retry-After", "")
        return HttpAnswer(response.code, response.body, float(wait) if wait.isdigit() else 0.0)


# -- questions to a fabric ---------------------------------------------------------------------------------------------

Models = tuple[PoolModel, ...]
_ANSWER = LogNormal(0.02, 0.5, 0.5)


@dataclass(frozen=True)
class Pace:
    """Seconds between the starts of rounds, seconds that an answer takes, and the number of questions at the same time."""

    interval: float = 5.0
    answer: Latency = _ANSWER
    connections: int = 4


PACE = Pace()


class Rounds:
    """Polls a fabric in rounds, one at a time. After a change of the wanted models the next round starts without a pause. The
    questions are the product's (`fabric.survey`). Several run side by side, each takes its time, and waits within one (retries,
    a slow manager) add to it."""

    def __init__(
        self,
        time: Time,
        reach: Callable[[Outside], Provider],
        pace: Pace,
        answered: Callable[[Answer], None],
        ended: Callable[[Models], None],
        instant: Callable[[], int] = int,
    ) -> None:
        self._time = time
        self._random = time.random("rounds")
        self._pace = pace
        self._answered = answered
        self._ended = ended
        self._instant = instant
        self._spent = 0.0
        outside = Outside(clock=self._clock, wall=self._clock, sleep=self._spend, random=time.random("rounds/client"))
        self._provider = reach(outside)
        self._known: Sequence[Machine] = ()
        self._wanted: Models | None = None
        self._round: _Round | None = None
        self._next: Timer | None = None
        self.begun = self.rounds = 0
        """Numbers of rounds that began and ended."""
        self.name, self.alive = "rounds", True

    def start(self) -> None:
        """No effect: `look_for` starts the first round."""

    def look_for(self, models: Models, machines: Iterable[Machine]) -> None:
        """Poll for these models from now on. `machines` are the known ones."""
        self._known = tuple(machines)
        if models != self._wanted:
            self._wanted = models
            if self._round is None:
                self._begin()

    def stop(self, seconds: float) -> bool:
        """True: there is no thread to wait for."""
        return True

    def end(self) -> None:
        """Stop polling. Answers under way are dropped."""
        if self._next is not None:
            self._next.cancel()
        if self._round is not None:
            self._round.stopped = True

    def _begin(self) -> None:
        assert self._wanted is not None
        if self._next is not None:
            self._next.cancel()
        self._next = self._time.after(self._pace.interval, self._due)
        number, self.begun = self.begun, self.begun + 1
        round = self._round = _Round(self._wanted)
        self._ask(
            round,
            lambda: survey(
                self._provider, round.models, number, round.answers.append, lambda: round.stopped,
                known=self._known, run=round.left.extend, instant=self._instant,
            ),
        )  # fmt: skip

    def _due(self) -> None:
        self._next = None
        if self._round is None:
            self._begin()

    def _ask(self, round: _Round, question: Question) -> None:
        """Ask, and deliver the answers after the time that the question took."""
        round.under_way += 1
        self._spent = 0.0
        question()
        took, self._spent = self._spent + self._pace.answer.draw(self._random), 0.0
        answers, round.answers[:] = list(round.answers), []
        self._time.after(took, partial(self._deliver, round, answers))

    def _deliver(self, round: _Round, answers: list[Answer]) -> None:
        round.under_way -= 1
        if round.stopped:
            return
        for answer in answers:
            self._answered(answer)
        while round.left and round.under_way < self._pace.connections:
            self._ask(round, round.left.popleft())
        if not round.under_way:
            self._round = None
            self.rounds += 1
            if (told := entries(self._provider)) is not None:
                self._answered(told)
            self._ended(round.models)
            if self._next is None or round.models != self._wanted:
                self._begin()

    def _clock(self) -> float:
        return self._time.now() / MICROSECONDS + self._spent

    def _spend(self, seconds: float) -> None:
        self._spent += seconds


@dataclass
class _Round:
    """A round in progress: the questions that are left, and how many await an answer."""

    models: Models
    left: deque[Question] = field(default_factory=deque)
    answers: list[Answer] = field(default_factory=list)
    under_way: int = 0
    stopped: bool = False


# -- the driver --------------------------------------------------------------------------------------------------------

WORKERS = 8
RETRY_SECONDS = 1.0
ABSENT_SECONDS = 8.0
_WATCH, _WRITE = LogNormal(0.004, 0.4, 0.05), LogNormal(0.006, 0.4, 0.1)


@dataclass(frozen=True)
class OurTimes:
    """Seconds for steps that take no virtual time by themselves."""

    watch: Latency = _WATCH
    write: Latency = _WRITE
    turn: float = 0.003


USUAL = OurTimes()


SILENT = 150
"""Seconds without news after which a view is stale."""


class _Nudging(DeltaQueue):
    """A delta queue that wakes its consumer."""

    def __init__(self, now: Callable[[], int], steady: Callable[[], float], nudge: Callable[[], None]) -> None:
        super().__init__(now, steady)
        self._nudge = nudge

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        super().put(resource, uid, type, raw)
        self._nudge()

    def mark(self, resource: str, marker: str, since: int = 0, *, anew: bool = False) -> None:
        super().mark(resource, marker, since, anew=anew)
        self._nudge()

    def wake(self) -> None:
        self._nudge()


class OurProcess(Generic[P]):
    """A process of the product in a lab. `kill` ends it as a crash does, and so does `stop`, which waits for no write. Another
    process on the same log can continue.

    `skew` is how many seconds its clock is ahead of the server's. `requests` makes its API requests and has the hooks for
    faults. `leads` gives the seconds for which it holds its lease. `crashed` is what ended it, None while it runs.
    """

    controller: Controller[P]

    def __init__(
        self,
        lab: Lab,
        user: str,
        groups: tuple[str, ...] = (MASTERS,),
        times: OurTimes = USUAL,
        skew: float = 0.0,
        listeners: Sequence[CommitListener[P]] = (),
    ) -> None:
        self.requests = Direct(lab.server, user, groups)
        self.outbox = Outbox(lab.time.random(f"{user}/outbox"))
        self.faults: list[DdsError] = []
        self.crashed: BaseException | None = None
        self.alive = False
        """Whether it was started and has not ended."""
        self.leads: Callable[[], float] = lambda: math.inf
        self._time: Time = lab.time
        self.client = Client(lab.server, lab.time, user, groups)
        self._times = times
        self._random = lab.time.random(f"{user}/times")
        self._skew = round(skew * MICROSECONDS)
        self.arrivals = _Nudging(self._now, self._steady, self.wake)
        self.around = Surroundings(self.requests, self.arrivals, self.version, listeners, self._trouble)
        self._followed: dict[str, _Followed] = {}
        self._facts: list[Event] = []
        self._running = 0
        self._look_at: float | None = None
        self._due: Timer | None = None
        self._due_at = 0
        self._stall: Stall | None = None
        self._asleep_until = 0

    def start(self) -> None:
        """Load the log, then list and watch. Raises the errors of the log."""
        self.controller.open(self._now())
        # As the live clock: not before the log's newest fact.
        self._skew += max(0, self.controller.state.process.now - self._now())
        self.alive = True
        known = self.controller.seeds()
        for one in self.controller.watched():
            self._followed[one.resource] = _Followed(self, one, known.get(one.resource, ()))
        for followed in self._followed.values():
            followed.begin()
        self.controller.begin()

    def stop(self) -> None:
        """What has not begun stays in the log, to be decided again."""
        self.kill()

    def kill(self) -> None:
        """End without another step. Requests already sent have their effect."""
        self.alive = False
        if self._due is not None:
            self._due.cancel()
        for followed in self._followed.values():
            followed.end()
        self.controller.end()

    @property
    def followed(self) -> tuple[str, ...]:
        return tuple(self._followed)

    def cut(self, resource: str, seconds: float) -> None:
        """Break the watch of a resource for `seconds`."""
        self._followed[resource].cut(seconds)

    def heard_until(self, resource: str) -> int:
        """The instant up to which it knows the changes of a resource."""
        return self._followed[resource].deaf_since or self._time.now()

    def pause(self, seconds: float) -> None:
        """Stand still for `seconds`, then continue."""
        self._stall = Stall(self._now(), seconds)
        self._asleep_until = self._time.now() + round(seconds * MICROSECONDS)
        self.wake()

    def step_clock(self, seconds: float) -> None:
        """Its clock steps, back if `seconds` is negative. That of `dds serve` does not while it runs; a program's own may."""
        self._skew += round(seconds * MICROSECONDS)
        self.wake()

    def change_policy(self, policy: EffectivePolicy) -> None:
        self.controller.change_policy(policy)
        self.wake()

    def wake(self) -> None:
        """Schedule a turn."""
        self._turn_at(self._time.now() + round(self._times.turn * MICROSECONDS))

    # -- deciding, as `Process` does ----------------------------------------------------------------------------

    def _turn_at(self, at: int) -> None:
        at = max(at, self._asleep_until)
        if not self.alive or (self._due is not None and self._due_at <= at):
            return
        if self._due is not None:
            self._due.cancel()
        self._due_at = at
        self._due = self._time.after((at - self._time.now()) / MICROSECONDS, self._turn)

    def _turn(self) -> None:
        self._due = None
        if not self.alive:
            return
        if self._time.now() < self._asleep_until:
            self._turn_at(self._asleep_until)
            return
        try:
            tasks = self._decided()
        except LogUnavailable:
            self._turn_at(self._time.now() + round(RETRY_SECONDS * MICROSECONDS))
            return
        except Fenced as error:
            self.crashed = error
            self.kill()
            return
        except Exception as error:  # an injected exit or a bug: the process has ended
            self.crashed = error
            self.kill()
            raise
        self._tell(self.outbox.limit(self.controller.limit))
        self._tell(self.outbox.put(tasks, self._steady()))
        for resource in self.controller.take_wanted_lists():
            self._followed[resource].relist()
        self._write()
        self.controller.after_turn()
        due = self.controller.due()
        if due is not None:
            self._turn_at(max(self._time.now(), due - self._skew))

    def _decided(self) -> list[Task]:
        arrived, away = [], self.controller.away
        if not away:
            arrived = self.arrivals.take(0, BATCH)
        facts, self._facts = self._facts, []
        stall, self._stall = self._stall, None
        long = stall if stall is not None and stall.seconds >= STANDSTILL else None
        tasks = self.controller.turn(arrived, facts, self._now(), stall=long)
        if away or len(self.arrivals):
            self.wake()  # for what has arrived since
        return tasks

    # -- writing, as the threads of `Writer` do -----------------------------------------------------------------

    def _write(self) -> None:
        while self.alive and self._running < WORKERS and not self.controller.away:
            task = self.outbox.next(self._steady())
            if isinstance(task, Task):
                self._running += 1
                self._time.after(self._times.write.draw(self._random), partial(self._carry_out, task))
            elif task is not None and (self._look_at is None or task < self._look_at):
                self._look_at = task
                self._time.after(max(0.001, task - self._steady()), self._look)
                return
            else:
                return

    def _look(self) -> None:
        self._look_at = None
        self._write()

    def _carry_out(self, task: Task) -> None:
        if not self.alive:
            return
        if (asleep := self._asleep_until - self._time.now()) > 0:
            self._time.after(asleep / MICROSECONDS, partial(self._carry_out, task))
            return
        self._running -= 1
        guard = Guard(self.requests, self._permit, lambda: self.outbox.request(task, self._steady()))
        try:
            result = carry_out(task, guard, self.version, lambda line: self.faults.append(DdsError(line)))
        except NotLeading:
            self._tell([self.outbox.returned(task)])
            return
        self._tell([self.outbox.finished(task, result, self._steady())])
        self._write()

    def _permit(self) -> float:
        return self.leads() if self.alive and not self.controller.away else 0.0

    def _tell(self, facts: Sequence[Event | None]) -> None:
        told = [fact for fact in facts if fact is not None]
        if told:
            self._facts.extend(told)
            self.wake()

    def version(self, resource: str) -> str:
        """The API version in which the lab serves a resource, "" if it does not."""
        registry = self.client.server.registry
        for api_version in VERSIONS[resource]:
            group, _, version = api_version.rpartition("/")
            if registry.find(group, version, resource) is not None:
                return api_version
        return ""

    def _trouble(self, part: str, error: DdsError) -> None:
        self.faults.append(error)

    def _now(self) -> int:
        return self._time.now() + self._skew

    def _steady(self) -> float:
        return self._time.now() / MICROSECONDS


class _Followed:
    """Follows one resource with a mirror, in the place of a reflector."""

    def __init__(self, ours: OurProcess[Any], what: WatchSpec, known: Iterable[Identity]) -> None:
        self._ours = ours
        self._what = what
        self._known = ObjectStore(partial(ours.arrivals.put, what.resource), what.matters, known)
        self._mirror: Mirror | None = None
        self._ended = self._anew = False
        self.deaf_since = 0
        """The instant since which the watch is broken; 0 if it is not."""

    def begin(self) -> None:
        """List and follow; retry until it succeeds."""
        if self._ended:
            return
        ours, scope = self._ours, self._what.scope
        since = ours._now()
        version = ours.version(self._what.resource)
        try:
            if not version:
                raise ApiError(404, "NotFound", "is not served")
            group, _, short = version.rpartition("/")
            name = f"{self._what.resource}.{short}.{group}"
            self._mirror = ours.client.mirror(name, ours._times.watch, fields=scope.fields, namespace=scope.namespace)
        except ApiError as error:
            if error.code in (403, 404):
                ours.arrivals.mark(self._what.resource, LOST)
            ours._time.after(ABSENT_SECONDS, self.begin)
            return
        listing = self._known.begin()
        for obj in self._mirror.values():
            self._known.in_list(listing, msgspec.json.encode(obj))
        self._known.end(listing)
        self._settle()
        self._mirror.on_change(self._changed)
        self.deaf_since = 0
        ours.arrivals.mark(self._what.resource, SYNCED, since=since, anew=self._anew)
        self._anew = False

    def relist(self) -> None:
        """List again although nothing broke."""
        self._close()
        self._ours._time.after(self._ours._times.write.draw(self._ours._random), self.begin)

    def cut(self, seconds: float) -> None:
        """Break the watch for `seconds`."""
        self.deaf_since = self.deaf_since or self._ours._time.now()
        self._anew = True
        self._close()
        self._ours._time.after(seconds, self.begin)
        if seconds >= SILENT:
            self._ours._time.after(SILENT, self._stale)

    def end(self) -> None:
        self._ended = True
        self._close()

    def _close(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
            self._mirror = None

    def _stale(self) -> None:
        if not self._ended:
            self._ours.arrivals.mark(self._what.resource, STALE)

    def _changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if new is not None:
            self._known.is_there(msgspec.json.encode(new))
        elif old is not None:
            raw = msgspec.json.encode(old)
            self._known.has_left(identity(raw).uid, raw)
            self._settle()

    def _settle(self) -> None:
        """Ask the API server for each object that left the scope: it may have changed or be gone."""
        if self._ended:
            return
        for uid, seen in self._known.doubtful():
            version = self._ours.version(self._what.resource)
            path = path_of(self._what.resource, version, seen.namespace, seen.name)
            try:
                answer = self._ours.requests.ask("GET", path)
            except Unreachable:
                answer = HttpAnswer(0, b"")
            if answer.code in (200, 404):
                self._known.settle(uid, answer.body if answer.code == 200 else None)
            else:
                self._ours._time.after(RETRY_SECONDS, self._settle)
                return


# -- scaler and publisher ----------------------------------------------------------------------------------------------

SCALER_USER = "system:serviceaccount:composable-dra:dds"
PUBLISHER_USER = "system:serviceaccount:composable-dra:dds-publisher"
CODE = "lab"
"""What logs name as the code that decides."""


class OurScaler(OurProcess[State]):
    def __init__(
        self, lab: Lab, log: EventLog, policy: Policy, *, user: str = SCALER_USER, code: str = CODE, **more: Any
    ) -> None:
        """`more`: as of `OurProcess`."""
        super().__init__(lab, user, **more)
        self.controller = self.scaler = make_scaler(code)(log, policy, self.around)


Reach = Callable[[Outside], Provider]
"""Opens a fabric's provider, given its clock, sleep and randomness."""


def by_manager(manager: Manager, settings: FabricSettings) -> Reach:
    """Opens a simulated manager with the product's own client."""

    def reach(outside: Outside) -> Provider:
        def sleep(seconds: float) -> None:
            outside.sleep(seconds)

        transport = ManagerTransport(manager, sleep=sleep)
        return open_provider(settings, replace(outside, transport=transport))

    return reach


class _ProbeTimer(ApiProbe):
    """The probe for what the API server keeps of a slice, on a timer instead of a thread."""

    def __init__(self, ours: OurProcess[PoolState], answers: Answers) -> None:
        version = partial(ours.version, "resourceslices")
        super().__init__(ours.requests, version, answers, on_error=ours.faults.append, random=ours._random)
        self._ours = ours
        self._waits = False

    def start(self) -> None:
        """No effect: `look` starts the first probe."""

    def look(self, driver: str, *, dropped: bool) -> None:
        super().look(driver, dropped=dropped)
        self._again(self._ours._times.write.draw(self._ours._random))

    def _again(self, seconds: float) -> None:
        if not self._waits and self.due():
            self._waits = True
            self._ours._time.after(seconds, self._tick)

    def _tick(self) -> None:
        self._waits = False
        if self._ours.alive and self.due():
            self._again(self.ask())


class OurPublisher(OurProcess[PoolState]):
    """The publisher in a lab. `rounds` polls its fabric."""

    def __init__(
        self,
        lab: Lab,
        log: EventLog,
        policy: PublishPolicy,
        reach: Reach,
        *,
        user: str = PUBLISHER_USER,
        pace: Pace = PACE,
        listeners: Sequence[CommitListener[PoolState]] = (),
        **more: Any,
    ) -> None:
        """`more`: as of `OurProcess`."""
        super().__init__(lab, user, listeners=listeners, **more)
        answers = Answers(self._now, self.wake, self._steady)
        self.rounds = Rounds(lab.time, reach, pace, answers.put, answers.ended, self._now)
        pollers = Pollers(answers, self.rounds, _ProbeTimer(self, answers))
        self.controller = self.publisher = PublisherController(
            log, policy, code=CODE, listeners=listeners, on_error=self.faults.append, pollers=pollers
        )
