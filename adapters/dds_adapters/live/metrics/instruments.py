"""Instruments of the Prometheus client, made from the catalogue in a registry that is given; never in the client's global one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from dds_adapters.live.metrics.catalogue import Named

_I = TypeVar("_I", bound=MetricWrapperBase)


class Labelled(Generic[_I]):
    """An instrument's children by their label values. The client looks each up anew under a lock; on the thread that decides
    that is felt."""

    __slots__ = ("_children", "_instrument")

    def __init__(self, instrument: _I) -> None:
        self._instrument = instrument
        self._children: dict[tuple[Hashable, ...], _I] = {}

    def __getitem__(self, values: tuple[str, ...]) -> _I:
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._instrument.labels(*values)
        return child


def counter(named: Named, registry: CollectorRegistry) -> Counter:
    return Counter(named.name, named.help, named.labels, registry=registry)


def counters(named: Named, registry: CollectorRegistry) -> Labelled[Counter]:
    return Labelled(counter(named, registry))


def gauge(named: Named, registry: CollectorRegistry) -> Gauge:
    return Gauge(named.name, named.help, named.labels, registry=registry)


def histogram(named: Named, registry: CollectorRegistry) -> Histogram:
    return Histogram(named.name, named.help, named.labels, buckets=named.buckets, registry=registry)


def histograms(named: Named, registry: CollectorRegistry) -> Labelled[Histogram]:
    return Labelled(histogram(named, registry))
