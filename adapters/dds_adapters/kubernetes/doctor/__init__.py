"""`dds doctor`: finds what in a cluster, its configuration, the permissions, the policies and the log keeps scaler, publisher and
autoscaler from working.

Read-only: it sends GETs, reviews, and creations with dryRun=All. A failed check does not stop the others.
"""

from dds_adapters.kubernetes.doctor.autoscaling import Machines
from dds_adapters.kubernetes.doctor.configuration import Journal
from dds_adapters.kubernetes.doctor.examination import Examined, ExaminedAutoscaler, ExaminedPublisher, examine
from dds_adapters.kubernetes.doctor.findings import LEVELS, Finding, Level, sound

__all__ = [
    "LEVELS",
    "Examined",
    "ExaminedAutoscaler",
    "ExaminedPublisher",
    "Finding",
    "Journal",
    "Level",
    "Machines",
    "examine",
    "sound",
]
