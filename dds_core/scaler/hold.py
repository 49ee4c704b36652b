"""The hold: a claim of dds has a device before the device is detached, so that no pod can get it.

The scheduler keeps the allocated devices as a set: if a hold and another claim had one device, the end of either would free it
for a third claim. So the device is guarded first, as for an exchange, and then all claims are listed. A device is held only if
none of them has it. At its end a hold is cleared before it is deleted, because a deletion wakes no waiting pod.

Below: the table of its stages, the folds that take it from one to the next, and the rules that decide the next step. Whether the
device may go at all is for the rules of detaches to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit.deadlines import Deadline, DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.stages import NONE, Stages, each
from dds_core.kit.state import Key
from dds_core.kit.work import Fold
from dds_core.lifecycle import Edge
from dds_core.model import Claim, DeviceKey, FabricResource
from dds_core.scaler.events import DeviceHeld, HoldBegun, HoldEnded, VictimMarked, WriteDone
from dds_core.scaler.fold.reuse import count_detach
from dds_core.scaler.keys import LET_GO, UNHELD
from dds_core.scaler.model import HELD_IN_VAIN, HOLD_REFUSED, Hold, hold_name
from dds_core.scaler.settling import AFTER_REFUSAL, LAST_MOMENT, list_when_settled, settled_due
from dds_core.scaler.state import State, Work

GUARDING, LISTING, LISTED, HOLDING, HELD = "guarding", "listing", "listed", "holding", "held"
LOST, ENDING, ENDED = "lost", "ending", "ended"

HOLD = Stages(
    "hold",
    (
        Edge("begun", NONE, GUARDING, "An idle device was chosen to go: all its names are being guarded."),
        Edge("guarded", GUARDING, LISTING, "The guard is written; all claims are listed once every API server obeys."),
        Edge("list_wanted", LISTING, LISTING, "The guard has settled, and the list is requested."),
        Edge("listed", LISTING, LISTED, "A list that began after the settling has come."),
        Edge("taken", LISTED, HOLDING, "No claim has the device: dds's own claim is being allocated all its names."),
        Edge("seen", HOLDING, HELD, "The claim is there with all names: the device can be marked."),
        Edge("missed", HELD, LOST, "The claim is gone, is being deleted, or lacks a name."),
        Edge("guard_refused", GUARDING, LOST, "The guard was refused; it may stand in part, so it is lifted."),
        Edge("take_refused", HOLDING, LOST, "The claim was not allocated: it has to be removed, and the guard lifted."),
        Edge("removal_refused", ENDING, LOST, "The claim was not removed: that is tried again."),
        *each(
            "given_up",
            (GUARDING, LISTING, LISTED, HOLDING, HELD),
            LOST,
            "The device may not go after all: what is written of the hold has to be removed.",
        ),
        *each(
            "ended",
            (NONE, GUARDING, LISTING, LISTED, HOLDING, HELD, LOST),
            ENDING,
            "The claim is being cleared and deleted, and the guard lifted; so is a hold that this log does not know.",
        ),
        Edge("removed", ENDING, ENDED, "The claim is deleted; the watch has yet to show it."),
        Edge("gone", ENDED, NONE, "No claim of the hold is left."),
        *each("found", (HOLDING, HELD), HELD, "A new process finds the claim with all names."),
        *each(
            "restarted",
            (GUARDING, LISTING, LISTED, HOLDING, HELD, LOST, ENDING, ENDED),
            LOST,
            "A new process does not know what became of the last write: it begins again.",
        ),
    ),
    decided=("begun", "taken", "ended"),
)

# -- folds -------------------------------------------------------------------------------------------------------------


def _stage_of(row: Hold | None) -> str:
    return row.stage if row is not None else NONE


def _to(state: State, uid: str, trigger: str, begun: Hold | None = None, **changes: Any) -> None:
    """Take the device's hold to the next stage; `begun` is a new one."""
    HOLD.take(
        state.give_back.holds, uid, trigger, _stage_of, lambda row, stage: replace(row, stage=stage, **changes), begun
    )


def _begun(state: State, event: HoldBegun, at: int) -> None:
    _to(state, event.resource, "begun", Hold(event.node, event.devices, event.until, at, event.reason))
    count_detach(state, event.resource, at)


def _taken(state: State, event: DeviceHeld, at: int) -> None:
    _to(state, event.resource, "taken", since=at)


