"""What became of a device: for which claim it was ordered, who used it, and why nobody did."""

from __future__ import annotations

from dds_core.model import FAILED_CONDITION, RESCHEDULE
from dds_core.scaler.blame import WHOSE
from dds_core.scaler.history.claims import BOUND, Attempt, ClaimHistory
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.fold import History
from dds_core.scaler.spending import USED
from dds_core.scaler.timeline.words import CONDITION
from dds_core.timeline.phrases import MANY


def never_used(device: DeviceHistory, history: History) -> bool:
    """Whether it was ordered in vain: no claim has held it, and the one that it was ordered for no longer waits for it. Not one
    that existed when the log begins, or that the operator made only to take a device off."""
    if device.early or not device.request or device.is_used:
        return False
    claim, attempt = _meant(device, history)
    return device.gone > 0 or not (claim is not None and claim.waits and attempt is not None and not attempt.outcome)


def verdict(device: DeviceHistory, history: History) -> str:
    """One sentence on the device."""
    claim, attempt = _meant(device, history)
    if device.is_used:
        users = list(dict.fromkeys(uid for span in device.spans if span.state == USED for uid in span.claims))
        names = [history.claims[uid].name if uid in history.claims else uid for uid in users]
        who = ", ".join(names[:MANY]) + (f" and {len(names) - MANY} more" if len(names) > MANY else "")
        if claim is None or attempt is None or claim.uid in users:
            return f"used by {who}"
        first = next(span.since for span in device.spans if span.state == USED)
        return f"ordered for {claim.name}, {'used' if 0 < attempt.until <= first else 'taken'} by {who}"
    if device.early:
        return "not used since the log begins"
    if not device.request:
        return "made by the operator to take off a device that no resource named"
    if not never_used(device, history):
        return f"ordered for {claim.name}, which waits for it" if claim is not None else "on its way"
    came = "never used" if device.came else "never came"
    if claim is None:
        return f"{came}: ordered while no claim waited for it on {device.node}"
    return f"{came}: ordered for {claim.name}, {_instead(claim, attempt, device)}"


def _meant(device: DeviceHistory, history: History) -> tuple[ClaimHistory | None, Attempt | None]:
    """The claim and the attempt that it was ordered for, as far as they are still known."""
    uid, since = device.meant
    claim = history.claims.get(uid)
    return claim, next((one for one in claim.attempts if one.since == since), None) if claim is not None else None


def _instead(claim: ClaimHistory, attempt: Attempt | None, device: DeviceHistory) -> str:
    """What the claim did without the device."""
    if attempt is None:
        return "long ago"
    if not attempt.outcome and claim.waits:
        return f"which still waits: {WHOSE[claim.stage]}"
    if attempt.outcome in ("withdrawn", ""):
        return f"which was given up: {attempt.cause}" if attempt.cause else "which waits no more"
    following = next((one for one in claim.attempts if one.since > attempt.since), None)
    if following is None and claim.waits:
        where = "still waits"
    elif attempt.outcome == BOUND or following is None:
        where = f"got another device of {attempt.node}" if attempt.outcome == BOUND else "was given up"
        where = f"went to {attempt.node}" if attempt.outcome == BOUND and attempt.node != device.node else where
    else:
        where = f"went to {following.node}" if following.node != device.node else f"was allocated on {device.node} anew"
    why = f"after {attempt.reason}" if attempt.reason else _condition(attempt)
    return f"which {where} {why}".rstrip()


def _condition(attempt: Attempt) -> str:
    """Who told the scheduler to choose again, and with what."""
    name = attempt.cause.removeprefix(CONDITION).split(" ")[0] if attempt.cause.startswith(CONDITION) else ""
    known = name or (FAILED_CONDITION if attempt.outcome == "failed" else RESCHEDULE)
    return f"after {attempt.by} set {known}" if attempt.by else ""
