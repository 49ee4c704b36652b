"""What Prometheus is told of a live process: counts of what was committed, and what others say of themselves when asked.

`Metrics`, `PoolMetrics` and `GroupMetrics` are watchers of commits. Nothing here decides, reads a clock or serves HTTP, and no
label ever holds the name or the uid of a claim, a pod or a device: the number of series is bounded by states, models, nodes,
fabrics, pools and groups.
"""

from dds_adapters.runtime.metrics.catalogue import CATALOGUE, GROUP_CATALOGUE, POOL_CATALOGUE, Named
from dds_adapters.runtime.metrics.groups import GroupMetrics, Rpcs
from dds_adapters.runtime.metrics.metrics import Metrics, Program, Sources
from dds_adapters.runtime.metrics.pools import Calls, PoolMetrics

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
    "Rpcs",
    "Sources",
]
