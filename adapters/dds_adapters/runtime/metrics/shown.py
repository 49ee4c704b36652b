"""Metrics of a component whose state is small: a watcher of its commits, and gauges of what it knows.

The thread that decides looks at the state now and then and leaves numbers behind; scrapes read these and never the state.
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
from dds_adapters.runtime.metrics.catalogue import Named, named_for
from dds_adapters.runtime.metrics.metrics import Asked, Common, Row, Sources
from dds_core.component import Component

LOG = logging.getLogger("dds.metrics")

Labels = tuple[str, ...]
Values = dict[Labels, float]


class ShownMetrics(Collector, ABC, Generic[P]):
    """All metrics of a component that shows its state in gauges, in the registry that is given."""

    gauges: Sequence[Named]
    """What the state and others say."""

    def __init__(
        self,
        registry: CollectorRegistry,
        component: Component[P],
        modes: Sequence[str],
        *,
        version: str,
        sources: Sources = MappingProxyType({}),
    ) -> None:
        named = named_for(component.name)
        self._common = Common(registry, version=version, fingerprint=component.fingerprint, modes=modes, named=named)
        Asked(sources, registry, named)
        self._seen: Mapping[Named, Values] = {}
        self._changed = True
        registry.register(self)

    @abstractmethod
    def numbers(self, state: P) -> Mapping[Named, Values]:
        """Everything that the state says, by metric and labels."""

    def now(self) -> Mapping[Named, Values]:
        """What others say at each scrape."""
        return {}

    # -- the thread that decides ---------------------------------------------------------------------------------------

    def committed(self, steps: Sequence[Row], state: P) -> None:
        """Count what is in the log now."""
        self._changed = True
        for one in steps:
            try:
                self._common.count(one)
            except Exception as error:  # must not reach the thread that decides: it costs what it could not count
                self._common.uncounted.inc()
                LOG.error("a group cannot be counted (%s); please report it", type(error).__name__)
        self._common.show(steps, state)

    def look(self, state: P) -> None:
        """Take over the numbers as they are now, if anything has happened."""
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
