"""What Prometheus is told of a live scaler: counts of what was committed, and what others say of themselves when asked.

`Metrics` is a watcher of commits. Nothing here decides, reads a clock or serves HTTP, and no label ever holds the name or the uid
of a claim, a pod or a device: the number of series is bounded by states, models and nodes.
"""

from dds_adapters.live.metrics.catalogue import CATALOGUE, Named
from dds_adapters.live.metrics.metrics import Metrics
from dds_adapters.live.metrics.sources import Sources

__all__ = ["CATALOGUE", "Metrics", "Named", "Sources"]
