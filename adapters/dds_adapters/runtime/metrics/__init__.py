"""Prometheus metrics of a live process: counts of committed events, and values that other threads give at each scrape.

`Metrics` (scaler), `PoolMetrics` (publisher) and `GroupMetrics` (autoscaler) are listeners to commits. Nothing here reads a
clock or serves HTTP. No label has the name or uid of a claim, pod or device: the number of series is limited by states, models,
nodes, fabrics, pools and groups.
"""

from dds_adapters.runtime.metrics.catalogue import CATALOGUE, GROUP_CATALOGUE, POOL_CATALOGUE, Named
from dds_adapters.runtime.metrics.groups import GroupMetrics
from dds_adapters.runtime.metrics.metrics import Metrics, Program, Sources
from dds_adapters.runtime.metrics.pools import PoolMetrics
from dds_adapters.runtime.metrics.shown import Calls

__all__ = [
    "CATALOGUE",
    "GROUP_CATALOGUE",
    "POOL_CATALOGUE",
    "Calls",
    "GroupMetrics",
    "Metrics",
    "Named",
    "PoolMetrics",
    "Program",
    "Sources",
]
