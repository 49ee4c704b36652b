"""What a publisher shows: a watcher of its commits, and gauges of what it knows of fabrics and pools.

The thread that decides looks at the picture now and then and leaves numbers behind; scrapes read these and never the picture.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dds_adapters.runtime.metrics import catalogue as p
from dds_adapters.runtime.metrics.catalogue import Named, counters, histograms, named
from dds_adapters.runtime.metrics.metrics import Asked, Common, Row, Sources
from dds_core.publisher.policy import PUBLISH_MODES
from dds_core.publisher.state import PoolPicture

LOG = logging.getLogger("dds.metrics")

Labels = tuple[str, ...]
Values = dict[Labels, float]


class PoolMetrics(Collector):
    """All metrics of a publisher, in the registry that is given. `ages` gives the seconds since each question was last answered
    (`Answers.ages`), `rounds` how many rounds there were and how long the last one took."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        version: str,
        fingerprint: str,
        sources: Sources = MappingProxyType({}),
        ages: Callable[[], Mapping[str, float]] = dict,
        rounds: Callable[[], tuple[int, float]] = lambda: (0, 0.0),
    ) -> None:
        self._common = Common(registry, version=version, fingerprint=fingerprint, modes=PUBLISH_MODES, named=named)
        Asked(sources, registry, named)
        self._ages = ages
        self._rounds = rounds
        self._seen: dict[Named, Values] = {}
        self._changed = True
        registry.register(self)

    # -- the thread that decides ---------------------------------------------------------------------------------------

    def committed(self, steps: Sequence[Row], picture: PoolPicture) -> None:
        """Count what is in the log now."""
        self._changed = True
        for one in steps:
            try:
                self._common.count(one)
            except Exception as error:  # must not reach the thread that decides: it costs what it could not count
                self._common.uncounted.inc()
                LOG.error("a group cannot be counted (%s); please report it", type(error).__name__)
        self._common.show(steps, picture)

    def look(self, picture: PoolPicture) -> None:
        """Take over the numbers as they are now, if anything has happened."""
        if self._changed:
            self._changed = False
            self._seen = _numbers(picture)

    # -- the thread that scrapes ---------------------------------------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        yield from (GaugeMetricFamily(one.name, one.help, labels=one.labels) for one in _SHOWN)
        yield CounterMetricFamily(p.ROUNDS.name, p.ROUNDS.help)

    def collect(self) -> Iterator[Metric]:
        rounds, seconds = self._rounds()
        yield CounterMetricFamily(p.ROUNDS.name, p.ROUNDS.help, value=rounds)
        seen: dict[Named, Values] = {**self._seen, p.ANSWER_AGE: _ages(self._ages()), p.ROUND: {(): seconds}}
        for one in _SHOWN:
            family = GaugeMetricFamily(one.name, one.help, labels=one.labels)
            for labels, value in seen.get(one, {}).items():
                family.add_metric(list(labels), value)
            yield family


_SHOWN = (
    p.FREE, p.MACHINES, p.FAILING, p.POOL_SLICES, p.POOL_DEVICES, p.POOL_HELD, p.POOL_TAINTED, p.KEPT, p.ANSWER_AGE, p.ROUND,
)  # fmt: skip


class Calls:
    """Calls of a fabric's API, from any thread; `observe` is what its client is given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = counters(p.CALLS, registry)
        self._seconds = histograms(p.CALL, registry)

    def observe(self, call: str, seconds: float, outcome: str) -> None:
        """One try of a call has ended."""
        self._calls[(call, outcome)].inc()
        self._seconds[(call,)].observe(seconds)


def _numbers(picture: PoolPicture) -> dict[Named, Values]:
    """Everything that the picture says, by metric and labels."""
    free: Values = {}
    for (fabric, model), stock in picture.stocks.rows.items():
        healthy = stock.free if stock.devices is None else sum(one.healthy for one in stock.devices)
        free[(fabric, model)] = healthy
    failing = Counter(of.partition("/")[0] for of in picture.failures.rows)
    kept = picture.capabilities
    return {
        p.FREE: free,
        p.MACHINES: {(fabric,): len(uuids) for fabric, uuids in picture.machines_in.items()},
        p.FAILING: {(kind,): failing[kind] for kind in ("machines", "stock", "limits")},
        p.KEPT: {
            ("binding_conditions",): kept.binding_conditions,
            ("device_taints",): kept.device_taints,
            ("shared_devices",): kept.shared_devices,
        },
        **_of_pools(picture),
    }


def _of_pools(picture: PoolPicture) -> dict[Named, Values]:
    found: dict[Named, Values] = {one: {} for one in (p.POOL_SLICES, p.POOL_DEVICES, p.POOL_HELD, p.POOL_TAINTED)}
    for key in picture.slices_of:
        own = picture.own_slices(key)
        if own:
            found[p.POOL_SLICES][key] = len(own)
            found[p.POOL_DEVICES][key] = sum(len(one.devices) for one in own)
            found[p.POOL_HELD][key] = len(picture.held_in[key])
            found[p.POOL_TAINTED][key] = any(one.taints for one in own)
    return found


def _ages(ages: Mapping[str, float]) -> Values:
    """By question; of limits only the oldest, as there may be very many machines."""
    found: Values = {}
    for of, age in ages.items():
        kind, _, rest = of.partition("/")
        fabric, _, model = rest.partition("/") if kind == "stock" else ("", "", "")
        found[(kind, fabric, model)] = max(age, found.get((kind, fabric, model), 0.0))
    return found
