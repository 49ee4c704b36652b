"""What several folds share: forgetting what is gone, and touching what has to be looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.model import AttachRequest
from dds_core.scaler import events as e
from dds_core.scaler.state import Picture

HOUR = 3_600_000_000
SECOND = 1_000_000
DEPARTED = "departed"
"""Kind under which `passed` remembers the UUIDs of devices that went back while a slice still shows them."""

Fold = Callable[[Picture, Any, int], None]

_FORGET_WITH_CLAIM = ("HandOver", "Reserved", "ReservationDropped", "ClaimFailed", "FailureSignalled")


def forget_claim(picture: Picture, uid: str) -> None:
    picture.lives.drop(uid)
    for name in _FORGET_WITH_CLAIM:
        picture.shown.drop((name, uid))
    for kind in ("budget", "reservation", "publisher"):
        picture.passed.drop((kind, uid))
    forget_words(picture, uid)


def forget_rejections(picture: Picture, uid: str) -> None:
    for key in list(picture.rejections_of[uid]):
        picture.rejections.drop(key)


def forget_words(picture: Picture, of: str) -> None:
    """What was told of something that is gone: if it comes again, it is told again."""
    forget_rejections(picture, of)
    for alert in list(picture.alerts_of[of]):
        picture.shown.drop(alert)


def detach_void(picture: Picture, request: str) -> None:
    """The size was not lowered after all: it may be ordered again."""
    for uid, fence in list(picture.fences.rows.items()):
        if fence.request == request and fence.ordered:
            picture.fences.put(uid, replace(fence, ordered=False))


def touch_device(picture: Picture, uid: str) -> None:
    picture.dirty.devices.add(uid)
    resource = picture.resources.get(uid)
    if resource is not None:
        picture.dirty.nodes.add(resource.node)


def nothing(picture: Picture, event: Event, at: int) -> None:
    """Told for people; nothing rests on it."""


def drop_reservation(picture: Picture, claim_uid: str) -> None:
    picture.reservations.drop(claim_uid)
    claim = picture.claims.get(claim_uid)
    if claim is not None and claim.extended and claim.owner:
        picture.reservations.drop(f"pod:{claim.owner}")


def order_met(picture: Picture, request: AttachRequest) -> None:
    """Our intent for the request is fulfilled when it has the size that we ordered last."""
    cell = (request.node, request.model)
    order = picture.orders.get(cell)
    if order is not None and order.request == request.name and order.size == request.size:
        picture.orders.drop(cell)


def shown_key(decision: e.Decision) -> tuple[str, str]:
    """What a later decision must have in common with this one to take its place."""
    cell = f"{decision.node}/{decision.model}" if isinstance(decision, e.OfCell) else decision.subject
    if isinstance(decision, e.Alerted):
        cell = f"{decision.of}:{decision.reason}"
    elif isinstance(decision, e.NodeLabelled) and all(key.endswith("-ready") for key in decision.labels):
        cell = f"{decision.node}:ready"
    return (type(decision).__name__, cell)
