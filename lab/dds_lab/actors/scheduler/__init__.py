"""The scheduler of the lab: kube-scheduler 1.36 as far as pods with devices meet it, on virtual or real time.

Faithful are the order of its writes, its queues with their back-offs, what it takes for ready, failed or timed out, how it
finds a node, and what it forgets. It knows the cluster from its mirrors alone and writes through its client alone.
"""

from dds_lab.actors.scheduler.scheduler import Scheduler
from dds_lab.actors.scheduler.scheduler_settings import Latencies, Profile, SchedulerSettings

__all__ = ["Latencies", "Profile", "Scheduler", "SchedulerSettings"]
