"""`dds doctor`: what of a cluster, its configuration, our permissions, the policy and the log stands in the way of
scaler, publisher and autoscaler.

Read-only: besides GETs it sends reviews and creations with dryRun=All. One check that fails never stops another.
"""

from dds_adapters.kubernetes.doctor.autoscaling import Machines
from dds_adapters.kubernetes.doctor.configuration import Journal
from dds_adapters.kubernetes.doctor.examination import Autoscaler, Examined, Publisher, examine
from dds_adapters.kubernetes.doctor.findings import LEVELS, Finding, Level, sound

__all__ = [
    "LEVELS",
    "Autoscaler",
    "Examined",
    "Finding",
    "Journal",
    "Level",
    "Machines",
    "Publisher",
    "examine",
    "sound",
]
