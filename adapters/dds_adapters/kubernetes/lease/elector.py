"""Leader election with a Lease: two threads that run `LeaseState` against an API server.

One thread sends requests; the other only watches the time, so that a request that never returns cannot hide the loss of the
lease. `LeaseState` decides who leads; an exception in a thread is reported and does not end the election.

    elector = Elector(cluster, namespace, "dds", new_identity(), on_lost=end_the_process)
    elector.start()
    elector.lead()                       # returns when this process leads
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
from dds_core.timeline.instants import time_of_day

RESOURCE = "leases"
GLANCE = 1.0
"""Seconds between checks of the clock: on a machine that slept, a wait may last longer than the time that passed."""
_METHODS = {"get": "GET", "create": "POST", "update": "PUT"}


class LeaseLost(DdsError):
    """This process no longer leads and never will again; it must end, so that a new process can stand by."""


class Elector:
    """A contender for one Lease. LOST is final; to contend again, make a new Elector."""

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
        note: Callable[[], str] = lambda: "",
        clock: Callable[[], float] | None = None,
        wall: Callable[[], int] | None = None,
    ) -> None:
        """`identity` must be unique to this process (`new_identity`). `on_lost` is called once, from a thread of the elector;
        `on_error` with one line for each new problem; `note`, from a thread of the elector, before each request: what the Lease
        shall keep for the next holder, empty to leave what it has. `clock` gives seconds of a monotonic clock, `wall` the
        microseconds that are shown in the record. Raises InputError for an empty name."""
        self._server = server
        self._namespace, self._name = namespace, name
        self._on_lost = on_lost
        self._on_error = on_error
        self._note = note
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
        """Start to contend."""
        for thread in self.threads:
            thread.start()

    def lead(self, timeout: float | None = None) -> bool:
        """Wait until this process leads; False after `timeout` or when the elector was stopped. Raises LeaseLost."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.phase is Phase.LEADING or self._state.ended, timeout)
        with self._changing():
            self._state.expire(self._clock())
            self.check()
            return self._state.phase is Phase.LEADING

    def remaining(self) -> float:
        """Seconds for which certainly no other process leads; 0 if this one does not lead. Does not block.

        A write that starts now must be finished or given up within this time."""
        return self._state.remaining(self._clock())

    def check(self) -> None:
        """Raise LeaseLost if the lease is lost."""
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
        return self._state.phase

    @property
    def holder(self) -> str:
        """The last known holder of the lease; empty for none."""
        return self._state.holder

    @property
    def note(self) -> str:
        """What the Lease kept when it was last read: until this process has given a note, that of an earlier holder."""
        return self._state.note

    def awaited(self) -> str:
        """What a standby waits for, in words."""
        if self._state.trouble is not None:
            return f"waiting for the lease: {self._state.trouble.what}"
        if self._state.unread:
            return "the lease was not read yet"
        left = self._state.vacant_for(self._clock())
        if left is None:
            return f"{self.holder} leads"
        until = time_of_day(self._wall() + round(left * 1_000_000))
        return f"no one leads; waiting for the lease until {until.partition('.')[0]} UTC"

    def overdue(self) -> float:
        """Seconds by which the running request exceeds its timeout; 0 if it does not.

        A leader then finds its lease lost. A process that stands by would wait for ever, so its caller must end it."""
        ask = self._under_way
        return 0.0 if ask is None else max(0.0, self._clock() - ask.sent - ask.timeout)

    def stop(self, timeout: float = 10.0) -> bool:
        """Release the lease for another process. Call it only when nothing that needs the lease still runs.

        Waits up to `timeout` seconds. False if it is not certain that the lease is free: then it expires by itself."""
        with self._changing():
            self._state.release(self._clock())
        with self._changed:
            return self._changed.wait_for(lambda: self._state.ended, timeout) and self._state.phase is Phase.OVER

    # -- the two threads -------------------------------------------------------------------------------------------

    def _contend(self) -> None:
        """Send requests when they are due, and pass on the answers, until the end."""
        while True:
            with self._changing():
                now = self._clock()
                step = self._state.next(now, self._wall(), self._note())
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
        """The answer, or what happened instead."""
        path = path_of(RESOURCE, API_VERSION, self._namespace, "" if ask.verb == "create" else self._name)
        try:
            return self._server.ask(_METHODS[ask.verb], path, body=ask.body or None, timeout=ask.timeout), ""
        except DdsError as error:
            return None, error.what
        except Exception as error:
            return None, type(error).__name__

    def _watch_clock(self) -> None:
        """Notice that the lease expired, whatever the other thread waits for."""
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
        """Hold the state; a changed phase wakes the waiting threads."""
        with self._changed:
            before = self._state.phase
            try:
                yield
            finally:
                if self._state.phase is not before:
                    self._changed.notify_all()

    def _guarded(self, loop: Callable[[], None]) -> None:
        """Report an exception and restart the loop. While it does not work, the other thread finds the lease lost."""
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
    """A unique name for this process; it begins with the name of the machine (or pod)."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def steady() -> float:
    """Seconds of a monotonic clock that also counts the time in which the machine sleeps, if the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _wall() -> int:
    return time.time_ns() // 1000
