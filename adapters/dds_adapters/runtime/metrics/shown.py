"""Metrics of a component whose state is small: a listener to its commits, and gauges computed from its whole state.

The thread that decides computes the values about once a second (`look`). Scrapes read these values, never the state.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Generic

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dds_adapters.runtime.loop import P
from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.metrics.catalogue import Named, counters, histograms, named_for
from dds_adapters.runtime.metrics.metrics import Common, Row, SourceCollector, Sources
from dds_core.component import Component

LOG = logging.getLogger("dds.metrics")

Labels = tuple[str, ...]
Values = dict[Labels, float]


class ShownMetrics(Collector, ABC, Generic[P]):
    """All metrics of such a component, in the given registry."""

    gauges: Sequence[Named]
    """The gauges with values from `numbers` and `now`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        component: Component[P],
        *,
        version: str,
        sources: Sources = MappingProxyType({}),
    ) -> None:
        named = named_for(component.name)
        self._common = Common(registry, version=version, fingerprint=component.fingerprint, named=named)
        SourceCollector(sources, registry, named)
        self._seen: Mapping[Named, Values] = {}
        self._changed = True
        registry.register(self)

    @abstractmethod
    def numbers(self, state: P) -> Mapping[Named, Values]:
        """The values from the state, by labels."""

    def now(self) -> Mapping[Named, Values]:
        """The values from other threads, read at each scrape."""
        return {}

    # -- the thread that decides ---------------------------------------------------------------------------------------

    def committed(self, steps: Sequence[Row], state: P) -> None:
        self._changed = True
        for one in steps:
            try:
                self._common.count(one)
            except Exception as error:  # must not stop the thread that decides; the group is not fully counted
                self._common.uncounted.inc()
                LOG.error("a group cannot be counted (%s); please report it", type(error).__name__)
        self._common.show(state)

    def look(self, state: P) -> None:
        """Compute the values from the state, if anything was committed since the last time."""
        if self._changed:
            self._changed = False
            self._seen = self.numbers(state)

    # -- the thread that scrapes ---------------------------------------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        yield from (GaugeMetricFamily(one.name, one.help, labels=one.labels) for one in self.gauges)

    def collect(self) -> Iterator[Metric]:
        seen: dict[Named, Values] = {**self._seen, **self.now()}
        for one in self.gauges:
            family = GaugeMetricFamily(one.name, one.help, labels=one.labels)
            for labels, value in seen.get(one, {}).items():
                family.add_metric(list(labels), value)
            yield family


class Calls:
    """Metrics of calls of a fabric's API. `observe` is called for each attempt, from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = counters(c.CALLS, registry)
        self._seconds = histograms(c.CALL, registry)

    def observe(self, call: str, seconds: float, outcome: str) -> None:
        self._calls[(call, outcome)].inc()
        self._seconds[(call,)].observe(seconds)
