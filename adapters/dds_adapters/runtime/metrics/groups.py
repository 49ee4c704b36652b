"""Metrics of an autoscaler: gauges of its groups, servers and orders, and counts of Cluster Autoscaler's calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry

from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.metrics.catalogue import Named
from dds_adapters.runtime.metrics.metrics import Sources
from dds_adapters.runtime.metrics.shown import ShownMetrics, Values
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import AUTOSCALE_MODES
from dds_core.autoscaler.records import Order
from dds_core.autoscaler.state import Fleet

CASES = ("device", "server", "nothing")


class GroupMetrics(ShownMetrics[Fleet]):
    """All metrics of an autoscaler. `age` returns the seconds since the provider last listed all its servers; None before
    that."""

    gauges = (
        c.GROUP_TARGET, c.GROUP_MAXIMUM, c.GROUP_MEMBERS, c.GROUP_CLOSED, c.GROUP_SERVERS, c.GROUP_ORDERS, c.PODS_WAITING,
        c.SERVERS_AGE,
    )  # fmt: skip

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        version: str,
        sources: Sources = MappingProxyType({}),
        age: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._age = age
        super().__init__(registry, AUTOSCALER, AUTOSCALE_MODES, version=version, sources=sources)

    def numbers(self, state: Fleet) -> Mapping[Named, Values]:
        groups = state.groups.rows
        advised: Counter[str] = Counter(one.case for one in state.advice.rows.values())
        return {
            c.GROUP_TARGET: {(name,): one.target for name, one in groups.items()},
            c.GROUP_MAXIMUM: {(name,): one.maximum for name, one in groups.items()},
            c.GROUP_MEMBERS: {(name,): len(one.members) for name, one in groups.items()},
            c.GROUP_CLOSED: {(name,): bool(one.closed) for name, one in groups.items()},
            c.GROUP_SERVERS: dict(Counter((one.group, one.state) for one in state.servers.rows.values())),
            c.GROUP_ORDERS: dict(Counter((one.group, _state(one)) for one in state.orders.rows.values())),
            c.PODS_WAITING: {(case,): advised[case] for case in CASES},
        }

    def now(self) -> Mapping[Named, Values]:
        age = self._age()
        return {} if age is None else {c.SERVERS_AGE: {(): age}}


def _state(order: Order) -> str:
    if order.over:
        return "returned"
    return "failed" if order.code else "creating"
