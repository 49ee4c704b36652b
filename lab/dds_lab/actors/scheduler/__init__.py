"""The lab's scheduler: kube-scheduler 1.36 as far as pods with devices are concerned, on virtual or real time.

It copies the order of writes, the queues and their back-offs, when devices count as ready, failed or timed out, how a node is
found, and what is forgotten. It reads the cluster only from its mirrors and writes only through its client.
"""

from dds_lab.actors.scheduler.scheduler import Scheduler
from dds_lab.actors.scheduler.scheduler_settings import Latencies, SchedulerSettings

__all__ = ["Latencies", "Scheduler", "SchedulerSettings"]
