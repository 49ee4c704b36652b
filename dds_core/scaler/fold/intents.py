"""The folds of decisions: in live modes a logged decision counts, as intent, until the cluster shows it."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.scaler import events as e
from dds_core.scaler.fold.common import HOUR, Fold, nothing, shown_key, touch_device
from dds_core.scaler.rows import Cooling, Failure, Fence, HandOverRow, Order, Reservation
from dds_core.scaler.state import Picture


def _attach_ordered(picture: Picture, event: e.AttachOrdered, at: int) -> None:
    more = max(0, event.size - (event.previous or 0))
    picture.orders.put((event.node, event.model), Order(event.request, event.size, at, more))
    if event.reason == "prewarm":
        picture.passed.put(("prewarm", ""), at)


def _detach_ordered(picture: Picture, event: e.DetachOrdered, at: int) -> None:
    picture.orders.put((event.node, event.model), Order(event.request, event.size, at))
    for victim in event.victims:
        fence = picture.fences.get(victim)
        if fence is not None:
            picture.fences.put(victim, replace(fence, ordered=True))


def _reserved(picture: Picture, event: e.Reserved, at: int) -> None:
    key = f"pod:{event.pod}" if event.pod else event.claim
    if event.pod:
        picture.reservations.drop(event.claim)  # made before the pod was seen
    picture.reservations.put(key, Reservation(event.claim, event.node, event.attempt, event.promises, at, event.pod))
    picture.dirty.claims.add(event.claim)


def _reservation_dropped(picture: Picture, event: e.ReservationDropped, at: int) -> None:
    for key in sorted(picture.reservations_for[event.claim]):  # also the pod's, whose claim may be gone
        picture.reservations.drop(key)


def _hand_over(picture: Picture, event: e.HandOver, at: int) -> None:
    for signal in event.signals:
        uid = signal.claim
        life = picture.lives.get(uid)
        picture.hand_overs.put(uid, HandOverRow(event.pod, event.node, event.steering, life.attempt if life else 0, at))
        for key in (uid, f"pod:{event.pod}"):
            row = picture.reservations.get(key)
            if row is not None:
                picture.reservations.put(key, replace(row, signalled=at))
    picture.counters.put(f"hand-over/{event.steering}", (picture.counters.get(f"hand-over/{event.steering}") or 0) + 1)


def _steered(picture: Picture, event: e.Steered, at: int) -> None:
    for uid in event.claims:
        row = picture.hand_overs.get(uid)
        if row is not None:
            picture.hand_overs.put(uid, replace(row, steered=True))


def _claim_failed(picture: Picture, event: e.ClaimFailed, at: int) -> None:
    picture.failures.put(event.claim, Failure(event.attempt, event.reason, event.message, event.node, event.model, at))


def _failure_signalled(picture: Picture, event: e.FailureSignalled, at: int) -> None:
    failure = picture.failures.get(event.claim)
    if failure is not None:
        picture.failures.put(event.claim, replace(failure, signalled=True, on=event.signal.claim))


def _cool_down(picture: Picture, event: e.CoolDown, at: int) -> None:
    picture.cooling.put((event.node, event.model), Cooling(event.until, event.reason))


def _cool_down_over(picture: Picture, event: e.CoolDownOver, at: int) -> None:
    picture.cooling.drop((event.node, event.model))
    picture.passed.drop(("cooling", f"{event.node}/{event.model}"))


def _node_labelled(picture: Picture, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        picture.labelled.put((event.node, key), value or "")


def _victim_marked(picture: Picture, event: e.VictimMarked, at: int) -> None:
    resource = picture.resources.get(event.resource)
    picture.fences.put(
        event.resource,
        Fence(at, (event.driver, event.pool, event.device), resource.request if resource else ""),
    )
    picture.unmarked.drop(event.resource)
    for uid, marked in list(picture.marks.rows.items()):
        if marked <= at - HOUR:
            picture.marks.drop(uid)
    picture.marks.put(event.resource, at)
    touch_device(picture, event.resource)


def _victim_unmarked(picture: Picture, event: e.VictimUnmarked, at: int) -> None:
    picture.fences.drop(event.resource)
    picture.passed.drop(("fence", event.resource))
    picture.unmarked.put(event.resource, at)
    touch_device(picture, event.resource)


def _taint_lifted(picture: Picture, event: e.TaintLifted, at: int) -> None:
    picture.lifted.put(event.rule, at)


def _claims_list_wanted(picture: Picture, event: e.ClaimsListWanted, at: int) -> None:
    fence = picture.fences.get(event.resource)
    if fence is not None:
        picture.fences.put(event.resource, replace(fence, wanted=True))


def _alerted(picture: Picture, event: e.Alerted, at: int) -> None:
    picture.shown.put(shown_key(event), e.encode(event))


FOLDS: dict[type[Event], Fold] = {
    e.AttachOrdered: _attach_ordered,
    e.Reserved: _reserved,
    e.ReservationDropped: _reservation_dropped,
    e.HandOver: _hand_over,
    e.Steered: _steered,
    e.ClaimFailed: _claim_failed,
    e.FailureSignalled: _failure_signalled,
    e.CoolDown: _cool_down,
    e.CoolDownOver: _cool_down_over,
    e.NodeLabelled: _node_labelled,
    e.VictimMarked: _victim_marked,
    e.VictimUnmarked: _victim_unmarked,
    e.TaintLifted: _taint_lifted,
    e.ClaimsListWanted: _claims_list_wanted,
    e.DetachOrdered: _detach_ordered,
    e.UsedStamped: nothing,
    e.Alerted: _alerted,
}
