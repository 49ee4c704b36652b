"""Replicas of one program on a lab's time. They compete for the lease, the leader runs the program, and a replica that lost the
lease, was killed or crashed starts again, as a pod does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dds_adapters.kubernetes.cluster import Answer, Unreachable, path_of
from dds_adapters.kubernetes.lease.elector import RESOURCE
from dds_adapters.kubernetes.lease.state import API_VERSION, Ask, LeaseSettings, LeaseState, Phase
from dds_core.errors import LogUnavailable
from dds_core.log import Envelope, Group, MemoryLog
from dds_lab.api.requests import Call, Request, Response
from dds_lab.api.status import ApiError
from dds_lab.api.watches import Stream
from dds_lab.driver import Direct, OurProcess
from dds_lab.faults.wire import NOTHING, WireFaults
from dds_lab.http_frontend.serving import effects_of, refusal
from dds_lab.lab import Lab
from dds_lab.time import MICROSECONDS, Timers

NAMESPACE = "default"
TIMES = LeaseSettings(duration=45, renew_deadline=30, retry_period=10)
"""Longer than the defaults, for fewer requests."""
RESTART, GLANCE, LATENCY = 3.0, 5.0, 0.01
"""Seconds until an ended replica starts again, between checks of a running one, and until an answer comes."""


class ShakyLog(MemoryLog):
    """A log with faults: `away` refuses all appends, `unheard` stores them and reports a failure."""

    away = unheard = False

    def take_epoch(self, recorded_at: int, above: int = 0) -> int:
        self._look()
        return super().take_epoch(recorded_at, above)

    def append(
        self, groups: Sequence[Group], *, epoch: int, recorded_at: int, expected: Mapping[str, int] | None = None
    ) -> list[Envelope]:
        self._look()
        rows = super().append(groups, epoch=epoch, recorded_at=recorded_at, expected=expected)
        if self.unheard:
            raise LogUnavailable("the connection broke", where=self.name, fix="ask again")
        return rows

    def _look(self) -> None:
        if self.away:
            raise LogUnavailable("no answer", where=self.name, fix="wait")


class Wire:
    """Carries programs' requests to the API server, with the scenario's wire faults; while `away`, nothing answers."""

    def __init__(self, lab: Lab, faults: WireFaults | None) -> None:
        self.away = False
        self._server = lab.server
        self._faults = faults

    def carry(self, request: Request) -> Response | Stream:
        if self.away:
            raise Unreachable("does not answer", where=request.path)
        effects = effects_of(self._faults, self._server.access, request) if self._faults is not None else NOTHING
        if effects.refused is not None:
            return refusal(effects.refused.error())
        answer = self._server.respond(request)
        if effects.lost:
            raise Unreachable("the connection was lost", where=request.path)
        return answer

    def attach(self, process: OurProcess[Any]) -> None:
        """Route a process's requests and lists through this wire."""
        process.requests.carry = self.carry
        process.client.before = self._list

    def _list(self, call: Call) -> None:
        if self.away:
            raise ApiError(503, "ServiceUnavailable", "does not answer")


class Replica:
    """One replica; `process` is its running program while it leads, else None."""

    def __init__(self, lab: Lab, program: str, number: int, wire: Wire, make: Callable[[], OurProcess[Any]]) -> None:
        """`make` gives a process that is not started yet."""
        self.process: OurProcess[Any] | None = None
        self._time = lab.time
        self._lease = f"dds-{program}"
        self._identity = f"{program}-{number}"
        self._make = make
        self._wire = wire
        self._random = lab.time.random(f"{program}/lease/{number}")
        self._lives = 0
        self._requests = Direct(lab.server, f"{program}-lease-{number}")
        self._requests.carry = wire.carry
        self._state: LeaseState | None = None
        self._asking = False
        self._asleep_until = 0
        self._timers = Timers(lab.time)
        self.begin()

    # -- life

    def begin(self) -> None:
        """Start to compete for the lease, under a new identity."""
        self._lives += 1
        self._asking = False
        name = f"{self._identity}-{self._lives}"
        state = self._state = LeaseState(NAMESPACE, self._lease, name, TIMES, self._random.random)
        self._step(state)

    def kill(self, away: float) -> None:
        """End without a release of the lease; a new replica starts `away` seconds later."""
        self._end(away)
        self._state = None

    def stop(self, away: float) -> None:
        """End properly and release the lease; a new replica starts `away` seconds later."""
        self._end(away)
        if self._state is not None:
            self._state.release(self._clock())
            self._step(self._state)

    def _end(self, away: float) -> None:
        if self.process is not None:
            self.process.stop()
            self.process = None
        self._asleep_until = 0
        self._timers.after("begin", away, self.begin)

    def pause(self, seconds: float) -> None:
        self._asleep_until = self._time.now() + round(seconds * MICROSECONDS)
        if self.process is not None:
            self.process.pause(seconds)

    # -- the lease

    def _step(self, state: LeaseState) -> None:
        if self._state is not state or self._asking or self._is_asleep(partial(self._step, state)):
            return
        step = state.next(self._clock(), self._time.now())
        self._look(state)
        if isinstance(step, Ask):
            self._asking = True
            self._ask(state, step)
        elif step is not None:
            self._later(step - self._clock(), partial(self._step, state))

    def _ask(self, state: LeaseState, ask: Ask) -> None:
        name = "" if ask.verb == "create" else self._lease
        method = {"get": "GET", "create": "POST", "update": "PUT"}[ask.verb]
        path = path_of(RESOURCE, API_VERSION, NAMESPACE, name)
        try:
            answer = self._requests.ask(method, path, body=ask.body or None)
        except Unreachable:
            self._later(ask.timeout, lambda: self._answered(state, ask, None))
        else:
            self._later(LATENCY, lambda: self._answered(state, ask, answer))

    def _answered(self, state: LeaseState, ask: Ask, answer: Answer | None) -> None:
        if self._state is not state or self._is_asleep(lambda: self._answered(state, ask, answer)):
            return
        self._asking = False
        if answer is None:
            state.failed(ask, "timeout", self._clock())
        else:
            state.answered(ask, answer, self._clock())
        self._step(state)

    def _look(self, state: LeaseState) -> None:
        """Start, continue or end the program according to the lease's state."""
        if self._state is not state or self._is_asleep(partial(self._look, state)):
            return
        state.expire(self._clock())
        if state.phase is Phase.LEADING:
            self._lead(state)
            left = state.certain_until - self._clock()
            self._timers.after("look", max(1 / MICROSECONDS, min(GLANCE, left)), partial(self._look, state))
        elif state.phase is Phase.LOST:
            self.kill(RESTART)

    def _lead(self, state: LeaseState) -> None:
        if self.process is not None:
            if not self.process.alive:
                self.stop(RESTART)
            return
        process = self._make()
        process.leads = lambda: state.remaining(self._clock()) if self._state is state else 0.0
        self._wire.attach(process)
        with suppress(LogUnavailable):
            process.start()
            self.process = process

    # -- time

    def _is_asleep(self, call: Callable[[], None]) -> bool:
        left = self._asleep_until - self._time.now()
        if left > 0:
            self._time.after(left / MICROSECONDS, call)
        return left > 0

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        """At least one microsecond later: a shorter wait would repeat at the same instant for ever."""
        self._time.after(max(1 / MICROSECONDS, seconds), call)

    def _clock(self) -> float:
        return self._time.now() / MICROSECONDS
