"""Gauges that others keep: read when somebody scrapes, on the thread that does. One that fails is left out and counted; it never
breaks the scrape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dds_adapters.live.metrics import catalogue as c
from dds_adapters.live.metrics.catalogue import Named
from dds_adapters.live.metrics.instruments import counters

LOG = logging.getLogger("dds.metrics")

Number = Callable[[], float]
Numbers = Callable[[], Mapping[tuple[str, ...], float]]


@dataclass(frozen=True)
class Sources:
    """Where they come from; all are called from the scraping thread. What is None is not shown.

    `ages`: seconds since a resource was heard of (`Arrivals.ages`). `arrivals`: objects that wait (`len`). `outbox`: tasks by
    state, waiting and running. `attempts`: how attempts to write ended, by action and outcome (`Outbox.counts`). `behind`:
    groups not appended yet. `lag`: seconds since the oldest of them. `away`: whether the log is.
    """

    ages: Callable[[], Mapping[str, float]] | None = None
    arrivals: Callable[[], int] | None = None
    outbox: Callable[[], Mapping[str, int]] | None = None
    attempts: Callable[[], Mapping[tuple[str, str], int]] | None = None
    behind: Callable[[], int] | None = None
    lag: Callable[[], float] | None = None
    away: Callable[[], bool] | None = None


class Asked(Collector):
    """Asks the sources at each scrape."""

    def __init__(
        self, sources: Sources, registry: CollectorRegistry, named: Callable[[Named], Named] = lambda one: one
    ) -> None:
        """`named` gives each metric the name that it has for a component."""
        self._errors = counters(named(c.SCRAPE_ERRORS), registry)
        self._told: set[str] = set()
        self._reads = {named(one): read for one, read in _reads(sources)}
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Without it the registry would ask the sources when this is registered."""
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
            LOG.warning("%s cannot be read (%s); told once", named.name, type(error).__name__)


def _family(named: Named) -> GaugeMetricFamily | CounterMetricFamily:
    if named.kind == "counter":
        return CounterMetricFamily(named.name, named.help, labels=named.labels)
    return GaugeMetricFamily(named.name, named.help, labels=named.labels)


def _reads(sources: Sources) -> Iterator[tuple[Named, Numbers]]:
    if (ages := sources.ages) is not None:
        yield c.WATCH_AGE, _by_name(ages)
    if (arrivals := sources.arrivals) is not None:
        yield c.QUEUE, _alone(arrivals)
    if (outbox := sources.outbox) is not None:
        yield c.OUTBOX, _by_name(outbox)
    if (attempts := sources.attempts) is not None:
        yield c.ATTEMPTS, _by_names(attempts)
    if (behind := sources.behind) is not None:
        yield c.BEHIND, _alone(behind)
    if (lag := sources.lag) is not None:
        yield c.LAG, _alone(lag)
    if (away := sources.away) is not None:
        yield c.AVAILABLE, _alone(lambda: not away())


def _alone(read: Number) -> Numbers:
    return lambda: {(): float(read())}


def _by_name(read: Callable[[], Mapping[str, float]]) -> Numbers:
    return lambda: {(name,): value for name, value in dict(read()).items()}


def _by_names(read: Callable[[], Mapping[tuple[str, str], int]]) -> Numbers:
    return lambda: {names: float(value) for names, value in dict(read()).items()}
