"""Reservations: devices are promised durably before anything is signalled, and free for others again when they are not taken."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.kit.policy import MICROSECONDS
from dds_core.model import Claim
from dds_core.scaler.events import Promise, ReservationDropped, Reserved
from dds_core.scaler.model import ClaimLife
from dds_core.scaler.rules.assignment import Cover
from dds_core.scaler.state import Picture, Work


def reserve(work: Work, covered: Cover, life: ClaimLife, node: str) -> bool:
    """Promise the devices to the claim, or to the pod that an extended-resource claim is made anew for, as long as there is
    that pod; True when they are promised (or, in observe, would be)."""
    picture, claim = work.picture, covered.claim
    promises = (*promises_of(covered), *_kept(picture, claim))
    pod = claim.owner if claim.extended and claim.owner in picture.pods else ""
    key = f"pod:{pod}" if pod else claim.uid
    standing = picture.reservations.get(key)
    if standing is not None and standing.promises == promises and standing.claim == claim.uid:
        return True
    _take_from_others(work, {key, claim.uid}, promises)
    return work.want(
        Reserved(
            claim=claim.uid,
            mode=picture.mode,
            node=node,
            cycle=life.cycle,
            attempt=life.attempt,
            promises=promises,
            pod=pod,
        )
    )


def _take_from_others(work: Work, own: set[str], promises: tuple[Promise, ...]) -> None:
    """What was promised to another claim of the pod is chosen for this one by now; that one may get nothing."""
    picture = work.picture
    keys = {key for one in promises if not one.share for key in picture.reserved_for[one.identity]}
    for other in sorted({picture.reservations.rows[key].claim for key in keys - own}):
        reason = "another claim of its pod gets the device"
        work.want(ReservationDropped(claim=other, mode=picture.mode, reason=reason))


def promises_of(covered: Cover) -> tuple[Promise, ...]:
    """The devices that stand ready for a claim, by the place of the result each is for."""
    return tuple(sorted((promise for promise, _ in covered.ready), key=lambda promise: promise.result))


def _kept(picture: Picture, claim: Claim) -> Iterator[Promise]:
    """The node's own devices that the claim has beside those that it waits for. At a hand-over it lets go of all that it has, to
    get them again: in between they are nobody else's. A device that leaves the node is left out."""
    local = picture.local_results(claim.allocation)
    for place, result in enumerate(claim.allocation.results if claim.allocation is not None else ()):
        if result in local and not result.share:
            resource = picture.resource_of(result.key)
            if resource is not None and resource.leaving:
                continue
            uuid = resource.uuid if resource is not None else picture.face(result.key).uuid
            yield Promise(place, uuid, *result.key, result.request)


def drop_overdue(work: Work, node: str) -> None:
    """A device that was handed over and not taken in time, or kept for longer than its scheduler waits, is free for others
    again."""
    picture = work.picture
    for key in sorted(picture.reservations_at[node]):
        row = picture.reservations.rows[key]
        if work.has_come(reservation_due(picture, key)):
            reason = (
                "not taken in time after the hand-over" if row.signalled else "kept longer than its scheduler waits"
            )
            work.want(ReservationDropped(claim=row.claim, mode=picture.mode, reason=reason))


def reservation_due(picture: Picture, key: str) -> int:
    """The instant from which a promise binds nobody any more."""
    row = picture.reservations.rows[key]
    claim = picture.claims.get(row.claim)
    if row.signalled and (claim is None or claim.allocation is None):  # before, it could not be taken
        return row.signalled + picture.policy.no_allocation_seconds * MICROSECONDS
    knobs = picture.policy.scheduler_of(picture.scheduler_of(claim) if claim is not None else "")
    return row.since + knobs.binding_timeout_seconds * MICROSECONDS
