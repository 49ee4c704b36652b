"""`dds doctor`: what of a cluster, its configuration, our permissions, the policy and the log stands in the way of
scaler and publisher.

Read-only: besides GETs it sends reviews and creations with dryRun=All. One check that fails never stops another.
"""

from dds_adapters.kubernetes.doctor.configuration import Journal
from dds_adapters.kubernetes.doctor.examination import Examined, Publisher, examine
from dds_adapters.kubernetes.doctor.findings import LEVELS, Finding, Level, sound

__all__ = ["LEVELS", "Examined", "Finding", "Journal", "Level", "Publisher", "examine", "sound"]