def _ended(state: State, event: HoldEnded, at: int) -> None:
    row = state.give_back.holds.get(event.resource) or Hold(event.node, event.devices, 0, at, event.reason)
    _to(state, event.resource, "ended", row, since=at)
    state.notes.fired_deadlines.drop((DeadlineKind.HOLD, event.resource))
    device = state.lifecycle.devices.get(event.resource)
    if device is not None and device.idle_since and not event.reissued:
        state.notes.fired_deadlines.put((LET_GO, event.resource), at)
        rounds = device.rounds + (row.stage != LOST)  # a refused step has its own pauses
        # Where no hold is possible, it leaves without one as soon as it may.
        since = at if are_possible(state, at) else device.idle_since
        state.lifecycle.devices.put(event.resource, replace(device, idle_since=since, rounds=rounds))


FOLDS: dict[type[Event], Fold] = {HoldBegun: _begun, DeviceHeld: _taken, HoldEnded: _ended}


def list_wanted(state: State, uid: str, settled: int) -> None:
    _to(state, uid, "list_wanted", wanted=True, since=settled)


def listed(state: State, uid: str, started: int, at: int) -> None:
    """A list of all claims has come that began at `started`."""
    row = state.give_back.holds.get(uid)
    if row is not None and row.wanted and started >= row.since:
        _to(state, uid, "listed", since=at)


def written(state: State, event: WriteDone, at: int) -> None:
    if event.action == HoldBegun.__name__:
        _to(state, event.target, "guarded", since=at)
    elif event.action == DeviceHeld.__name__:
        state.notes.clear_alert(event.target, HOLD_REFUSED)
    elif event.action == HoldEnded.__name__:
        _to(state, event.target, "removed", since=at)
        if not state.demand.claims_holding[event.target]:
            _to(state, event.target, "gone")


def seen(state: State, uid: str, at: int) -> None:
    """Take in what is observed of the claim that holds the device."""
    row = state.give_back.holds.get(uid)
    if row is None:
        return
    _to(state, uid, "seen" if _is_whole(state, uid, row) else "missed", since=at)
    if not state.demand.claims_holding[uid]:
        _to(state, uid, "gone")


def give_up(state: State, uid: str) -> None:
    """What was written of it is removed, and it may begin again."""
    _to(state, uid, "given_up")


def _refused(trigger: str) -> Callable[[State, str], None]:
    """A refusal counts only in the stage that waits for that write."""
    return lambda state, uid: _to(state, uid, trigger)


VOIDS = {
    HoldBegun.__name__: _refused("guard_refused"),
    DeviceHeld.__name__: _refused("take_refused"),
    HoldEnded.__name__: _refused("removal_refused"),
}
"""By the type of a decision that will not be carried out: how to forget its intent, given the device's uid."""


def restarted(state: State, unseen: set[Key]) -> None:
    """After a restart, a hold that is not seen whole is given up, and may begin again."""
    for uid, row in list(state.give_back.holds.rows.items()):
        if row.stage == ENDED and not state.demand.claims_holding[uid]:
            _to(state, uid, "gone")
        elif row.stage in (HOLDING, HELD) and _is_whole(state, uid, row):
            _to(state, uid, "found")
        else:
            _to(state, uid, "restarted")
            unseen.add((HoldEnded.__name__, uid))


def _is_whole(state: State, uid: str, row: Hold) -> bool:
    claims = [state.demand.claims.rows[claim] for claim in state.demand.claims_holding[uid]]
    held = {one.key for claim in claims if claim.allocation is not None for one in claim.allocation.results}
    return held.issuperset(row.devices) and not any(claim.deleting for claim in claims)


# -- rules -------------------------------------------------------------------------------------------------------------

_PAUSE = 30 * MICROSECONDS
"""From the end of a hold to the device's next one: in this time the claims for which it ended can take the device. Twice as long
each time, up to 32 min."""
_MOST_PAUSES = 7
_TOLD_FROM = 3
"""From the third hold of a device that ends without a detach, a person is alerted."""
_STEPS = tuple(one.__name__ for one in (HoldBegun, DeviceHeld, HoldEnded, VictimMarked))


def are_possible(state: State, at: int) -> bool:
    """Whether devices can be held. After a denial, for lack of rights or by a policy, none is for some time. After any other
    refusal only this one hold is tried again: a device that is detached without a hold may be taken meanwhile."""
    refused = state.notes.fired_deadlines.get(UNHELD)
    return bool(state.settings.guards) and (refused is None or at >= refused + AFTER_REFUSAL)


