"""`Metrics` counts what was committed by a scaler; `Common` does so for any component.

The work is proportional to the events of a commit. Only a state that was folded anew is counted as a whole, on the thread that
decides. Scrapes come from another thread and never read the state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.metrics.catalogue import Named, counter, counters, gauge, histogram, histograms
from dds_adapters.runtime.metrics.fleet import Stages, StateCounts, WaitingCounts
from dds_core.engine import Step
from dds_core.events import Decision, Event
from dds_core.kit.policy import MODES
from dds_core.kit.state import StateBase
from dds_core.lifecycle import REQUESTED
from dds_core.log.envelope import Envelope
from dds_core.scaler import events as e
from dds_core.scaler.state import State

LOG = logging.getLogger("dds.metrics")

Sources = Mapping[Named, Callable[[], Mapping[tuple[str, ...], float]]]
"""For each metric a function that returns its values by labels. It is called at each scrape, on the thread that scrapes."""


class SourceCollector(Collector):
    """Reads the sources at each scrape. A source that fails is left out and counted; the scrape continues."""

    def __init__(
        self, sources: Sources, registry: CollectorRegistry, named: Callable[[Named], Named] = lambda one: one
    ) -> None:
        """`named` gives a metric the name that it has for the component."""
        self._errors = counters(named(c.SCRAPE_ERRORS), registry)
        self._told: set[str] = set()
        self._reads = {named(one): read for one, read in sources.items()}
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Without this method, the registry would read the sources at registration."""
        for named in self._reads:
            yield _family(named)

    def collect(self) -> Iterator[Metric]:
        for named, read in self._reads.items():
            try:
                values = dict(read())
            except Exception as error:
                self._failed(named, error)
                continue
            family = _family(named)
            for labels, value in values.items():
                family.add_metric(list(labels), value)
            yield family

    def _failed(self, named: Named, error: Exception) -> None:
        self._errors[(named.name,)].inc()
        if named.name not in self._told:
            self._told.add(named.name)
            LOG.warning("%s cannot be read (%s); logged once", named.name, type(error).__name__)


def _family(named: Named) -> GaugeMetricFamily | CounterMetricFamily:
    if named.kind == "counter":
        return CounterMetricFamily(named.name, named.help, labels=named.labels)
    return GaugeMetricFamily(named.name, named.help, labels=named.labels)


# -- metrics of every component ------------------------------------------------------------------------------------------

SECOND = 1_000_000


class Row(Protocol):
    """One committed group (`runtime.loop.Committed`): the step, and its rows, the fact's first."""

    @property
    def step(self) -> Step: ...

    @property
    def envelopes(self) -> Sequence[Envelope]: ...


