"""What is counted of any log, whoever decides in it: facts, decisions, writes, what became of them, and how the writing fares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, disable_created_metrics

from dds_adapters.live.lived import Lived
from dds_adapters.live.metrics import catalogue as c
from dds_adapters.live.metrics.catalogue import Named
from dds_adapters.live.metrics.instruments import counter, counters, gauge, histogram, histograms
from dds_core import events as e
from dds_core.engine import Step
from dds_core.events import Decision, Event
from dds_core.log.envelope import Envelope

SECOND = 1_000_000


class Row(Protocol):
    """One group that is in the log (`live.pen.Committed`): the step, and its rows, the fact's first."""

    @property
    def step(self) -> Step: ...

    @property
    def envelopes(self) -> Sequence[Envelope]: ...


class Viewed(Lived, Protocol):
    """A picture of which its owner knows what it does not see any more."""

    stale: set[str]


class Common:
    """For one log. `named` gives each metric the name that it has for this component."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        version: str,
        fingerprint: str,
        modes: Sequence[str],
        named: Callable[[Named], Named] = lambda one: one,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each counter, which nobody asked for
        self._modes = modes
        self._shown_mode = ""
        self._facts = counters(named(c.FACTS), registry)
        self._decisions = counters(named(c.DECISIONS), registry)
        self._reissued = counters(named(c.REISSUED), registry)
        self._writes = counters(named(c.WRITES), registry)
        self._refusals = counters(named(c.REFUSALS), registry)
        self._rejected = counters(named(c.REJECTED), registry)
        self._alerts = counters(named(c.ALERTS), registry)
        self._lateness = histograms(named(c.LATENESS), registry)
        self._commit = histogram(named(c.COMMIT), registry)
        self._mode = gauge(named(c.MODE), registry)
        self._epoch = gauge(named(c.EPOCH), registry)
        self._synced = gauge(named(c.SYNCED), registry)
        self._stale = gauge(named(c.STALE), registry)
        self._position = gauge(named(c.POSITION), registry)
        self.uncounted = counter(named(c.UNCOUNTED), registry)
        gauge(named(c.BUILD), registry).labels(version, fingerprint).set(1)
        self._take: dict[type[Event], Callable[[Any], None]] = {
            e.WriteDone: lambda fact: self._writes[(fact.action, "done")].inc(),
            e.WriteRefused: self._refused,
            e.WriteObsolete: lambda fact: self._writes[(fact.action, "obsolete")].inc(),
            e.Superseded: lambda fact: self._writes[(fact.action, "superseded")].inc(),
            e.Rejected: lambda fact: self._rejected[(fact.kind, fact.reason)].inc(),
            e.Alerted: lambda alert: self._alerts[(alert.reason,)].inc(),
        }

    def count(self, one: Row) -> None:
        """A group that is in the log now."""
        step = one.step
        self._facts[(type(step.fact).__name__,)].inc()
        self._follow(step.fact)
        for event, _ in step.caused:
            if isinstance(event, Decision):
                self._decided(event)
            self._follow(event)
        if one.envelopes:
            recorded = one.envelopes[0].recorded_at
            self._commit.observe(max(0, recorded - step.at) / SECOND)
            if isinstance(step.fact, e.DeadlinePassed):
                self._lateness[(step.fact.kind,)].observe(max(0, recorded - step.fact.due) / SECOND)

    def show(self, steps: Sequence[Row], picture: Viewed) -> None:
        """How the writing fares after a commit."""
        self._epoch.set(picture.epoch)
        self._synced.set(picture.synced)
        self._stale.set(len(picture.stale))
        if picture.mode != self._shown_mode:
            self._shown_mode = picture.mode
            for mode in self._modes:
                self._mode.labels(mode).set(mode == picture.mode)
        if steps and steps[-1].envelopes:
            self._position.set(steps[-1].envelopes[-1].position)

    def _follow(self, event: Event) -> None:
        take = self._take.get(type(event))
        if take is not None:
            take(event)

    def _decided(self, decision: Decision) -> None:
        name = type(decision).__name__
        self._decisions[(name, getattr(decision, "mode", ""))].inc()
        if decision.reissued:
            self._reissued[(name,)].inc()

    def _refused(self, fact: e.WriteRefused) -> None:
        self._writes[(fact.action, "refused")].inc()
        self._refusals[(fact.action, str(fact.code))].inc()


class Program:
    """What belongs to a whole program, whoever decides in it: requests to the API server, and who leads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._requests = counters(c.REQUESTS, registry)
        self._request = histograms(c.REQUEST, registry)
        self._leader = gauge(c.LEADER, registry)

    def asked(self, verb: str, code: int, seconds: float) -> None:
        """The API server was asked, from any thread: the HTTP method, the status (0: no answer), and how long it took."""
        self._requests[(verb, str(code))].inc()
        self._request[(verb,)].observe(seconds)

    def leads(self, lease: str, leading: Callable[[], bool]) -> None:
        """A process leads by the Lease of this name, as `leading` says at each scrape."""
        self._leader.labels(lease).set_function(lambda: float(leading()))
