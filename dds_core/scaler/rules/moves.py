"""A step of a claim's life, from where it is."""

from __future__ import annotations

from dds_core.lifecycle import claim_target
from dds_core.scaler.events import ClaimMoved, Promise
from dds_core.scaler.rows import ClaimLife


def move(
    uid: str,
    life: ClaimLife,
    trigger: str,
    cause: str,
    *,
    devices: tuple[str, ...] = (),
    promises: tuple[Promise, ...] = (),
    ordered: bool = True,
) -> ClaimMoved | None:
    """The step that `trigger` makes within the claim's attempt, None when its state does not name it. `ordered` is that of
    `claim_target`."""
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
