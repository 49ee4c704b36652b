"""Recordings of real clusters, made so that they can be given away: by default they hold only what the engine reads.

Nothing here changes anything in a cluster or ever asks for a Secret.
"""

from dds_adapters.kubernetes.cluster import Cluster, Refused, Unreachable
from dds_lab.record.allowed import Allowed
from dds_lab.record.cluster import RESOURCES, Recorded, record

__all__ = ["RESOURCES", "Allowed", "Cluster", "Recorded", "Refused", "Unreachable", "record"]
