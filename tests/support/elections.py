"""Contenders for a lease on invented clocks, against the lab's API server on virtual time: no threads, no sockets, no waiting.

What a request meets on its way is given for each one; who may believe itself leader when is written down in true time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dds_adapters.kubernetes.cluster import Answer, path_of
from dds_adapters.kubernetes.lease.state import Ask, LeaseSettings, LeaseState, Phase
from dds_lab.api.gates import Gates
from dds_lab.api.requests import MASTERS, Request, Response, User
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.time import MICROSECONDS, VirtualTime

START = 1_800_000_000 * MICROSECONDS
NAMESPACE, NAME = "default", "dds"
METHODS = {"get": "GET", "create": "POST", "update": "PUT"}


@dataclass(frozen=True)
class Trip:
    """What a request meets: seconds to the server and back, None for never; `code` for an answer that is made up on the way."""

    there: float | None = 0.0
    back: float | None = 0.0
    code: int | None = None


SAFE = Trip()


@dataclass
class Reign:
    """A time in which a contender could be sure to lead, in true seconds since the start."""

    who: str
    start: float
    end: float


@dataclass
class Contender:
    """One process. `rate` is how fast its clock runs, `skew` by how many seconds its wall clock is wrong, `note` what it leaves
    for the next holder."""

    election: Election
    name: str
    rate: float = 1.0
    skew: float = 0.0
    trip: Callable[[Ask], Trip] = lambda ask: SAFE
    asked: list[Ask] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    note: str = ""

    def __post_init__(self) -> None:
        self.state = LeaseState(NAMESPACE, NAME, self.name, self.election.settings, self.election.random.random)
        self._reign: Reign | None = None
        self._paused_until = 0.0
        self._asking = False
        self._wake()

    @property
    def phase(self) -> Phase:
        return self.state.phase

    def remaining(self) -> float:
        return self.state.remaining(self._clock())

    def pause(self, seconds: float) -> None:
        """The process stands still, and goes on afterwards."""
        self._paused_until = max(self._paused_until, self.election.now + seconds)

    def release(self) -> None:
        self._when_awake(self._release)

    def kill(self) -> None:
        self.pause(float("inf"))

    # -- its two threads, in the order of their calls ----------------------------------------------------------------

    def _release(self) -> None:
        self.state.release(self._clock())
        self._note()
        self._wake()

    def _wake(self) -> None:
        if not self._asking:
            self._when_awake(self._step)

    def _step(self) -> None:
        if self._asking:
            return
        step = self.state.next(self._clock(), self._wall(), self.note)
        self._note()
        if isinstance(step, Ask):
            self._send(step)
        elif step is not None:
            self.election.after((step - self._clock()) / self.rate, lambda: self._when_awake(self._step))

    def _send(self, ask: Ask) -> None:
        self.asked.append(ask)
        self._asking = True
        trip, answers, over = self.trip(ask), list[Answer](), list[bool]()

        def done(call: Callable[[], None]) -> None:
            def settle() -> None:
                if over:
                    return
                over.append(True)
                call()
                self._asking = False
                self._note()
                self._wake()

            self._when_awake(settle)

        def back() -> None:
            done(lambda: self.state.answered(ask, answers[0], self._clock()))

        def arrive() -> None:
            answers.append(Answer(trip.code, b"{}") if trip.code is not None else self.election.ask(ask))
            if trip.back is not None:
                self.election.after(trip.back, back)

        if trip.there is not None:
            self.election.after(trip.there, arrive)
        timeout = ask.timeout / self.rate
        self.election.after(timeout, lambda: done(lambda: self.state.failed(ask, "timeout", self._clock())))

    def _expire(self) -> None:
        self.state.expire(self._clock())
        self._note()

    def _note(self) -> None:
        """Write down what this contender may believe now."""
        if self.state.trouble is not None:
            self.troubles.append(str(self.state.trouble))
        if self.phase is Phase.LEADING:
            end = self.state.certain_until / self.rate
            if self._reign is None:
                self._reign = Reign(self.name, self.election.now, end)
                self.election.reigns.append(self._reign)
            elif end > self._reign.end:
                self._reign.end = end
            self.election.after(end - self.election.now, lambda: self._when_awake(self._expire))
        elif self._reign is not None:
            self._reign.end = min(self._reign.end, self.election.now)
            self._reign = None

    def _when_awake(self, call: Callable[[], None]) -> None:
        wait = self._paused_until - self.election.now
        if wait <= 0:
            call()
        elif wait != float("inf"):
            self.election.after(wait, lambda: self._when_awake(call))

    def _clock(self) -> float:
        return self.election.now * self.rate

    def _wall(self) -> int:
        return START + round((self.election.now + self.skew) * MICROSECONDS)


class Election:
    """An API server, a Lease in it, and whoever contends for it. Seconds count from 0."""

    def __init__(self, settings: LeaseSettings | None = None, random: Random | None = None) -> None:
        self.settings = settings or LeaseSettings(15, 10, 2)
        self.random = random or Random(1)
        self.reigns: list[Reign] = []
        self._time = VirtualTime(1, START)
        gates = Gates.for_version("1.36")
        server = ApiServer(gates=gates, now=self._time.now, random=Random(1))
        server.access.register("token", User("admin", (MASTERS,)))
        self._server = server
        self._admin = Client(server, self._time, "admin")

    @property
    def now(self) -> float:
        return (self._time.now() - START) / MICROSECONDS

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call later, but never at the same instant: what waits for less than a microsecond would wait for ever."""
        self._time.after(max(1 / MICROSECONDS, seconds), call)

    def run(self, seconds: float) -> None:
        self._time.run(self._time.now() + round(seconds * MICROSECONDS))

    def until(self, enough: Callable[[], bool], seconds: float) -> float:
        """Run until then, step by step; gives the seconds that it took."""
        start = self.now
        while not enough():
            assert self.now - start < seconds, "it did not come"
            assert self._time.step()
        return self.now - start

    def contender(
        self, name: str, rate: float = 1.0, skew: float = 0.0, trip: Callable[[Ask], Trip] | None = None
    ) -> Contender:
        """Whoever contends from now on; `trip` says what each of its requests meets."""
        return Contender(self, name, rate, skew, trip or (lambda ask: SAFE))

    # -- the server --------------------------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> Answer:
        path = path_of("leases", "coordination.k8s.io/v1", NAMESPACE, "" if ask.verb == "create" else NAME)
        headers = {"authorization": "Bearer token", "content-type": "application/json"}
        answer = self._server.respond(Request(METHODS[ask.verb], path, "", headers, ask.body))
        assert isinstance(answer, Response)
        return Answer(answer.code, answer.body)

    def lease(self) -> dict[str, Any] | None:
        return self._admin.find("leases", NAME, NAMESPACE)

    def spec(self) -> dict[str, Any]:
        lease = self.lease()
        assert lease is not None
        spec: dict[str, Any] = lease["spec"]
        return spec

    def put(self, spec: dict[str, Any], **meta: Any) -> None:
        """Somebody makes the object, or writes its spec."""
        old = self.lease()
        if old is None:
            self._admin.create("leases", {"metadata": {"name": NAME, **meta}, "spec": spec}, NAMESPACE)
        else:
            self._admin.update("leases", {**old, "metadata": {**old["metadata"], **meta}, "spec": spec})

    def delete(self) -> None:
        if self.lease() is not None:
            self._admin.delete("leases", NAME, NAMESPACE)

    # -- what has to hold --------------------------------------------------------------------------------------------

    def overlaps(self) -> list[tuple[Reign, Reign]]:
        """Reigns of two that were both certain at one instant."""
        ordered = sorted(self.reigns, key=lambda reign: reign.start)
        found = []
        for at, one in enumerate(ordered):
            found += [(one, other) for other in ordered[at + 1 :] if other.start < min(one.end, other.end) - 1e-5]
        return found


def decoded(ask: Ask) -> dict[str, Any]:
    """The body of a request."""
    body: dict[str, Any] = json.loads(ask.body)
    return body
