"""What became of every claim and every device, folded from the moments of a log: how long claims waited and on whom, in how many
attempts and how they ended; in which state each device was, when, and who held it.

Readers make their answers of it: lists that show what has ended, the head of a timeline, use and cost, reports, exports. It
decides nothing, and no rule reads it.
"""

from dds_core.scaler.history.claims import BOUND, OUTCOMES, WHOSE, Attempt, ClaimHistory, Span
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
