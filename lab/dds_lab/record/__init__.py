"""Records real clusters. By default a recording has only the fields that dds reads, so that it can be passed on to others.

A recording changes nothing in the cluster and never reads a Secret.
"""

from dds_adapters.kubernetes.cluster import Cluster, Refused, Unreachable
from dds_lab.record.allowed import Allowed
from dds_lab.record.cluster import RESOURCES, Recorded, record

__all__ = ["RESOURCES", "Allowed", "Cluster", "Recorded", "Refused", "Unreachable", "record"]
