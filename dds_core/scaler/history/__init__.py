"""What became of every claim and every device, folded from a log: how long claims waited and for what, their attempts and how
they ended; the states of each device, and the claims that held it.

Lists, heads of timelines, use and cost, reports and exports are made from it. It decides nothing, and no rule reads it.
"""

from dds_core.scaler.blame import WHOSE
from dds_core.scaler.history.claims import BOUND, OUTCOMES, Attempt, ClaimHistory, Span
from dds_core.scaler.history.devices import DeviceHistory, DeviceSpan
from dds_core.scaler.history.fold import Alert, History

__all__ = [
    "BOUND",
    "OUTCOMES",
    "WHOSE",
    "Alert",
    "Attempt",
    "ClaimHistory",
    "DeviceHistory",
    "DeviceSpan",
    "History",
    "Span",
]
