"""Reservations: devices are reserved in the log before anything is signalled, and free for others again if they are not taken."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.kit.policy import MICROSECONDS
from dds_core.model import Claim
from dds_core.scaler.events import ReservationDropped, Reserved, ReservedDevice
from dds_core.scaler.model import ClaimLife
from dds_core.scaler.rules.assignment import Assignment
from dds_core.scaler.state import State, Work


def reserve(work: Work, assignment: Assignment, life: ClaimLife, node: str) -> bool:
    """Reserve the devices for the claim; for a claim of an extended resource, which is recreated, for its pod, while that exists.
    True when they are reserved (in observe: would be)."""
    state, claim = work.state, assignment.claim
    promises = (*ready_devices_of(assignment), *_kept(state, claim))
    pod = claim.owner if claim.extended and claim.owner in state.demand.pods else ""
    key = f"pod:{pod}" if pod else claim.uid
    standing = state.hand_over.reservations.get(key)
    if standing is not None and standing.promises == promises and standing.claim == claim.uid:
        return True
    _take_from_others(work, {key, claim.uid}, promises)
    return work.emit_once(
        Reserved(
            claim=claim.uid,
            mode=state.mode,
            node=node,
            cycle=life.cycle,
            attempt=life.attempt,
            promises=promises,
            pod=pod,
        )
    )


def _take_from_others(work: Work, own: set[str], promises: tuple[ReservedDevice, ...]) -> None:
    """A device reserved for another claim of the pod is chosen for this one now; the other claim may get nothing."""
    state = work.state
    used = (one for one in promises if not (one.share or one.admin))
    keys = {key for one in used for key in state.hand_over.reserved_for[one.identity]}
    for other in sorted({state.hand_over.reservations.rows[key].claim for key in keys - own}):
        reason = "another claim of its pod gets the device"
        work.emit_once(ReservationDropped(claim=other, mode=state.mode, reason=reason))


def ready_devices_of(assignment: Assignment) -> tuple[ReservedDevice, ...]:
    """The devices that stand ready for a claim, by the place of the result that each is for."""
    return tuple(sorted((promise for promise, _ in assignment.ready), key=lambda promise: promise.result))


def _kept(state: State, claim: Claim) -> Iterator[ReservedDevice]:
    """The node's own devices that the claim has beside those that it waits for. A hand-over clears all of them, so they are
    reserved too: in between no other claim may take them. A device that leaves the node is left out."""
    local = state.inventory.local_results(claim.allocation)
    for place, result in enumerate(claim.allocation.results if claim.allocation is not None else ()):
        if result in local and result.whole:
            resource = state.resource_of(result.key)
            if resource is not None and resource.leaving:
                continue
            uuid = resource.uuid if resource is not None else state.inventory.face(result.key).uuid
            yield ReservedDevice(place, uuid, *result.key, result.request)


def drop_overdue(work: Work, node: str) -> None:
    """Drop reservations that were not used in time after the hand-over, or are older than the time that the scheduler waits."""
    state = work.state
    for key in sorted(state.hand_over.reservations_at[node]):
        row = state.hand_over.reservations.rows[key]
        if work.has_come(reservation_due(state, key)):
            reason = (
                "not taken in time after the hand-over" if row.signalled else "kept longer than its scheduler waits"
            )
            work.emit_once(ReservationDropped(claim=row.claim, mode=state.mode, reason=reason))


def reservation_due(state: State, key: str) -> int:
    """The instant at which a reservation ends."""
    row = state.hand_over.reservations.rows[key]
    claim = state.demand.claims.get(row.claim)
    if claim is not None and claim.deleting:
        return row.since
    if row.signalled and (claim is None or claim.allocation is None):  # a claim that is not cleared cannot take it
        return row.signalled + state.policy.no_allocation_seconds * MICROSECONDS
    knobs = state.policy.scheduler_of(state.demand.scheduler_of(claim) if claim is not None else "")
    return row.since + knobs.binding_timeout_seconds * MICROSECONDS