def pause_due(state: State, uid: str) -> int:
    """The instant from which a device may be held again: later each time that it was let go since it idles."""
    let_go, life = state.notes.fired_deadlines.get((LET_GO, uid)), state.lifecycle.devices.get(uid)
    rounds = min(life.rounds, _MOST_PAUSES) if life is not None else 0
    return let_go + (_PAUSE << max(0, rounds - 1)) if let_go is not None else 0


def begin(work: Work, resource: FabricResource, faces: Sequence[DeviceKey], reason: str) -> bool:
    """Begin the hold of a device with these names; False while a refused step must wait, or an exchange guards the device."""
    state = work.state
    refusals = (state.notes.refusals.get((step, resource.uid)) for step in _STEPS)
    if any(one is not None and work.at < one.until for one in refusals):
        return False
    if resource.uid in state.give_back.holds or any(key in state.hand_over.guarded for key in faces):
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


def _refusal(state: State, uid: str) -> str:
    """The API server's words about the hold of a device that it does not take; "" if it took it."""
    rows = (state.notes.refusals.get((step, uid)) for step in (HoldBegun.__name__, DeviceHeld.__name__))
    return next((row.text for row in rows if row is not None and row.text), "")


def next_step(work: Work, uid: str, row: Hold, why: str) -> None:
    """The next step of the hold, or its end if `why` says that the device may not go after all."""
    late = row.until - (LAST_MOMENT if row.stage == LISTED else 0)
    if row.stage in (ENDING, ENDED):
        return
    if row.stage == LOST:
        refused, resource = _refusal(work.state, uid), work.state.fleet.resources.get(uid)
        if refused and resource is not None:
            text = f"{resource.name} cannot be held before it leaves {row.node}, so it leaves later: {refused}"
            work.alert(uid, HOLD_REFUSED, text)
        lost = f"the API server refuses it: {refused}" if refused else "it was not there as it should be"
        _end(work, uid, row.node, row.devices, why or lost)
    elif why or (row.stage != HELD and work.has_come(late)):
        _end(work, uid, row.node, row.devices, why or "its guard is over")
    elif row.stage == LISTING and not row.wanted:
        list_when_settled(work, uid, row.since)
    elif row.stage == LISTED:
        name = work.state.fleet.resources.rows[uid].name
        hold = hold_name(name)
        work.emit_once(
            DeviceHeld(resource=uid, mode=work.state.mode, hold=hold, name=name, node=row.node, devices=row.devices)
        )


def end_stray(work: Work, claim: Claim) -> None:
    """End a hold that this log does not know, such as that of a scaler whose log is lost: it would keep its device for ever. Not
    while its device is about to go."""
    state, resource = work.state, work.state.fleet.resources.get(claim.hold)
    if resource is not None and (resource.leaving or resource.marked):
        return
    if (
        claim.hold in state.give_back.holds
        or not state.live
        or claim.namespace != state.settings.guards
        or claim.allocation is None
    ):
        return
    devices = tuple(one.key for one in claim.allocation.results)
    _end(work, claim.hold, claim.allocation.node, devices, "this log does not say why it is held")


def _end(work: Work, uid: str, node: str, devices: tuple[DeviceKey, ...], reason: str) -> None:
    state = work.state
    hold = next((state.demand.claims.rows[claim].name for claim in sorted(state.demand.claims_holding[uid])), "")
    resource = state.fleet.resources.get(uid)
    if not hold and resource is not None:
        hold = hold_name(resource.name)
    work.emit_once(
        HoldEnded(resource=uid, mode=state.settings.undoing_mode, hold=hold, node=node, devices=devices, reason=reason)
    )
    life = state.lifecycle.devices.get(uid)
    if life is not None and resource is not None and life.rounds >= _TOLD_FROM:
        text = f"{resource.name} on {node} is about to go back and is let go again and again, lately because {reason}"
        work.alert(uid, HELD_IN_VAIN, f"{text}; it is tried again later each time")


def due(state: State, uid: str) -> Iterator[Deadline]:
    """When something is to be done about the hold of a device."""
    row = state.give_back.holds.get(uid)
    if row is None:
        return
    if row.stage not in (HELD, LOST, ENDING, ENDED):
        yield Deadline(row.until, DeadlineKind.HOLD, uid)
    if row.stage == LISTING and not row.wanted:
        yield Deadline(settled_due(row.since), DeadlineKind.SETTLE, uid)
