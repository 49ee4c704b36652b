"""Metrics of an autoscaler: how old its knowledge of the servers is, and counts of Cluster Autoscaler's calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry

from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.metrics.catalogue import Named
from dds_adapters.runtime.metrics.metrics import Sources
from dds_adapters.runtime.metrics.shown import ShownMetrics, Values
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.state import Fleet


class GroupMetrics(ShownMetrics[Fleet]):
    """All metrics of an autoscaler. `age` returns the seconds since the provider last listed all its servers; None before
    that."""

    gauges = (c.SERVERS_AGE,)

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        version: str,
        sources: Sources = MappingProxyType({}),
        age: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._age = age
        super().__init__(registry, AUTOSCALER, version=version, sources=sources)

    def numbers(self, state: Fleet) -> Mapping[Named, Values]:
        return {}

    def now(self) -> Mapping[Named, Values]:
        age = self._age()
        return {} if age is None else {c.SERVERS_AGE: {(): age}}
