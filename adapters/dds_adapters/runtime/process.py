"""A live process of one component: threads that watch, one that decides and logs, threads that write, and the order in which
they start and stop. The caller gives the component's loop (`Make`).

The thread that calls `run` decides. Nothing is written without the lease (if leader election is on), while the log is
unavailable, or after the stop has begun.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from random import SystemRandom
from typing import Any, Generic, Protocol

import msgspec

from dds_adapters.kubernetes.cluster import Cluster, Refused, Unreachable, path_of
from dds_adapters.kubernetes.lease.elector import Elector, LeaseLost
from dds_adapters.kubernetes.limiter import Backoff
from dds_adapters.kubernetes.watch.delta_queue import Arrival, DeltaQueue
from dds_adapters.kubernetes.watch.reflector import Reflector, stop_all
from dds_adapters.kubernetes.write.writer import Writer
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.loop import (
    BATCH,
    CommitListener,
    Controller,
    EffectivePolicy,
    Make,
    P,
    P_contra,
    Stall,
    Surroundings,
    checkpoint_after,
)
from dds_core.errors import DdsError, Fenced, LogUnavailable, PolicyError, Unfoldable
from dds_core.events import PolicyChanged
from dds_core.log import CHECKPOINT, Anchor, EventLog
from dds_core.log.codec import BadLine, decode_anchor, encode_anchor

SECOND = 1_000_000
TOO_MANY = 429
TOLERATED = 2 * SECOND
"""A difference of clocks that the server's whole seconds and the network can explain."""