class Common:
    """Metrics of one log of any component. `named` gives a metric the name that it has for this component."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        version: str,
        fingerprint: str,
        named: Callable[[Named], Named] = lambda one: one,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # they double the number of series
        self._decisions = counters(named(c.DECISIONS), registry)
        self._refusals = counters(named(c.REFUSALS), registry)
        self._rejected = counters(named(c.REJECTED), registry)
        self._alerts = counters(named(c.ALERTS), registry)
        self._broken = counters(named(c.BROKEN), registry)
        self._commit = histogram(named(c.COMMIT), registry)
        self._synced = gauge(named(c.SYNCED), registry)
        self._policy_valid = gauge(named(c.POLICY_VALID), registry)
        self.uncounted = counter(named(c.UNCOUNTED), registry)
        gauge(named(c.BUILD), registry).labels(version, fingerprint).set(1)
        self._take: dict[type[Event], Callable[[Any], None]] = {
            e.WriteRefused: self._refused,
            e.Rejected: lambda fact: self._rejected[(fact.kind, fact.reason)].inc(),
            e.Alerted: lambda alert: self._alerts[(alert.reason,)].inc(),
        }

    def count(self, one: Row) -> None:
        step = one.step
        self._follow(step.fact)
        for invariant in step.broken:
            self._broken[(invariant,)].inc()
        for event, _ in step.caused:
            if isinstance(event, Decision):
                self._decided(event)
            self._follow(event)
        if one.envelopes:
            self._commit.observe(max(0, one.envelopes[0].recorded_at - step.at) / SECOND)

    def show(self, state: StateBase[Any]) -> None:
        """Update the gauge after a commit."""
        self._synced.set(state.process.synced)
        self._policy_valid.set(not state.notes.policy_fault)

    def _follow(self, event: Event) -> None:
        take = self._take.get(type(event))
        if take is not None:
            take(event)

    def _decided(self, decision: Decision) -> None:
        self._decisions[(type(decision).__name__, decision.mode)].inc()

    def _refused(self, fact: e.WriteRefused) -> None:
        self._refusals[(fact.action, str(fact.code))].inc()


class Program:
    """Metrics of the whole program: requests to the API server, and leadership."""

    def __init__(self, registry: CollectorRegistry) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._requests = counters(c.REQUESTS, registry)
        self._request = histograms(c.REQUEST, registry)
        self._leader = gauge(c.LEADER, registry)

    def asked(self, verb: str, code: int, seconds: float) -> None:
        """Count a request to the API server: HTTP method, status (0: no answer), duration. From any thread."""
        self._requests[(verb, str(code))].inc()
        self._request[(verb,)].observe(seconds)

    def leads(self, lease: str, leading: Callable[[], bool]) -> None:
        """Show whether a process holds the Lease of this name. `leading` is called at each scrape."""
        self._leader.labels(lease).set_function(lambda: float(leading()))


# -- the scaler ----------------------------------------------------------------------------------------------------------


class Metrics:
    """All metrics of the scaler, in the given registry."""

    def __init__(
        self, registry: CollectorRegistry, *, version: str, fingerprint: str, sources: Sources = MappingProxyType({})
    ) -> None:
        self._common = Common(registry, version=version, fingerprint=fingerprint)
        self._state: State | None = None
        self._fleet = StateCounts(registry)
        self._waiting = WaitingCounts(registry)
        self._changed = True
        self._stages = Stages(registry)
        self._transitions = counters(c.TRANSITIONS, registry)
        self._bound = counters(c.BOUND, registry)
        self._attaches = counters(c.ATTACHES, registry)
        self._attach = histograms(c.ATTACH, registry)
        self._cooling = gauge(c.COOLING, registry)
        SourceCollector(sources, registry)
        self._take: dict[type[Event], Callable[[Any, int, State], None]] = {
            e.ClaimObserved: lambda fact, at, state: self._stages.observed(fact, at),
            e.ClaimGone: self._claim_gone,
            e.NodeGone: lambda fact, at, state: self._fleet.node_gone(state),
            e.ClaimMoved: self._claim_moved,
            e.DeviceMoved: self._device_moved,
            e.HandOver: self._handed_over,
        }

    # -- the thread that decides ---------------------------------------------------------------------------------------

    def committed(self, steps: Sequence[Row], state: State) -> None:
        """Count the steps. `state` may already be ahead of them."""
        self._changed = True
        with self._fleet.lock:
            for one in steps:
                self._counted(one, state)
            if state is not self._state:
                self._state = state
                self._fleet.recount(state)
            if steps:
                self._fleet.spent(state, steps[-1].step.at)
        self._cooling.set(len(state.failing.cooling))
        self._common.show(state)

    def look(self, state: State) -> None:
        """Count who waits without an allocation, if all is listed and anything was committed since the last time. It reads the
        whole state."""
        if self._changed:
            try:
                self._changed = not state.process.synced
                if not self._changed:
                    self._waiting.look(state)
            except Exception as error:  # must not stop the thread that decides; what was seen before stays
                self._common.uncounted.inc()
                LOG.error("claims that wait cannot be counted (%s); please report it", type(error).__name__)

    def _counted(self, one: Row, state: State) -> None:
        """An error here must not stop the thread that decides; the group is not fully counted."""
        try:
            self._group(one, state)
        except Exception as error:
            self._state = None  # count the whole state again
            self._common.uncounted.inc()
            LOG.error("a group cannot be counted (%s); please report it", type(error).__name__)

    def _group(self, one: Row, state: State) -> None:
        step, at = one.step, one.step.at
        self._fleet.passed(at)
        self._common.count(one)
        self._follow(step.fact, at, state)
        for event, _ in step.caused:
            self._follow(event, at, state)

    def _follow(self, event: Event, at: int, state: State) -> None:
        take = self._take.get(type(event))
        if take is not None:
            take(event, at, state)

    def _handed_over(self, decision: e.HandOver, at: int, state: State) -> None:
        if decision.mode != MODES[0]:
            self._stages.handed_over(decision)

    def _claim_gone(self, fact: e.ObjectGone, at: int, state: State) -> None:
        self._fleet.claim_gone(fact.uid, state)
        self._stages.forget(fact.uid)

    def _claim_moved(self, move: e.ClaimMoved, at: int, state: State) -> None:
        self._transitions[("claim", move.trigger)].inc()
        if move.trigger == "pod_bound":
            self._count_bound(move.claim, state)
        self._stages.moved(move, at)
        self._fleet.claim_moved(move.claim, move.target, at, state)

    def _count_bound(self, uid: str, state: State) -> None:
        life = state.lifecycle.lives.get(uid)
        if life is None or life.allocation is None:
            return
        for model in state.inventory.wanted_models(life.allocation):
            self._bound[(model.model,)].inc()
        for result in state.inventory.local_results(life.allocation):
            resource = state.resource_of(result.key) if not result.admin else None
            if resource is not None:
                self._bound[(resource.model,)].inc()

    def _device_moved(self, move: e.DeviceMoved, at: int, state: State) -> None:
        self._transitions[("device", move.trigger)].inc()
        known = self._fleet.device(move.resource)
        self._fleet.device_moved(move.resource, move.target, at, state)
        now = self._fleet.device(move.resource) or known
        model = now.model if now is not None else ""
        if move.source == REQUESTED and move.trigger in ("online", "taken"):
            self._attaches[(model,)].inc()
            if known is not None:
                self._attach[(model,)].observe((at - known.since) / SECOND)
