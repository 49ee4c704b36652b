"""What becomes of decisions. In live modes a logged decision counts, as intent, until the cluster shows it: its fold puts the
intent there, a write that came to nothing makes it void (`VOIDS`), and after a restart one that the cluster does not show is
void too, so that the level pass that follows decides it again (`void_unseen`). Reservations stand: they are promises, not
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.kit.state import Key
from dds_core.kit.work import Fold, nothing
from dds_core.model import FAILED_CONDITION, RESCHEDULE, AttachRequest
from dds_core.scaler import events as e
from dds_core.scaler.fold import reuse
from dds_core.scaler.model import (
    ANY_VERSION,
    Cooling,
    Exchange,
    Failure,
    Fence,
    Guarded,
    HandOverRow,
    Hold,
    HoldStage,
    Order,
    Reservation,
    Stage,
)
from dds_core.scaler.state import Picture

# -- requests ----------------------------------------------------------------------------------------------------------


def _attach_ordered(picture: Picture, event: e.AttachOrdered, at: int) -> None:
    more = max(0, event.size - (event.previous or 0))
    if not event.size:  # taken back before there was a request
        picture.orders.drop((event.node, event.model))
        return
    picture.orders.put((event.node, event.model), Order(event.request, event.size, at, more))
    if event.reason == "prewarm":
        picture.passed.put(("prewarm", ""), at)


def _detach_ordered(picture: Picture, event: e.DetachOrdered, at: int) -> None:
    picture.orders.put((event.node, event.model), Order(event.request, event.size, at))
    for victim in event.victims:
        fence = picture.fences.get(victim)
        if fence is not None:
            picture.fences.put(victim, replace(fence, ordered=True))


def order_met(picture: Picture, request: AttachRequest) -> None:
    """Our intent for the request is fulfilled when it has the size that we ordered last."""
    cell = (request.node, request.model)
    order = picture.orders.get(cell)
    if order is not None and order.request == request.name and order.size == request.size:
        picture.orders.drop(cell)


def _asked_back_in_vain(picture: Picture, request: AttachRequest) -> None:
    """A size was asked back that was never lowered: the request has more, and would never show ours."""
    cell = (request.node, request.model)
    order = picture.orders.get(cell)
    lowered = any(fence.ordered for fence in picture.fences.rows.values() if fence.request == request.name)
    if order is not None and order.request == request.name and order.size < request.size and not lowered:
        picture.orders.drop(cell)
        picture.dirty.nodes.add(request.node)


def _order_void(picture: Picture, request: str) -> None:
    for cell, order in list(picture.orders.rows.items()):
        if order.request == request:
            picture.orders.drop(cell)
            picture.dirty.nodes.add(cell[0])


def detach_void(picture: Picture, request: str) -> None:
    """The size was not lowered after all: it may be ordered again."""
    for uid, fence in list(picture.fences.rows.items()):
        if fence.request == request and fence.ordered:
            picture.fences.put(uid, replace(fence, ordered=False))


def _lowering_void(picture: Picture, request: str) -> None:
    _order_void(picture, request)
    detach_void(picture, request)


_ORDERS = (e.AttachOrdered.__name__, e.DetachOrdered.__name__)


def _orders_unseen(picture: Picture, unseen: set[Key]) -> None:
    for cell in list(picture.orders):
        picture.orders.drop(cell)
        unseen |= {(action, "/".join(cell)) for action in _ORDERS}


# -- claims ------------------------------------------------------------------------------------------------------------


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


def _hand_over_void(picture: Picture, claim: str) -> None:
    """Nobody of the group was told: its claims are signalled in one write or not at all."""
    first = picture.hand_overs.get(claim)
    together = [claim]
    if first is not None:
        rows = picture.hand_overs.rows.items()
        together = [uid for uid, row in rows if (row.pod, row.node, row.since) == (first.pod, first.node, first.since)]
    for uid in together:
        picture.hand_overs.drop(uid)
        picture.dirty.claims.add(uid)


def _steered(picture: Picture, event: e.Steered, at: int) -> None:
    for uid in event.claims:
        row = picture.hand_overs.get(uid)
        if row is not None:
            picture.hand_overs.put(uid, replace(row, steered=True))


def _steering_void(picture: Picture, pod: str) -> None:
    for uid, row in list(picture.hand_overs.rows.items()):
        if row.pod == pod:
            picture.hand_overs.put(uid, replace(row, steered=False))


def _hand_overs_unseen(picture: Picture, unseen: set[Key]) -> None:
    for uid, row in list(picture.hand_overs.rows.items()):
        if not picture.is_told(uid, RESCHEDULE):
            picture.hand_overs.drop(uid)
            unseen.add((e.HandOver.__name__, uid))
        elif row.steered:
            picture.hand_overs.put(uid, replace(row, steered=False))
            unseen.add((e.Steered.__name__, row.pod))


# -- exchanges ---------------------------------------------------------------------------------------------------------

RELISTED, UNGUARDED, UNHELD = ("claims", "relisted"), ("guard", "refused"), ("hold", "refused")
"""Under these `passed` remembers when the watch of claims began anew, and when a step of an exchange, or of a hold, was refused
for lack of rights or of what devices are guarded with."""
LET_GO = "let-go"
"""With the uid of a device: when its hold ended."""


def _exchange_begun(picture: Picture, event: e.ExchangeBegun, at: int) -> None:
    group = event.for_claims()
    for swap in event.swaps:
        life, before = picture.lives.get(swap.claim), picture.exchanges.get(swap.claim)
        attempt = life.attempt if life is not None else 0
        version = before.version if before is not None else ""
        row = Exchange(event.pod, event.node, attempt, swap, group, event.until, at, version=version)
        picture.exchanges.put(swap.claim, row)
        for one in swap.results:
            if one.key in event.guarded:
                picture.guarded.put(one.key, Guarded(swap.claim, event.until, event.node))


def go_on(picture: Picture, group: Iterable[str], before: Stage, after: Stage, at: int, version: str = "") -> None:
    """The exchanges of these claims that are at a stage come to the next."""
    for uid in group:
        row = picture.exchanges.get(uid)
        if row is not None and row.stage == before:
            picture.exchanges.put(
                uid, replace(row, stage=after, since=at, version=version or row.version, wanted=False)
            )


def settled_due(picture: Picture, since: int) -> int:
    """The instant from which a guard that acts since then is taken to be known to every API server."""
    return since + picture.policy.guard_settle_milliseconds * (MICROSECONDS // 1000)


def _allocation_cleared(picture: Picture, event: e.AllocationCleared, at: int) -> None:
    go_on(picture, (event.claim,), "listed", "clearing", at)


_CLEARED: tuple[Stage, ...] = ("listed", "cleared")


def _devices_given(picture: Picture, event: e.DevicesGiven, at: int) -> None:
    for stage in _CLEARED:
        go_on(picture, (event.claim,), stage, "giving", at)
    picture.counters.put("hand-over/exchange", (picture.counters.get("hand-over/exchange") or 0) + 1)


def _exchange_ended(picture: Picture, event: e.ExchangeEnded, at: int) -> None:
    picture.exchanges.drop(event.claim)


def _guard_lifted(picture: Picture, event: e.GuardLifted, at: int) -> None:
    for key in event.devices:
        if (row := picture.guarded.get(key)) is not None:
            picture.guarded.put(key, replace(row, lifting=True))
    picture.passed.drop(("guard", event.claim))


def _guards_are_off(picture: Picture, claim: str) -> None:
    lifting = {key for key in picture.guarded_for[claim] if picture.guarded.rows[key].lifting}
    picture.guarded.drop_where(lambda key: key in lifting)


def _guard_void(picture: Picture, claim: str) -> None:
    """It is not known to be off: to be tried again, unless it has ended by itself meanwhile or nothing can be guarded now."""
    for key in sorted(picture.guarded_for[claim]):
        row = picture.guarded.rows[key]
        if row.until <= picture.now or not (picture.guards or picture.unanswered):
            picture.guarded.drop(key)
        else:
            picture.guarded.put(key, replace(row, lifting=False))


_NEXT: dict[str, tuple[Stage, Stage]] = {
    e.ExchangeBegun.__name__: ("guarding", "listing"),
    e.AllocationCleared.__name__: ("clearing", "cleared"),
    e.DevicesGiven.__name__: ("giving", "given"),
}


_REFUSED_TO_ALL = {
    e.ExchangeBegun.__name__: UNGUARDED,
    e.DevicesGiven.__name__: UNGUARDED,
    e.HoldBegun.__name__: UNHELD,
    e.DeviceHeld.__name__: UNHELD,
}
"""Where no other device is to be tried after a refusal for lack of rights. A clearing that is refused has harmed nobody."""
_NO_RIGHTS = (403, 404)
"""HTTP status of a write that cannot succeed before somebody installs a policy or grants a right."""


def _step_done(picture: Picture, event: e.WriteDone, at: int) -> None:
    row = picture.exchanges.get(event.target)
    if event.action == e.GuardLifted.__name__:
        _guards_are_off(picture, event.target)
    if row is not None and event.action in _NEXT:
        group = row.group if event.action == e.ExchangeBegun.__name__ else (event.target,)
        go_on(picture, group, *_NEXT[event.action], at, event.version)


def _exchange_void(picture: Picture, claim: str) -> None:
    """A step came to nothing. A claim whose allocation is cleared is left as it is; the others are handed over in another way."""
    row = picture.exchanges.get(claim)
    for uid in row.group if row is not None and row.stage == "guarding" else (claim,):
        one = picture.exchanges.get(uid)
        if one is not None and one.version:
            picture.exchanges.put(uid, replace(one, stage="left"))
        else:
            picture.exchanges.drop(uid)


def _exchanges_unseen(picture: Picture, unseen: set[Key], at: int) -> None:
    """What was not cleared yet begins anew. What was is guarded again, and then goes on: with the version that clearing left, or,
    where the process ended before it heard of that, with the one that is there. It does not matter then who cleared the
    claim: without allocation and reservation no pod uses it, and a scheduler that gave up on it finds the devices allocated."""
    for key, guard in [*picture.guarded.rows.items()]:
        if guard.lifting:  # also one that has ended: its key would stay
            picture.guarded.put(key, replace(guard, lifting=False))
            unseen.add((e.GuardLifted.__name__, guard.claim))
    for uid, row in list(picture.exchanges.rows.items()):
        claim = picture.claims.get(uid)
        if claim is None or claim.allocation is not None or not row.open:
            picture.exchanges.drop(uid)
            unseen |= {(e.ExchangeBegun.__name__, uid), (e.GuardLifted.__name__, uid)}
        elif row.stage != "left":
            version = row.version or ANY_VERSION
            picture.exchanges.put(uid, replace(row, stage="cleared", until=0, since=at, version=version))
            unseen |= {(e.ExchangeBegun.__name__, uid), (e.DevicesGiven.__name__, uid)}


def _claim_failed(picture: Picture, event: e.ClaimFailed, at: int) -> None:
    picture.failures.put(event.claim, Failure(event.attempt, event.reason, event.message, event.node, event.model, at))
    life = picture.lives.get(event.claim)
    if life is not None and event.device and event.device not in life.unsuited:
        picture.lives.put(event.claim, replace(life, unsuited=(*life.unsuited, event.device)))


def _failure_signalled(picture: Picture, event: e.FailureSignalled, at: int) -> None:
    failure = picture.failures.get(event.claim)
    if failure is not None:
        picture.failures.put(event.claim, replace(failure, signalled=True, on=event.signal.claim))


def _failure_void(picture: Picture, claim: str) -> None:
    failure = picture.failures.get(claim)
    if failure is not None:
        picture.failures.put(claim, replace(failure, signalled=False))


def _failures_unseen(picture: Picture, unseen: set[Key]) -> None:
    for uid, row in list(picture.failures.rows.items()):
        if row.signalled and not picture.is_told(row.on, FAILED_CONDITION):
            picture.failures.put(uid, replace(row, signalled=False))
            unseen.add((e.FailureSignalled.__name__, uid))


# -- nodes -------------------------------------------------------------------------------------------------------------


def _cool_down(picture: Picture, event: e.CoolDown, at: int) -> None:
    row = Cooling(event.until, event.reason, event.times)
    picture.cooling.put((event.node, event.model), row)
    if not row.of_fabric:
        picture.cooled.put((event.node, event.model), row)


def _cool_down_over(picture: Picture, event: e.CoolDownOver, at: int) -> None:
    picture.cooling.drop((event.node, event.model))
    picture.passed.drop(("cooling", f"{event.node}/{event.model}"))


def _node_labelled(picture: Picture, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        picture.labelled.put((event.node, key), value or "")


def _label_void(picture: Picture, node: str) -> None:
    picture.labelled.drop_where(lambda key: key[0] == node)
    picture.dirty.nodes.add(node)


def _labels_unseen(picture: Picture, unseen: set[Key]) -> None:
    for key in list(picture.labelled):
        picture.labelled.drop(key)
        unseen.add((e.NodeLabelled.__name__, key[0]))


# -- devices -----------------------------------------------------------------------------------------------------------


def _hold_begun(picture: Picture, event: e.HoldBegun, at: int) -> None:
    picture.holds.put(event.resource, Hold(event.node, event.devices, event.until, at, event.reason))
    _count_detach(picture, event.resource, at)


def _device_held(picture: Picture, event: e.DeviceHeld, at: int) -> None:
    hold_is(picture, event.resource, "holding", at)


def _hold_ended(picture: Picture, event: e.HoldEnded, at: int) -> None:
    row = picture.holds.get(event.resource) or Hold(event.node, event.devices, 0, at, event.reason)
    picture.holds.put(event.resource, replace(row, stage="ending", since=at))
    picture.passed.drop(("hold", event.resource))
    device = picture.devices.get(event.resource)
    if device is not None and device.idle_since and not event.reissued:
        picture.passed.put((LET_GO, event.resource), at)
        picture.devices.put(event.resource, replace(device, idle_since=at))


def hold_is(picture: Picture, resource: str, stage: HoldStage, at: int) -> None:
    row = picture.holds.get(resource)
    if row is not None:
        picture.holds.put(resource, replace(row, stage=stage, since=at))


def hold_seen(picture: Picture, resource: str, at: int) -> None:
    """What became of the claim that holds a device, as it is observed."""
    row = picture.holds.get(resource)
    if row is None:
        return
    whole = _is_held_whole(picture, resource, row)
    if row.stage == "holding" and whole:
        hold_is(picture, resource, "held", at)
    elif row.stage == "held" and not whole:
        hold_is(picture, resource, "lost", at)
    elif row.stage == "ended" and not picture.claims_holding[resource]:
        picture.holds.drop(resource)


def _is_held_whole(picture: Picture, resource: str, row: Hold) -> bool:
    claims = [picture.claims.rows[uid] for uid in picture.claims_holding[resource]]
    held = {one.key for claim in claims if claim.allocation is not None for one in claim.allocation.results}
    return held.issuperset(row.devices) and not any(claim.deleting for claim in claims)


def _hold_void(picture: Picture, resource: str) -> None:
    """What of it was written is taken away: it begins anew."""
    row = picture.holds.get(resource)
    if row is not None:
        picture.holds.put(resource, replace(row, stage="lost"))


def _hold_written(picture: Picture, event: e.WriteDone, at: int) -> None:
    row = picture.holds.get(event.target)
    if row is None:
        return
    if event.action == e.HoldBegun.__name__ and row.stage == "guarding":
        hold_is(picture, event.target, "listing", at)
    elif event.action == e.HoldEnded.__name__ and row.stage == "ending":
        hold_is(picture, event.target, "ended", at)
        hold_seen(picture, event.target, at)


def _holds_unseen(picture: Picture, unseen: set[Key]) -> None:
    """A hold that is not seen whole is taken away, and begins anew."""
    for uid, row in list(picture.holds.rows.items()):
        if row.stage == "ended" and not picture.claims_holding[uid]:
            picture.holds.drop(uid)
        elif row.stage in ("holding", "held") and _is_held_whole(picture, uid, row):
            picture.holds.put(uid, replace(row, stage="held"))
        else:
            picture.holds.put(uid, replace(row, stage="lost"))
            unseen.add((e.HoldEnded.__name__, uid))


def _count_detach(picture: Picture, resource: str, at: int) -> None:
    picture.marks.drop_where(lambda uid: picture.marks.rows[uid] <= at - HOUR)
    picture.marks.put(resource, at)
    reuse.chosen(picture, resource, at)
    picture.touch_device(resource)


def _victim_marked(picture: Picture, event: e.VictimMarked, at: int) -> None:
    resource, key = picture.resources.get(event.resource), (event.driver, event.pool, event.device)
    held = event.resource in picture.holds
    picture.fences.put(event.resource, Fence(at, key, resource.request if resource else "", held=held))
    picture.unmarked.drop(event.resource)
    if event.device:
        _count_detach(picture, event.resource, at)


def _mark_void(picture: Picture, resource: str) -> None:
    picture.fences.drop(resource)
    _hold_void(picture, resource)
    picture.touch_device(resource)


def _victim_unmarked(picture: Picture, event: e.VictimUnmarked, at: int) -> None:
    picture.fences.drop(event.resource)
    _hold_void(picture, event.resource)
    picture.passed.drop(("fence", event.resource))
    picture.unmarked.put(event.resource, at)
    picture.touch_device(event.resource)


def _unmark_void(picture: Picture, resource: str) -> None:
    if resource in picture.unmarked:
        picture.unmarked.put(resource, 0)


def _taint_lifted(picture: Picture, event: e.TaintLifted, at: int) -> None:
    picture.lifted.put(event.rule, at)


def _lift_void(picture: Picture, rule: str) -> None:
    picture.lifted.drop(rule)
    picture.dirty.rules.add(rule)


def _claims_list_wanted(picture: Picture, event: e.ClaimsListWanted, at: int) -> None:
    fence, exchange = picture.fences.get(event.resource), picture.exchanges.get(event.resource)
    hold = picture.holds.get(event.resource)
    if fence is not None:
        picture.fences.put(event.resource, replace(fence, wanted=True))
    elif hold is not None:
        picture.holds.put(event.resource, replace(hold, wanted=True))
    if exchange is not None:
        picture.exchanges.put(event.resource, replace(exchange, wanted=True))


def _is_lowered(picture: Picture, name: str) -> bool:
    """Whether the request asks for less than what stays of it: the operator may take something off at any moment."""
    request = picture.requests.get(picture.request_named.get(name, ""))
    owned = (picture.resources.rows[uid] for uid in picture.resources_of_request[name])
    return request is not None and request.size < sum(not one.leaving for one in owned)


def _fences_unseen(picture: Picture, unseen: set[Key], at: int) -> None:
    """A fence that was watched by a process that is gone starts anew; a mark that is not there is to be written again. What is
    about to be taken off stays ordered: it can only go, or be asked back."""
    for uid, fence in list(picture.fences.rows.items()):
        resource = picture.resources.get(uid)
        if resource is None:
            picture.fences.drop(uid)
            continue
        ordered = fence.ordered and _is_lowered(picture, fence.request)
        picture.fences.put(uid, replace(fence, since=at, wanted=False, confirmed=0, ordered=ordered))
        unseen.add((e.ClaimsListWanted.__name__, uid))
        if not resource.marked:
            unseen.add((e.VictimMarked.__name__, uid))
    unseen |= {(e.VictimUnmarked.__name__, uid) for uid in picture.unmarked}
    unseen |= {(e.TaintLifted.__name__, uid) for uid in picture.lifted}
    picture.lifted.drop_where(lambda uid: True)


# -- all ---------------------------------------------------------------------------------------------------------------


def void_unseen(picture: Picture, at: int) -> set[Key]:
    """Void every intent that the cluster does not show after a restart; gives what is re-issued if it is decided again."""
    unseen: set[Key] = set()
    _orders_unseen(picture, unseen)
    _hand_overs_unseen(picture, unseen)
    _exchanges_unseen(picture, unseen, at)
    _failures_unseen(picture, unseen)
    _labels_unseen(picture, unseen)
    _fences_unseen(picture, unseen, at)
    _holds_unseen(picture, unseen)
    return unseen


VOIDS: dict[str, Callable[[Picture, str], None]] = {
    e.AttachOrdered.__name__: _order_void,
    e.DetachOrdered.__name__: _lowering_void,
    e.HandOver.__name__: _hand_over_void,
    e.Steered.__name__: _steering_void,
    e.ExchangeBegun.__name__: _exchange_void,
    e.AllocationCleared.__name__: _exchange_void,
    e.DevicesGiven.__name__: _exchange_void,
    e.GuardLifted.__name__: _guard_void,
    e.FailureSignalled.__name__: _failure_void,
    e.NodeLabelled.__name__: _label_void,
    e.TaintLifted.__name__: _lift_void,
    e.HoldBegun.__name__: _hold_void,
    e.DeviceHeld.__name__: _hold_void,
    e.HoldEnded.__name__: _hold_void,
    e.VictimMarked.__name__: _mark_void,
    e.VictimUnmarked.__name__: _unmark_void,
}
"""By the type of a decision that will not be carried out: forget its intent; given the object's name or uid."""