class LiveClock:
    """Instants in microseconds since 1970-01-01 UTC that never go back: the API server's time plus the local monotonic clock.

    Several hosts write facts of one log, one after the other. Their wall clocks differ, and deadlines would be wrong by as
    much. All hosts use the same API server, so its time is used."""

    def __init__(
        self,
        wall: Callable[[], int] = lambda: time.time_ns() // 1000,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steady = steady
        self._began = steady()
        self._base = wall()
        self.skew = 0
        """By how much the host's clock was ahead of the server's, in microseconds; 0 when it was within `TOLERATED`."""

    def now(self) -> int:
        return self._base + round((self._steady() - self._began) * SECOND)

    def go_by(self, server: int) -> None:
        """Follow the server's clock, which shows `server` (in whole seconds; 0: unknown). Call it before `now` is used."""
        skew = self.now() - server
        if server and abs(skew) > TOLERATED:
            self.skew = skew
            self._base -= skew

    def not_before(self, instant: int) -> int:
        """Continue from `instant`, that of the log's newest fact, if it is ahead. Returns by how much it was."""
        ahead = max(0, instant - self.now())
        self._base += ahead
        return ahead


# -- which cluster it is ------------------------------------------------------------------------------------------------

ANSWER_SECONDS = 10.0
"""Time limit of this request. A signal that stops the process takes effect only after it."""


class _Meta(msgspec.Struct):
    uid: str


class _Namespace(msgspec.Struct):
    metadata: _Meta


_namespace = msgspec.json.Decoder(_Namespace)


def identify(cluster: Cluster) -> tuple[str, int]:
    """The UID of the namespace kube-system, which identifies the cluster, and the server's clock in microseconds (0: unknown).
    Raises Refused, Unreachable, and DdsError for an answer that is not an API server's."""
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
"""Longest wait for arrivals, in seconds: the policy's file and the lease have to be polled."""
LOOK = 5.0
"""Seconds between two runs of `Controller.preflight`."""
STANDSTILL = 10.0
"""A wait that lasts so many seconds too long means that the process got no CPU."""
WRITES_SECONDS, LEASE_SECONDS = 15.0, 5.0
"""Time for running writes, and for the release of the lease, at a graceful stop. Together less than the 30 s of a pod."""
WRITE_SECONDS = 10.0
"""What each write is given at least: webhooks may take so long by default."""
LAST_SECONDS = 20.0
"""A process that has lost its lease and still hangs in a call to its log after so many seconds is killed."""


class Observer(CommitListener[P_contra], Protocol[P_contra]):
    """Gets the news of a running process, for metrics, health and log lines. All calls come from the thread that decides,
    except `trouble`, which comes from any."""

    def began(self, process: Process[Any]) -> None:
        """All parts of the process are made; none has started."""

    def leads(self, leading: bool, why: str = "") -> None:
        """Whether this process decides, or is a standby. `why`: which process leads, or when the lease can be taken."""

    def alive(self) -> None:
        """The loop is running, even if it waits for the lease or the log."""

    def on_turn(self, state: P_contra, /) -> None:
        """The end of a turn: something came, or a second passed."""

    def trouble(self, part: str, error: DdsError) -> None:
        """A part of the process has an error and will try again."""


class Process(Generic[P]):
    """One component for one cluster. Call `run` in one thread; `stop` from any thread or a signal handler.

    Observers may read its parts: `arrivals`, `writer`, `reflectors`, `elector`, `controller`, `clock`."""

    def __init__(
        self,
        settings: LiveSettings,
        cluster: Cluster,
        open_log: Callable[[str], EventLog],
        policy: Callable[[], EffectivePolicy],
        make: Make[P],
        *,
        observer: Observer[P],
        archive: Callable[[EventLog], None] | None = None,
        stored: Callable[[Mapping[str, Any]], EffectivePolicy] | None = None,
    ) -> None:
        """`open_log` is called with the UID of the namespace kube-system. `policy` is read here and then every second; it may
        raise PolicyError. While it does, the log's last policy is in force, which `stored` reads; without `stored` or such a
        log the error ends the process. `archive` is called after a checkpoint, in its own thread."""
        self.settings = settings
        self.cluster = cluster
        cluster.sparing = True
        self.clock = LiveClock()
        self.elector: Elector | None = None
        self._open_log = open_log
        self._read_policy = policy
        self._stored = stored
        self._policy: EffectivePolicy | None = None
        self._policy_error: PolicyError | None = None
        try:
            self._policy = policy()
        except PolicyError as error:
            if stored is None:
                raise
            self._policy_error = error
        self._policy_fault = ""
        self._make = make
        self._observer = observer
        self._archive = archive
        self._archiving: threading.Thread | None = None
        self._last: threading.Timer | None = None
        self._stopping = threading.Event()
        self._looked = -math.inf
        self._lacks: frozenset[str] = frozenset()
        self._make_parts()

    def _make_parts(self) -> None:
        """The parts of one reign: those of the one before have ended, or hang and are let go."""
        self.arrivals = arrivals = DeltaQueue(self.clock.now)
        self.reflectors: dict[str, Reflector] = {}
        self.controller: Controller[P] | None = None
        self._hanging = self._started = False
        self.writer = Writer(
            self.cluster,
            self.version,
            threads=self.settings.writers,
            permit=self._permit,
            wake=arrivals.wake,
            on_error=lambda line: self._observer.trouble("writer", DdsError(line)),
        )

    # -- for other threads ---------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def leading(self) -> bool:
        """Whether this process may decide: it holds the lease, or needs none."""
        return self.elector is None or self.elector.remaining() > 0

    def version(self, resource: str) -> str:
        """The API version in which a resource is watched; "" when it is not served."""
        reflector = self.reflectors.get(resource)
        return reflector.api_version if reflector is not None else ""

    def threads(self) -> dict[str, bool]:
        """The threads that should run, and whether each is alive."""
        if not self._started:
            return {}
        ours = [*self.writer.threads, *(each.thread for each in self.reflectors.values())]
        ours += self.elector.threads if self.elector is not None else ()
        beside = self.controller.threads() if self.controller is not None else {}
        return {**{thread.name: thread.is_alive() for thread in ours}, **beside}

    def stop(self) -> None:
        """Stop gracefully. Returns at once."""
        self._stopping.set()
        self.arrivals.wake()

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until `stop`. A lost lease makes it a standby again. Raises Fenced, LogWentBack, the errors of a log that cannot be
        used, and Refused when the API server does not let it identify the cluster."""
        self._observer.began(self)
        uid = self._identify()
        while not self.stopping:
            try:
                self._reign(uid)
                return
            except (LeaseLost, Fenced) as error:
                if self._hanging or self.elector is None or self.elector.remaining() > 0:
                    raise  # a late write of this process may still arrive, or another one writes the log without the lease
                self._observer.trouble("lease", DdsError(error.what, where=error.where, fix="it stands by again"))
                self._make_parts()

    def _reign(self, uid: str) -> None:
        """Win the lease, open the log, decide until `stop` or the end of the lease."""
        with ExitStack() as ends:
            ends.callback(self._ended)
            # Without the lease nothing else may begin: another process may be writing the log and the cluster.
            if self.settings.leader_elect and not self._elected(ends):
                return
            # The log comes before the watches: they begin with the objects that it has, and report those that are gone.
            controller = self._opened(uid)
            if controller is None:
                return
            self._observer.leads(True)
            self._listen(controller)
            # Closed before the lease is released: running writes end, and their outcomes are logged, while it is still held.
            ends.callback(self._close, controller)
            self.writer.start()
            self._started = True
            self._decide(controller)

    def _identify(self) -> str:
        """The cluster's UID, as soon as the API server answers; "" when the process was stopped before. Also sets the clock by
        the server's."""
        backoff = Backoff(SystemRandom(), longest=5.0)
        while not self.stopping:
            try:
                uid, server = identify(self.cluster)
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.code < 500 and error.code != TOO_MANY:
                    raise
                self._observer.trouble("cluster", error)
                self._observer.alive()
                self._stopping.wait(backoff.failed(0.0))
                continue
            self.clock.go_by(server)
            if self.clock.skew:
                what = f"this host's clock is {self.clock.skew / SECOND:+.0f} s off; dds uses the server's time"
                self._observer.trouble(
                    "clock", DdsError(what, where=self.cluster.where, fix="correct the host's clock")
                )
            return uid
        return ""

    def _elected(self, ends: ExitStack) -> bool:
        """Wait for the lease. False when the process was stopped before."""
        settings = self.settings
        elector = self.elector = Elector(
            self.cluster,
            settings.lease_namespace,
            settings.lease_name,
            settings.identity,
            settings.lease,
            on_lost=self._lost,
            on_error=lambda line: self._observer.trouble("lease", DdsError(line)),
            note=self._left_log,
        )
        elector.start()
        ends.callback(self._released, elector)
        while not self.stopping:
            self._observer.leads(False, elector.awaited())
            self._observer.alive()
            if elector.lead(GLANCE):
                return True
        return False

    def _left_log(self) -> str:
        """Where this process last left the log, for the next holder of the lease; empty while that is not known."""
        left = self.controller.left if self.controller is not None else None
        return encode_anchor(left).decode() if left is not None else ""

    def _known(self) -> Anchor | None:
        """Where the last holder of the lease left the log, as far as the Lease says."""
        try:
            return decode_anchor(self.elector.note.encode()) if self.elector is not None and self.elector.note else None
        except BadLine:  # somebody edited it
            return None

    def _released(self, elector: Elector) -> None:
        """Release the lease, except when a write still hangs: then it has to expire."""
        if not self._hanging:
            elector.stop(LEASE_SECONDS)

    def _lost(self, error: LeaseLost) -> None:
        """The lease is lost: no write starts any more. A process that hangs in its log cannot stand by, and ends."""
        self.arrivals.wake()
        last = self._last = threading.Timer(LAST_SECONDS, _end_now)
        last.daemon = True
        last.start()

    def _ended(self) -> None:
        """The process did not hang, so the program must not be killed."""
        if self._last is not None:
            self._last.cancel()
            self._last = None

    def _opened(self, uid: str) -> Controller[P] | None:
        """The opened controller. None when the process was stopped before the log was available."""
        backoff = Backoff(SystemRandom(), longest=5.0)
        around = Surroundings(self.cluster, self.arrivals, self.version, (self._observer,), self._observer.trouble)
        while not self.stopping:
            try:
                log = self._open_log(uid)
                policy = self._policy = self._policy if self._policy is not None else self._policy_of(log)
                controller = self._make(log, policy, around)
                controller.policy_broken = self._policy_error is not None
                controller.open(self.clock.now(), self._known())
            except (LogUnavailable, Unfoldable) as error:
                # With a log that cannot be folded, ending would be a loop of restarts: the process waits for a repair.
                self._observer.trouble("log", error)
                self._observer.alive()
                self._stopping.wait(backoff.failed(0.0))
                self._check()
            else:
                self.controller = controller
                self._policy_fault = ""  # a log that was opened anew may not have it
                ahead = self.clock.not_before(controller.state.process.now)
                if ahead > SECOND:
                    what = (
                        f"the log's newest fact is {ahead / SECOND:.0f} s ahead of the clock; dds continues from there"
                    )
                    self._observer.trouble("clock", DdsError(what, fix="correct the clocks of hosts and API server"))
                return controller
        return None

    def _policy_of(self, log: EventLog) -> EffectivePolicy:
        """The last policy of the log, in place of one whose file is not valid. Raises that file's PolicyError if it has none."""
        assert self._policy_error is not None
        written = last_policy(log)
        if written is None or self._stored is None:
            raise self._policy_error
        try:
            return self._stored(written)
        except PolicyError:
            raise self._policy_error from None

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
        """Stop the watches, wait for running writes and log their outcomes. Tasks that did not start are made again at the next
        start."""
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
            self._check()  # after everything that may have taken long
            try:
                tasks = controller.turn(arrivals, self.writer.outcomes(), self.clock.now(), stall=stall)
            except LogUnavailable as error:
                self._observer.trouble("log", error)
                self._observer.alive()
                self._stopping.wait(away.failed(0.0))
                continue
            if self._stopping.is_set():
                return  # these tasks are made again at the next start
            # The limit first: a new policy or ConfigMap may forbid what waits there already.
            self.writer.limit(controller.limit)
            self.writer.put(tasks)
            # Then what takes time and what the next turn needs: lists, other sources, the policy's file.
            for resource in controller.take_wanted_lists():
                self.reflectors[resource].relist()
            controller.after_turn()
            self._look_at_policy(controller)
            self._look_at_cluster(controller)
            # A checkpoint stops the loop for as long as it takes to write the state: rather in a quiet turn.
            self._checkpoint(controller, idle=not arrivals)
            self._observer.on_turn(controller.state)

    def _taken(self, controller: Controller[P]) -> tuple[list[Arrival], Stall | None]:
        """The arrivals, and a `Stall` if the process got no CPU while it waited for them."""
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
        """Seconds that a write may take if it starts now. It may outlast the lease: what is late fails on its preconditions."""
        if self.stopping or self.controller is None or self.controller.away:
            return 0.0
        left = math.inf if self.elector is None else self.elector.remaining()
        return max(left, WRITE_SECONDS) if left > 0 else 0.0

    def _look_at_policy(self, controller: Controller[P]) -> None:
        try:
            policy = self._read_policy()
        except PolicyError as error:
            self._policy_error = error
            if str(error) != self._policy_fault:
                self._policy_fault = str(error)
                fix = "; ".join(filter(None, (error.fix, "the last valid policy stays in force")))
                self._observer.trouble("policy", PolicyError(error.what, where=error.where, fix=fix))
                controller.reject_policy(error)
                self.arrivals.wake()
            return
        self._policy_fault, self._policy_error = "", None
        if policy != self._policy or controller.policy_broken:
            self._policy = policy
            controller.change_policy(policy)
            self.arrivals.wake()

    def _look_at_cluster(self, controller: Controller[P]) -> None:
        """Report, once, what is missing in the cluster."""
        now = time.monotonic()
        if not controller.synced or now - self._looked < LOOK:
            return
        self._looked = now
        found = {str(one): one for one in controller.preflight(self.cluster.where)}
        for line in found.keys() - self._lacks:
            self._observer.trouble("cluster", found[line])
        self._lacks = frozenset(found)

    def _checkpoint(self, controller: Controller[P], *, idle: bool) -> None:
        every = checkpoint_after(self.settings.checkpoint_events, controller.checkpoint_bytes)
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


def last_policy(log: EventLog) -> dict[str, Any] | None:
    """The policy that the log's newest state has, as JSON; None for a log without one."""
    found: dict[str, Any] | None = None
    types = (PolicyChanged.__name__, CHECKPOINT)
    for row in log.read_lean(max(0, log.head().checkpoint - 1), types=types):
        if row.data is not None:
            data: dict[str, Any] = msgspec.json.decode(row.data)
            found = (data["picture"] if row.type == CHECKPOINT else data)["policy"]
    return found


def _end_now() -> None:
    os._exit(1)
