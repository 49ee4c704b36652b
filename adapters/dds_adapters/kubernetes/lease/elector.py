"""Leader election over a Lease: two threads that run `LeaseState` against an API server.

One sends requests; the other only watches the time, so that a request which never returns cannot hide that the lease is lost.
Nothing here decides who leads, and no exception ends an election unseen.

    elector = Elector(cluster, namespace, "dds", new_identity(), on_lost=end_the_process)
    elector.start()
    elector.lead()                       # comes back when this process leads
    timeout = elector.remaining()        # for each write: how long it may take
    elector.stop()                       # once nothing is written any more
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import SystemRandom
from threading import Condition, Thread

from dds_adapters.kubernetes.cluster import Answer, Asking, path_of
from dds_adapters.kubernetes.lease.state import API_VERSION, Ask, LeaseSettings, LeaseState, Phase
from dds_core.errors import DdsError

RESOURCE = "leases"
GLANCE = 1.0
"""Seconds between looks at the clock: on a machine that slept, a wait may last longer than the time that passed."""
_METHODS = {"get": "GET", "create": "POST", "update": "PUT"}


class LeaseLost(DdsError):
    """This process does not lead any more and will not again; it is to end, so that a new one can stand by."""


class Elector:
    """A contender for one Lease. `lost` is final; whoever wants to contend again makes a new one."""

    def __init__(
        self,
        server: Asking,
        namespace: str,
        name: str,
        identity: str,
        settings: LeaseSettings | None = None,
        *,
        on_lost: Callable[[LeaseLost], None] | None = None,
        on_error: Callable[[str], None] | None = None,
        clock: Callable[[], float] | None = None,
        wall: Callable[[], int] | None = None,
    ) -> None:
        """`identity` is this process's alone (`new_identity`). `on_lost` is called once, from a thread of the elector's; `told`
        is given each new trouble as one line. `clock` counts seconds and never goes back, `wall` gives the microseconds that are
        shown in the record. Raises InputError for an empty name."""
        self._server = server
        self._namespace, self._name = namespace, name
        self._on_lost = on_lost
        self._on_error = on_error
        self._clock = clock or steady
        self._wall = wall or _wall
        self._state = LeaseState(namespace, name, identity, settings or LeaseSettings(), SystemRandom().random)
        self._changed = Condition()
        self._under_way: Ask | None = None
        self._loss_told = False
        self._trouble = ""
        self.threads = [
            Thread(target=self._guarded, args=(loop,), name=f"lease-{kind}", daemon=True)
            for kind, loop in (("requests", self._contend), ("clock", self._watch_clock))
        ]

    def start(self) -> None:
        """Begin to contend."""
        for thread in self.threads:
            thread.start()

    def lead(self, timeout: float | None = None) -> bool:
        """Wait until this process leads; False when the time is up or the elector was stopped. Raises LeaseLost."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.phase is Phase.LEADING or self._state.ended, timeout)
        with self._changing():
            self._state.expire(self._clock())
            self.check()
            return self._state.phase is Phase.LEADING

    def remaining(self) -> float:
        """Seconds for which it is certain that nobody else leads; 0 when not leading. It never waits.

        A write that is started now has to be over, or given up, within so long."""
        return self._state.remaining(self._clock())

    def check(self) -> None:
        """Raises LeaseLost once the lease is lost."""
        lost = self.lost
        if lost is not None:
            raise lost

    @property
    def lost(self) -> LeaseLost | None:
        """Why the lease is lost; None while it is not."""
        if self._state.phase is not Phase.LOST:
            return None
        return LeaseLost(self._state.loss, where=self._state.where, fix="start this process anew, to stand by")

    @property
    def phase(self) -> Phase:
        """Where this elector stands."""
        return self._state.phase

    @property
    def holder(self) -> str:
        """Who holds the lease, as far as was seen; empty for nobody."""
        return self._state.holder

    def overdue(self) -> float:
        """Seconds for which a request has been under way beyond the time that it was given; 0 when none is.

        A leader finds its lease lost then; one that stands by would do so for ever, so that its process is to be ended."""
        ask = self._under_way
        return 0.0 if ask is None else max(0.0, self._clock() - ask.sent - ask.timeout)

    def stop(self, timeout: float = 10.0) -> bool:
        """Give the lease to whoever waits for it. Only when nothing that needs it runs any more.

        Waits up to `timeout` seconds; False when it is not certain that the lease is free: then it runs out by itself."""
        with self._changing():
            self._state.release(self._clock())
        with self._changed:
            return self._changed.wait_for(lambda: self._state.ended, timeout) and self._state.phase is Phase.OVER

    # -- the two threads -------------------------------------------------------------------------------------------

    def _contend(self) -> None:
        """Send what is due and pass on what comes back, until all is over."""
        while True:
            with self._changing():
                now = self._clock()
                step = self._state.next(now, self._wall())
                if isinstance(step, float):
                    self._changed.wait(min(max(0.0, step - now), GLANCE))
            self._tell()
            if step is None:
                return
            if isinstance(step, Ask):
                self._exchange(step)

    def _exchange(self, ask: Ask) -> None:
        self._under_way = ask
        answer, what = self._sent(ask)
        self._under_way = None
        with self._changing():
            if answer is None:
                self._state.failed(ask, what, self._clock())
            else:
                self._state.answered(ask, answer, self._clock())
        self._tell()

    def _sent(self, ask: Ask) -> tuple[Answer | None, str]:
        """The answer, or what came in its place."""
        path = path_of(RESOURCE, API_VERSION, self._namespace, "" if ask.verb == "create" else self._name)
        try:
            return self._server.ask(_METHODS[ask.verb], path, body=ask.body or None, timeout=ask.timeout), ""
        except DdsError as error:
            return None, error.what
        except Exception as error:
            return None, type(error).__name__

    def _watch_clock(self) -> None:
        """Notice that the time is up, whatever the other thread waits for."""
        while True:
            with self._changing():
                self._state.expire(self._clock())
                if not self._state.ended:
                    leading = self._state.phase is Phase.LEADING
                    self._changed.wait(min(self.remaining(), GLANCE) if leading else None)
            self._tell()
            if self._state.ended:
                return

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the state; whoever waits is woken when its phase is another afterwards."""
        with self._changed:
            before = self._state.phase
            try:
                yield
            finally:
                if self._state.phase is not before:
                    self._changed.notify_all()

    def _guarded(self, loop: Callable[[], None]) -> None:
        """An exception is told, and the loop goes on: while it does not, the other thread finds the lease lost."""
        while True:
            try:
                return loop()
            except Exception as error:
                self._say(self._fault(_words(error)))
                time.sleep(GLANCE)

    def _tell(self) -> None:
        with self._changed:
            lost = self.lost if not self._loss_told else None
            self._loss_told = self._loss_told or lost is not None
            trouble = str(self._state.trouble) if self._state.trouble is not None else ""
            new, self._trouble = trouble if trouble != self._trouble else "", trouble
        if new:
            self._say(new)
        if lost is not None and self._on_lost is not None:
            try:
                self._on_lost(lost)
            except Exception as error:
                self._say(self._fault(f"it is lost, and who was told so failed ({_words(error)})"))

    def _fault(self, what: str) -> str:
        return str(DdsError(what, where=self._state.where, fix="an error of the program: report it"))

    def _say(self, line: str) -> None:
        if self._on_error is not None:
            with suppress(Exception):
                self._on_error(line)


def new_identity() -> str:
    """A name for this process that no other has or will have; it begins with the machine's (a pod's) name."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def steady() -> float:
    """Seconds of a clock that never goes back, and that goes on while the machine sleeps where the system has such a one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _wall() -> int:
    return time.time_ns() // 1000
