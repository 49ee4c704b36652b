"""Histories as plain data for programs: instants as RFC 3339, null for none; durations in seconds."""

from __future__ import annotations

from typing import Any

from dds_core.scaler.history.claims import Attempt, ClaimHistory
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.fold import History
from dds_core.scaler.history.verdicts import never_used, verdict
from dds_core.timeline.instants import rfc3339

_SECOND = 1_000_000


def claim_data(claim: ClaimHistory, now: int) -> dict[str, Any]:
    """A claim's waits and use; what goes on goes on until `now`."""
    return {
        "claim": claim.name,
        "uid": claim.uid,
        "state": claim.state,
        "outcome": claim.outcome,
        "cause": claim.cause,
        "node": claim.node,
        "pods": claim.pods,
        "first": rfc3339(claim.first),
        "gone": instant(claim.gone),
        "waited_seconds": claim.waited(now) / _SECOND,
        "begun": claim.begun,
        "used_seconds": claim.used(now) / _SECOND,
        "stage": claim.stage,
        "stage_seconds": {stage: micros / _SECOND for stage, micros in claim.stages(now).items()},
        "attempts": [_attempt(one) for one in claim.attempts],
        "spans": [
            {"stage": one.stage, "since": rfc3339(one.since), "until": instant(one.until), "node": one.node}
            for one in claim.spans
        ],
    }


def _attempt(one: Attempt) -> dict[str, Any]:
    return {
        "cycle": one.cycle,
        "attempt": one.number,
        "since": rfc3339(one.since),
        "until": instant(one.until),
        "node": one.node,
        "models": list(one.models),
        "outcome": one.outcome,
        "reason": one.reason,
        "cause": one.cause,
        "by": one.by,
        "devices": list(one.devices),
    }


def device_data(device: DeviceHistory, history: History) -> dict[str, Any]:
    """A device's states and holders, and what became of it."""
    meant = history.claims.get(device.meant[0])
    return {
        "device": device.name,
        "resource": device.resource,
        "uid": device.uid,
        "node": device.node,
        "model": device.model,
        "fabric": device.fabric,
        "state": device.state,
        "first": rfc3339(device.first),
        "gone": instant(device.gone),
        "ordered_for": meant.name if meant is not None else "",
        "never_used": never_used(device, history),
        "verdict": verdict(device, history),
        "seconds": {state: micros / _SECOND for state, micros in device.spent(history.now).items()},
        "spans": [
            {"state": one.state, "since": rfc3339(one.since), "until": instant(one.until), "claims": list(one.claims)}
            for one in device.spans
        ],
    }


def instant(at: int) -> str | None:
    """As RFC 3339; None for 0."""
    return rfc3339(at) if at else None
