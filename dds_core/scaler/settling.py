"""What an exchange and a hold have in common: devices are guarded, and all claims are listed once every API server obeys."""

from __future__ import annotations

from dds_core.kit.policy import MICROSECONDS
from dds_core.scaler.events import ClaimsListWanted
from dds_core.scaler.state import Work

GUARD_SETTLE = 500 * (MICROSECONDS // 1000)
"""From the first API server that obeys a guard until all do: each watches the policies, and hears of a write in milliseconds."""
LAST_MOMENT = 10 * MICROSECONDS
"""What is written under a guard does not begin when the guard ends sooner than this."""
AFTER_REFUSAL = 600 * MICROSECONDS
"""For so long after a refusal for lack of rights (of a hold: after a policy denied it, too) nothing is begun that needs them."""


def settled_due(since: int) -> int:
    """The instant from which every API server is taken to obey a guard that was written at `since`."""
    return since + GUARD_SETTLE


def list_when_settled(work: Work, of: str, since: int) -> None:
    """Request the list of all claims, once every API server is taken to know of the guard that stands since `since`."""
    settled = settled_due(since)
    if work.has_come(settled):
        work.emit_once(ClaimsListWanted(resource=of, mode=work.state.mode, fenced=settled), of)
