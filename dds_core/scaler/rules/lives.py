"""The steps of claims' lives that rules make."""

from __future__ import annotations

from dds_core.lifecycle import claim_target
from dds_core.scaler.events import ClaimMoved, ReservedDevice
from dds_core.scaler.model import ClaimLife


def move(
    uid: str,
    life: ClaimLife,
    trigger: str,
    cause: str,
    *,
    devices: tuple[str, ...] = (),
    promises: tuple[ReservedDevice, ...] = (),
    ordered: bool = True,
) -> ClaimMoved | None:
    """The step that `trigger` makes within the attempt; None if the state does not name it. `ordered`: see `claim_target`."""
    target = claim_target(trigger, life.state, ordered=ordered)
    if target is None:
        return None
    return ClaimMoved(
        claim=uid,
        trigger=trigger,
        source=life.state,
        target=target,
        cycle=life.cycle,
        attempt=life.attempt,
        cause=cause,
        devices=devices,
        promises=promises,
    )