def _write_done(picture: Picture, event: e.WriteDone, at: int) -> None:
    kit.write_done(picture, event)
    _step_done(picture, event, at)
    _hold_written(picture, event, at)
    request = picture.requests.get(picture.request_named.get(event.target, ""))
    if request is not None and event.action in _ORDERS:
        order_met(picture, request)
        _asked_back_in_vain(picture, request)


def _write_failed(picture: Picture, event: e.WriteRefused | e.WriteObsolete, at: int) -> None:
    """The intent is void, and what follows from that is decided when the pause is over."""
    before = picture.refusals.get((event.action, event.target))
    ordered = (cell[0] for cell, order in picture.orders.rows.items() if order.request == event.target)
    kit.try_later(picture, event, at, next(ordered, before.node if before is not None else ""))
    if isinstance(event, e.WriteRefused) and event.code in _NO_RIGHTS and event.action in _REFUSED_TO_ALL:
        picture.passed.put(_REFUSED_TO_ALL[event.action], at)
    if isinstance(event, e.WriteRefused) and event.action == e.DevicesGiven.__name__:
        # nor is it cleared for that again
        kit.try_later(picture, replace(event, action=e.AllocationCleared.__name__), at)
    void = VOIDS.get(event.action)
    if void is not None:
        void(picture, event.target)


