"""A live process: threads that listen, one that decides and logs, threads that write, and the order in which they begin and end.
Which loop it runs, a scaler's or a publisher's, is given (`Make`).

The thread that calls `run` is the one that decides. Nothing is written without the lease (where there is one), while the log is
away, or after the end has begun; nothing here decides what is written.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from random import SystemRandom
from typing import Any, Generic, Protocol

import msgspec

from dds_adapters.kubernetes.cluster import Cluster, Refused, path_of
from dds_adapters.kubernetes.lease.elector import Elector, LeaseLost
from dds_adapters.kubernetes.limiter import Backoff
from dds_adapters.kubernetes.watch.arrivals import Arrival, DeltaQueue
from dds_adapters.kubernetes.watch.reflector import Reflector, stop_all
from dds_adapters.kubernetes.write.writer import Writer
from dds_adapters.runtime.loop import BATCH, Controller, Effective, Make, P, P_contra, Stall, Surroundings, Watcher
from dds_adapters.runtime.serve_settings import LiveSettings
from dds_core.errors import DdsError, LogUnavailable, PolicyError
from dds_core.log import EventLog

SECOND = 1_000_000
TOLERATED = 2 * SECOND
"""A difference that the server's whole seconds and the way of its answer explain."""


class LiveClock:
    """Instants in microseconds since 1970-01-01 UTC that never go back: the API server's, counted on by a clock that nobody sets.

    Facts of one log are made by one host after another, and their wall clocks differ; deadlines would come late or early by as
    much. The API server is the one that all of them ask."""

    def __init__(
        self,
        wall: Callable[[], int] = lambda: time.time_ns() // 1000,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steady = steady
        self._began = steady()
        self._base = wall()
        self.skew = 0
        """What the host's clock was ahead of the server's, in microseconds; 0 while it is not worth speaking of."""

    def now(self) -> int:
        """The instant."""
        return self._base + round((self._steady() - self._began) * SECOND)

    def go_by(self, server: int) -> None:
        """The server's clock shows `server` (to the second, 0 when it did not tell); before the first `now` that matters."""
        skew = self.now() - server
        if server and abs(skew) > TOLERATED:
            self.skew = skew
            self._base -= skew

    def not_before(self, instant: int) -> int:
        """Go on from the newest fact where that lies ahead; gives by how much that was."""
        ahead = max(0, instant - self.now())
        self._base += ahead
        return ahead


# -- which cluster it is ------------------------------------------------------------------------------------------------

ANSWER_SECONDS = 10.0
"""The longest that is waited: a signal that ends the process is heeded only after it."""


class _Meta(msgspec.Struct):
    uid: str


class _Namespace(msgspec.Struct):
    metadata: _Meta


_namespace = msgspec.json.Decoder(_Namespace)


def identify(cluster: Cluster) -> tuple[str, int]:
    """The UID of the namespace kube-system, which names the cluster, and the server's clock in microseconds (0: not told).

    Raises Refused, Unreachable, and DdsError for what is no answer of an API server."""
    answer = cluster.ask("GET", path_of("namespaces", "v1", name="kube-system"), timeout=ANSWER_SECONDS)
    where = f"{cluster.where} namespace kube-system"
    if answer.code >= 300:
        error = Refused(where, answer.code, "")
        if answer.code == 403:
            raise DdsError(error.what, where=where, fix="let this user get the namespace kube-system")
        raise error
    try:
        uid = _namespace.decode(answer.body).metadata.uid
    except ValueError:
        uid = ""
    if not uid:
        fix = "check the address of the API server, and what stands between"
        raise DdsError("answers with something else than a namespace", where=where, fix=fix)
    return uid, answer.date


# -- process -----------------------------------------------------------------------------------------------------------

GLANCE = 1.0
"""Seconds between looks at what nobody announces: the policy's file, the lease."""
LOOK = 5.0
"""Seconds between looks at what the cluster lacks."""
STANDSTILL = 10.0
"""Seconds beyond its time that a wait lasts when nothing of this process ran."""
WRITES_SECONDS, LEASE_SECONDS = 15.0, 5.0
"""What a graceful stop gives to writes under way, and to the release of the lease; together under the 30 s of a pod."""
LAST_SECONDS = 20.0
"""A process that lost its lease and still hangs in a call to its log after so long is ended."""


class Observer(Watcher[P_contra], Protocol[P_contra]):
    """Is told what a running process does: metrics, health and log lines, in one. Each call is made on the thread that decides,
    but `trouble`, which comes from any."""

    def began(self, process: Process[Any]) -> None:
        """Everything is made, nothing has begun."""

    def leads(self, leading: bool) -> None:
        """Whether this process is the one that decides."""

    def alive(self) -> None:
        """The loop came round, whatever it waits for."""

    def turned(self, state: P_contra, /) -> None:
        """Once around: something came, or a second went by."""

    def trouble(self, part: str, error: DdsError) -> None:
        """Something went wrong with a part, and is tried again."""


class Process(Generic[P]):
    """One scaler, or one publisher, for one cluster. `run` it in one thread; `stop` it from any, a signal's too.

    Its pieces are there to be looked at (metrics do): `arrivals`, `writer`, `reflectors`, `elector`, `controller`, `clock`."""

    def __init__(
        self,
        settings: LiveSettings,
        cluster: Cluster,
        open_log: Callable[[str], EventLog],
        policy: Callable[[], Effective],
        make: Make[P],
        *,
        observer: Observer[P],
        archive: Callable[[EventLog], None] | None = None,
    ) -> None:
        """`open_log` is given the UID of the namespace kube-system. `policy` is asked again each second and raises PolicyError;
        the first time at once. `archive` is called, in a thread of its own, after a checkpoint."""
        self.settings = settings
        self.cluster = cluster
        cluster.sparing = True
        self.clock = LiveClock()
        self.arrivals = DeltaQueue(self.clock.now)
        self.reflectors: dict[str, Reflector] = {}
        self.elector: Elector | None = None
        self.controller: Controller[P] | None = None
        self._open_log = open_log
        self._read_policy = policy
        self._policy = policy()
        self._policy_fault = ""
        self._make = make
        self._observer = observer
        self._archive = archive
        self._archiving: threading.Thread | None = None
        self._last: threading.Timer | None = None
        self._stopping = threading.Event()
        self._hanging = self._started = False
        self._looked = -math.inf
        self._lacks: frozenset[str] = frozenset()
        self.writer = Writer(
            cluster,
            self.version,
            threads=settings.writers,
            permit=self._permit,
            wake=self.arrivals.wake,
            on_error=lambda line: observer.trouble("writer", DdsError(line)),
        )

    # -- what others ask -----------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def leading(self) -> bool:
        """Whether this process may decide: it holds the lease, or needs none."""
        return self.elector is None or self.elector.remaining() > 0

    def version(self, resource: str) -> str:
        """The version in which a resource is followed, "" when it is not served."""
        reflector = self.reflectors.get(resource)
        return reflector.api_version if reflector is not None else ""

    def threads(self) -> dict[str, bool]:
        """Which of the threads that should run do, by name."""
        if not self._started:
            return {}
        ours = [*self.writer.threads, *(each.thread for each in self.reflectors.values())]
        ours += self.elector.threads if self.elector is not None else ()
        beside = self.controller.threads() if self.controller is not None else {}
        return {**{thread.name: thread.is_alive() for thread in ours}, **beside}

    def stop(self) -> None:
        """End in order, soon."""
        self._stopping.set()
        self.arrivals.wake()

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until `stop`. Raises LeaseLost, Fenced, the errors of a log that cannot be used, and Refused or Unreachable when the
        cluster cannot even be identified."""
        uid = self._identify()
        self._observer.began(self)
        with ExitStack() as ends:
            ends.callback(self._ended)
            if self.settings.leader_elect and not self._elected(ends):
                return
            controller = self._opened(uid)
            if controller is None:
                return
            self._observer.leads(True)
            self._listen(controller)
            ends.callback(self._close, controller)
            self.writer.start()
            self._started = True
            self._decide(controller)

    def _identify(self) -> str:
        """Which cluster it is, by the UID of its namespace kube-system; and what its clock shows."""
        uid, server = identify(self.cluster)
        self.clock.go_by(server)
        if self.clock.skew:
            what = f"this host's clock is {self.clock.skew / SECOND:+.0f} s off; the server's time is gone by"
            self._observer.trouble("clock", DdsError(what, where=self.cluster.where, fix="correct the host's clock"))
        return uid

    def _elected(self, ends: ExitStack) -> bool:
        """Wait for the lease; False when the end came before."""
        settings = self.settings
        elector = self.elector = Elector(
            self.cluster,
            settings.lease_namespace,
            settings.lease_name,
            settings.identity,
            settings.lease,
            on_lost=self._lost,
            on_error=lambda line: self._observer.trouble("lease", DdsError(line)),
        )
        elector.start()
        ends.callback(self._released, elector)
        self._observer.leads(False)
        while not self.stopping:
            self._observer.alive()
            if elector.lead(GLANCE):
                return True
        return False

    def _released(self, elector: Elector) -> None:
        """Give the lease back; when a write still hangs it runs out by itself."""
        if not self._hanging:
            elector.stop(LEASE_SECONDS)

    def _lost(self, error: LeaseLost) -> None:
        """The lease is gone: nothing is begun any more, and the process is to end even if the log never answers."""
        self.arrivals.wake()
        last = self._last = threading.Timer(LAST_SECONDS, _end_now)
        last.daemon = True
        last.start()

    def _ended(self) -> None:
        """It did not hang: who made it may go on."""
        if self._last is not None:
            self._last.cancel()

    def _opened(self, uid: str) -> Controller[P] | None:
        """Who decides, on its log; None when the end came before the log did."""
        backoff = Backoff(SystemRandom(), longest=5.0)
        around = Surroundings(self.cluster, self.arrivals, self.version, (self._observer,), self._observer.trouble)
        while not self.stopping:
            try:
                controller = self._make(self._open_log(uid), self._policy, around)
                controller.open(self.clock.now())
            except LogUnavailable as error:
                self._observer.trouble("log", error)
                self._observer.alive()
                self._stopping.wait(backoff.failed(0.0))
                self._check()
            else:
                self.controller = controller
                ahead = self.clock.not_before(controller.state.now)
                if ahead > SECOND:
                    what = (
                        f"the log's newest fact is {ahead / SECOND:.0f} s ahead of the clock, which goes on from there"
                    )
                    self._observer.trouble("clock", DdsError(what, fix="correct the clocks of hosts and API server"))
                return controller
        return None

    def _listen(self, controller: Controller[P]) -> None:
        known = controller.seeds()
        for one in controller.watched():
            reflector = Reflector(
                one, self.cluster, self.arrivals, self._observer.trouble, known=known.get(one.resource, ())
            )
            self.reflectors[one.resource] = reflector
        for reflector in self.reflectors.values():
            reflector.start()
        controller.begin()

    def _close(self, controller: Controller[P]) -> None:
        """Watches end, writes under way come to their end and are logged, the rest stays in the log to be decided again."""
        self._stopping.set()
        hanging = [*stop_all(self.reflectors.values()), *controller.end()]
        self._hanging = not self.writer.stop(WRITES_SECONDS)
        if self._hanging:
            self._observer.trouble(
                "writer", DdsError("a write still hangs", fix="its outcome is observed at the next start")
            )
        for name in hanging:
            self._observer.trouble(name, DdsError("a request still hangs", fix="it ends with the process"))
        try:
            controller.turn((), self.writer.outcomes(), self.clock.now())
        except DdsError as error:
            self._observer.trouble("log", error)
        if self._archiving is not None:
            self._archiving.join(WRITES_SECONDS / 3)

    # -- deciding ------------------------------------------------------------------------------------------------

    def _decide(self, controller: Controller[P]) -> None:
        away = Backoff(SystemRandom(), first=0.2, longest=5.0)
        while not self.stopping:
            arrivals, stall = self._taken(controller) if not controller.away else ([], None)
            self._check()  # behind all that may have taken long
            try:
                tasks = controller.turn(arrivals, self.writer.outcomes(), self.clock.now(), stall=stall)
            except LogUnavailable as error:
                self._observer.trouble("log", error)
                self._observer.alive()
                self._stopping.wait(away.failed(0.0))
                continue
            if self._stopping.is_set():
                return  # what was decided in this last moment is decided again at the next start
            self.writer.limit(controller.limit)
            self.writer.put(tasks)
            while controller.wanted_lists:
                self.reflectors[controller.wanted_lists.pop()].relist()
            controller.turned()
            self._look_at_policy(controller)
            self._look_at_cluster(controller)
            self._checkpoint(controller, idle=not arrivals)
            self._observer.turned(controller.state)

    def _taken(self, controller: Controller[P]) -> tuple[list[Arrival], Stall | None]:
        """What came, and whether this process stood still meanwhile."""
        patience, at, began = self._patience(controller), self.clock.now(), time.monotonic()
        arrivals = self.arrivals.take(patience, BATCH)
        stood = time.monotonic() - began - patience
        if stood < STANDSTILL:
            return arrivals, None
        self._observer.trouble("loop", DdsError(f"stood still for {stood:.0f} s", fix="give this process its CPU time"))
        return arrivals, Stall(at, stood)

    def _check(self) -> None:
        if self.elector is not None:
            self.elector.check()

    def _patience(self, controller: Controller[P]) -> float:
        due = controller.due()
        wait = math.inf if due is None else (due - self.clock.now()) / SECOND
        return min(GLANCE, max(0.0, wait))

    def _permit(self) -> float:
        """Seconds for which a write may run that begins now."""
        if self.stopping or self.controller is None or self.controller.away:
            return 0.0
        return math.inf if self.elector is None else self.elector.remaining()

    def _look_at_policy(self, controller: Controller[P]) -> None:
        try:
            policy = self._read_policy()
        except PolicyError as error:
            if str(error) != self._policy_fault:
                self._policy_fault = str(error)
                self._observer.trouble("policy", error)
            return
        self._policy_fault = ""
        if policy != self._policy:
            self._policy = policy
            controller.change_policy(policy)
            self.arrivals.wake()

    def _look_at_cluster(self, controller: Controller[P]) -> None:
        """Tell, once, what it lacks."""
        now = time.monotonic()
        if not controller.synced or now - self._looked < LOOK:
            return
        self._looked = now
        found = {str(one): one for one in controller.preflight(self.cluster.where)}
        for line in found.keys() - self._lacks:
            self._observer.trouble("cluster", found[line])
        self._lacks = frozenset(found)

    def _checkpoint(self, controller: Controller[P], *, idle: bool) -> None:
        every = self.settings.checkpoint_events
        since = controller.position - controller.checkpoint_at
        if not every or since < every or not controller.synced or (not idle and since < 2 * every):
            return
        try:
            controller.checkpoint(self.clock.now())
        except LogUnavailable as error:
            self._observer.trouble("log", error)
            return
        if self._archive is not None and (self._archiving is None or not self._archiving.is_alive()):
            self._archiving = threading.Thread(target=self._archived, args=(self._archive, controller), name="archive")
            self._archiving.daemon = True
            self._archiving.start()

    def _archived(self, archive: Callable[[EventLog], None], controller: Controller[P]) -> None:
        try:
            archive(controller.log)
        except DdsError as error:
            self._observer.trouble("archive", error)


def _end_now() -> None:
    os._exit(1)
