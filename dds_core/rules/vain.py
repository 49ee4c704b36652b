"""Orders in vain: what was ordered, cannot be had, and is needed by nobody any more is taken back."""

from __future__ import annotations

from dds_core.lifecycle import IDLE, MARKED
from dds_core.model import AttachRequest, FabricResource
from dds_core.picture import Picture
from dds_core.policy import MICROSECONDS
from dds_core.rules.coverage import Cover
from dds_core.rules.devices import BEING_ATTACHED
from dds_core.rules.orders import Cell, limits_of, lower_size, staying_of
from dds_core.rules.work import Work


def models_in_vain(picture: Picture, node: str) -> set[str]:
    """The models for which the fabric reports an error on a node."""
    failing = [uid for uid in picture.resources_at[node] if uid in picture.erring] if picture.erring else []
    return {picture.resources.rows[uid].model for uid in failing}


def call_off(work: Work, cell: Cell, own: AttachRequest, covers: list[Cover]) -> None:
    """Take back what was ordered, cannot be had, and is needed by nobody any more: as long as it hangs, no device of the request
    can go. The operator takes off first what has no device yet. Should one arrive in that very moment another might go in its
    place, so nothing of the request may be in use."""
    picture = work.picture
    if _somebody_waits(picture, covers, cell.model.model):
        return
    staying = staying_of(picture, own)
    hanging = sorted((r for r in staying if r.state in BEING_ATTACHED), key=lambda r: r.name)
    if picture.stale or not all(_hangs(work, r) for r in hanging):
        return
    if not (cell.size == own.size == own.acted_size == len(staying)) or any(_is_needed(picture, r) for r in staying):
        return
    low = limits_of(picture, cell.node, cell.model.model)[0]
    victims = hanging[: max(0, cell.size + cell.others - low)]
    if victims:
        lower_size(work, cell, own, victims, unattached=True)


def _somebody_waits(picture: Picture, covers: list[Cover], model: str) -> bool:
    """Whether a claim on the node waits for a device of the model."""
    return any(m.model == model for one in covers for _, _, m in picture.pool_results(one.claim.allocation))


def _hangs(work: Work, resource: FabricResource) -> bool:
    """Whether the fabric has said for long enough that it has no device for it."""
    since = work.picture.erring.get(resource.uid)
    grace = work.picture.policy.error_grace_seconds * MICROSECONDS
    return not (resource.uuid or resource.fabric_id) and since is not None and work.has_come(since + grace)


def _is_needed(picture: Picture, resource: FabricResource) -> bool:
    """Whether an attached device of the request is in a claim's hands, or meant for one."""
    if resource.state in BEING_ATTACHED:
        return False
    life = picture.devices.get(resource.uid)
    return life is None or life.state not in (IDLE, MARKED) or bool(picture.promised(resource.uuid))