def _superseded(picture: Picture, event: e.Superseded, at: int) -> None:
    """A newer decision took its place; that one carries the intent. Where it raises a request instead of lowering it, the other
    victims' turn is still to come."""
    if event.action == e.DetachOrdered.__name__:
        detach_void(picture, event.target)


FOLDS: dict[type[Event], Fold] = {
    e.AttachOrdered: _attach_ordered,
    e.Reserved: _reserved,
    e.ReservationDropped: _reservation_dropped,
    e.HandOver: _hand_over,
    e.Steered: _steered,
    e.ExchangeBegun: _exchange_begun,
    e.AllocationCleared: _allocation_cleared,
    e.DevicesGiven: _devices_given,
    e.ExchangeEnded: _exchange_ended,
    e.GuardLifted: _guard_lifted,
    e.ClaimFailed: _claim_failed,
    e.FailureSignalled: _failure_signalled,
    e.CoolDown: _cool_down,
    e.CoolDownOver: _cool_down_over,
    e.NodeLabelled: _node_labelled,
    e.HoldBegun: _hold_begun,
    e.DeviceHeld: _device_held,
    e.HoldEnded: _hold_ended,
    e.VictimMarked: _victim_marked,
    e.VictimUnmarked: _victim_unmarked,
    e.TaintLifted: _taint_lifted,
    e.ClaimsListWanted: _claims_list_wanted,
    e.DetachOrdered: _detach_ordered,
    e.UsedStamped: nothing,
    e.WriteDone: _write_done,
    e.WriteObsolete: _write_failed,
    e.WriteRefused: _write_failed,
    e.Superseded: _superseded,
}
