"""Metrics of a publisher: gauges of fabrics and pools, and counts of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry

from dds_adapters.runtime.metrics import catalogue as p
from dds_adapters.runtime.metrics.catalogue import Named
from dds_adapters.runtime.metrics.metrics import Sources
from dds_adapters.runtime.metrics.shown import ShownMetrics, Values
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.state import PoolState


class PoolMetrics(ShownMetrics[PoolState]):
    """All metrics of a publisher. `ages` returns the seconds since each question was last answered (`Answers.ages`)."""

    gauges = (
        p.FREE, p.FAILING, p.POOL_HELD, p.POOL_TAINTED, p.KEPT, p.ANSWER_AGE,
    )  # fmt: skip

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        version: str,
        sources: Sources = MappingProxyType({}),
        ages: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._ages = ages
        super().__init__(registry, PUBLISHER, version=version, sources=sources)

    def numbers(self, state: PoolState) -> Mapping[Named, Values]:
        return _numbers(state)

    def now(self) -> Mapping[Named, Values]:
        return {p.ANSWER_AGE: _ages(self._ages())}


def _numbers(state: PoolState) -> dict[Named, Values]:
    """The values of the state's gauges, by labels."""
    free: Values = {}
    for (fabric, model), stock in state.fabric.stocks.rows.items():
        healthy = stock.free if stock.devices is None else sum(one.healthy for one in stock.devices)
        free[(fabric, model)] = healthy
    failing = Counter(of.partition("/")[0] for of in state.fabric.failures.rows)
    kept = state.cluster.capabilities
    return {
        p.FREE: free,
        p.FAILING: {(kind,): failing[kind] for kind in ("machines", "stock", "limits", "entries")},
        p.KEPT: {
            ("binding_conditions",): kept.binding_conditions,
            ("device_taints",): kept.device_taints,
            ("shared_devices",): kept.shared_devices,
        },
        **_of_pools(state),
    }


def _of_pools(state: PoolState) -> dict[Named, Values]:
    found: dict[Named, Values] = {one: {} for one in (p.POOL_HELD, p.POOL_TAINTED)}
    for key in state.cluster.slices_of:
        own = state.own_slices(key)
        if own:
            found[p.POOL_HELD][key] = len(state.cluster.held_in[key])
            found[p.POOL_TAINTED][key] = any(one.taints for one in own)
    return found


def _ages(ages: Mapping[str, float]) -> Values:
    """The ages by question. Of limits only the oldest, since there may be very many machines."""
    found: Values = {}
    for of, age in ages.items():
        kind, _, rest = of.partition("/")
        fabric, _, model = rest.partition("/") if kind == "stock" else ("", "", "")
        found[(kind, fabric, model)] = max(age, found.get((kind, fabric, model), 0.0))
    return found
