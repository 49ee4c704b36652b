"""The hold: before a device is detached, a claim of dds is allocated all its faces, so that no pod can get it.

The scheduler keeps the allocated devices as a set: if a hold and another claim had one device, the end of either would free it
for a third claim. So the device is guarded first, as for an exchange, and then all claims are listed. A device is held only if
none of them has it, so the hold is the only one. At its end a hold is cleared before it is deleted, because a deletion wakes no
waiting pod.
"""

from __future__ import annotations

from collections.abc import Sequence

from dds_core.kit.policy import MICROSECONDS
from dds_core.model import Claim, DeviceKey, FabricResource
from dds_core.scaler.events import DeviceHeld, HoldBegun, HoldEnded, VictimMarked
from dds_core.scaler.fold.decisions import LET_GO, UNHELD
from dds_core.scaler.model import Hold, hold_name
from dds_core.scaler.rules.exchange import AFTER_REFUSAL, LAST_MOMENT, list_when_settled
from dds_core.scaler.state import State, Work

_PAUSE = 30 * MICROSECONDS
"""From the end of a hold to the device's next one: in this time the claims for which it ended can take the device."""
_STEPS = tuple(one.__name__ for one in (HoldBegun, DeviceHeld, HoldEnded, VictimMarked))


def are_possible(state: State, at: int) -> bool:
    """Whether devices can be held. After a refusal for lack of rights, none is for some time. After any other refusal only this
    one hold is tried again: a device that is detached without a hold may be taken meanwhile."""
    refused = state.fired_deadlines.get(UNHELD)
    return bool(state.guards) and (refused is None or at >= refused + AFTER_REFUSAL)


def pause_due(state: State, uid: str) -> int:
    """The instant from which a device may be held again."""
    let_go = state.fired_deadlines.get((LET_GO, uid))
    return let_go + _PAUSE if let_go is not None else 0


def begin(work: Work, resource: FabricResource, faces: Sequence[DeviceKey], reason: str) -> bool:
    """Begin the hold of a device with these names; False while a refused step must wait, or an exchange guards the device."""
    state = work.state
    refusals = (state.refusals.get((step, resource.uid)) for step in _STEPS)
    if any(one is not None and work.at < one.until for one in refusals):
        return False
    if resource.uid in state.holds or any(key in state.guarded for key in faces):
        return False
    if work.at < pause_due(state, resource.uid):
        return False
    return work.emit_once(
        HoldBegun(
            resource=resource.uid,
            mode=state.mode,
            name=resource.name,
            node=resource.node,
            model=resource.model,
            uuid=resource.uuid,
            devices=tuple(faces),
            until=work.at + state.policy.guard_seconds * MICROSECONDS if state.live else 0,
            reason=reason,
        )
    )


def go_on(work: Work, uid: str, row: Hold, why: str) -> None:
    """The next step of the hold, or its end if `why` says that the device may not go after all."""
    late = row.until - (LAST_MOMENT if row.stage == "listed" else 0)
    if row.stage in ("ending", "ended"):
        return
    if row.stage == "lost":
        _end(work, uid, row.node, row.devices, why or "it was not there as it should be")
    elif why or (row.stage != "held" and work.has_come(late)):
        _end(work, uid, row.node, row.devices, why or "its guard is over")
    elif row.stage == "listing" and not row.wanted:
        list_when_settled(work, uid, row.since)
    elif row.stage == "listed":
        name = work.state.resources.rows[uid].name
        hold = hold_name(name)
        work.emit_once(
            DeviceHeld(resource=uid, mode=work.state.mode, hold=hold, name=name, node=row.node, devices=row.devices)
        )


def end_stray(work: Work, claim: Claim) -> None:
    """End a hold that this log does not know, such as that of a scaler whose log is lost: it would keep its device for ever. Not
    while its device is about to go."""
    state, resource = work.state, work.state.resources.get(claim.hold)
    if resource is not None and (resource.leaving or resource.marked):
        return
    if claim.hold in state.holds or not state.live or claim.namespace != state.guards or claim.allocation is None:
        return
    devices = tuple(one.key for one in claim.allocation.results)
    _end(work, claim.hold, claim.allocation.node, devices, "nobody here knows why it is held")


def _end(work: Work, uid: str, node: str, devices: tuple[DeviceKey, ...], reason: str) -> None:
    state = work.state
    hold = next((state.claims.rows[claim].name for claim in sorted(state.claims_holding[uid])), "")
    resource = state.resources.get(uid)
    if not hold and resource is not None:
        hold = hold_name(resource.name)
    work.emit_once(
        HoldEnded(resource=uid, mode=state.undoing_mode, hold=hold, node=node, devices=devices, reason=reason)
    )
