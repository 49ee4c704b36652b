"""The folds of decisions. In live modes a logged decision counts, as an intent, until the cluster shows it.

Its fold records the intent. A write that failed makes it void (`VOIDS`). After a restart, an intent that the cluster does not
show is void too (`void_unseen`), and the level pass that follows decides again. Reservations stay: they are not writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.state import Key
from dds_core.kit.work import Fold, nothing
from dds_core.model import FAILED_CONDITION, RESCHEDULE, AttachRequest
from dds_core.scaler import events as e
from dds_core.scaler import hold
from dds_core.scaler.fold import reuse
from dds_core.scaler.fold.looks import nudge_void, nudged
from dds_core.scaler.keys import ORDERED, UNGUARDED, UNHELD
from dds_core.scaler.model import (
    ANY_VERSION,
    NO_DEVICE,
    Cooling,
    Exchange,
    Failure,
    Fence,
    Guarded,
    HandOverRow,
    Order,
    Reservation,
    Stage,
)
from dds_core.scaler.state import State

# -- requests ----------------------------------------------------------------------------------------------------------


def note_ordered(state: State, node: str, at: int) -> None:
    """From now on a device of the node that no resource names may be one of the operator's."""
    known = node in state.node_named or not state.synced
    if node and known and (ORDERED, node) not in state.fired_deadlines:
        state.fired_deadlines.put((ORDERED, node), at)


def _attach_ordered(state: State, event: e.AttachOrdered, at: int) -> None:
    more = max(0, event.size - (event.previous or 0))
    if not event.size:  # taken back before there was a request
        state.orders.drop((event.node, event.model))
        return
    state.orders.put((event.node, event.model), Order(event.request, event.size, at, more))
    note_ordered(state, event.node, at)
    for uid in event.claims if event.reason == "demand" else ():
        life = state.lives.get(uid)
        if life is not None and not (event.reissued and event.model in life.ordered):
            state.lives.put(uid, replace(life, ordered=(*life.ordered, event.model)))
    if event.reason == "prewarm":
        state.fired_deadlines.put((DeadlineKind.PREWARM, ""), at)


def _detach_ordered(state: State, event: e.DetachOrdered, at: int) -> None:
    state.orders.put((event.node, event.model), Order(event.request, event.size, at))
    for victim in event.victims:
        fence = state.fences.get(victim)
        if fence is None and event.unattached:
            fence = Fence(at, NO_DEVICE, event.request)
        if fence is not None:
            state.fences.put(victim, replace(fence, ordered=True))


def order_met(state: State, request: AttachRequest) -> None:
    """The order is fulfilled when the request has the size that was ordered last."""
    cell = (request.node, request.model)
    order = state.orders.get(cell)
    if order is not None and order.request == request.name and order.size == request.size:
        state.orders.drop(cell)


def _forget_fruitless_order(state: State, request: AttachRequest) -> None:
    """The size was raised again without having been lowered: the request is larger, and would never show this order's size."""
    cell = (request.node, request.model)
    order = state.orders.get(cell)
    lowered = any(fence.ordered for fence in state.fences.rows.values() if fence.request == request.name)
    if order is not None and order.request == request.name and order.size < request.size and not lowered:
        state.orders.drop(cell)
        state.dirty.nodes.add(request.node)


def _order_void(state: State, request: str) -> None:
    for cell, order in list(state.orders.rows.items()):
        if order.request == request:
            state.orders.drop(cell)
            state.dirty.nodes.add(cell[0])


def detach_void(state: State, request: str) -> None:
    """The size was not lowered: the detach may be ordered again."""
    for uid, fence in list(state.fences.rows.items()):
        if fence.request == request and fence.ordered:
            state.fences.put(uid, replace(fence, ordered=False))


def _lowering_void(state: State, request: str) -> None:
    _order_void(state, request)
    detach_void(state, request)


_ORDERS = (e.AttachOrdered.__name__, e.DetachOrdered.__name__)


def _orders_unseen(state: State, unseen: set[Key]) -> None:
    for cell in list(state.orders):
        state.orders.drop(cell)
        unseen |= {(action, "/".join(cell)) for action in _ORDERS}


# -- claims ------------------------------------------------------------------------------------------------------------


def _reserved(state: State, event: e.Reserved, at: int) -> None:
    key = f"pod:{event.pod}" if event.pod else event.claim
    if event.pod:
        state.reservations.drop(event.claim)  # made before the pod was seen
    state.reservations.put(key, Reservation(event.claim, event.node, event.attempt, event.promises, at, event.pod))
    state.dirty.claims.add(event.claim)


def _reservation_dropped(state: State, event: e.ReservationDropped, at: int) -> None:
    for key in sorted(state.reservations_for[event.claim]):  # also the pod's, whose claim may be gone
        state.reservations.drop(key)


def _hand_over(state: State, event: e.HandOver, at: int) -> None:
    for signal in event.signals:
        uid = signal.claim
        life = state.lives.get(uid)
        state.hand_overs.put(uid, HandOverRow(event.pod, event.node, event.steering, life.attempt if life else 0, at))
        for key in (uid, f"pod:{event.pod}"):
            row = state.reservations.get(key)
            if row is not None:
                state.reservations.put(key, replace(row, signalled=at))
    state.counters.put(f"hand-over/{event.steering}", (state.counters.get(f"hand-over/{event.steering}") or 0) + 1)


def _hand_over_void(state: State, claim: str) -> None:
    """No claim of the group was signalled: one write has the signals of all."""
    first = state.hand_overs.get(claim)
    together = [claim]
    if first is not None:
        rows = state.hand_overs.rows.items()
        together = [uid for uid, row in rows if (row.pod, row.node, row.since) == (first.pod, first.node, first.since)]
    for uid in together:
        state.hand_overs.drop(uid)
        state.dirty.claims.add(uid)


def _steered(state: State, event: e.Steered, at: int) -> None:
    for uid in event.claims:
        row = state.hand_overs.get(uid)
        if row is not None:
            state.hand_overs.put(uid, replace(row, steered=True))


def _steering_void(state: State, pod: str) -> None:
    for uid, row in list(state.hand_overs.rows.items()):
        if row.pod == pod:
            state.hand_overs.put(uid, replace(row, steered=False))


def _hand_overs_unseen(state: State, unseen: set[Key]) -> None:
    for uid, row in list(state.hand_overs.rows.items()):
        if not state.has_true_condition(uid, RESCHEDULE):
            state.hand_overs.drop(uid)
            unseen.add((e.HandOver.__name__, uid))
        elif row.steered:
            state.hand_overs.put(uid, replace(row, steered=False))
            unseen.add((e.Steered.__name__, row.pod))


# -- exchanges ---------------------------------------------------------------------------------------------------------


def _exchange_begun(state: State, event: e.ExchangeBegun, at: int) -> None:
    group = event.for_claims()
    for swap in event.swaps:
        life, before = state.lives.get(swap.claim), state.exchanges.get(swap.claim)
        attempt = life.attempt if life is not None else 0
        version = before.version if before is not None else ""
        row = Exchange(event.pod, event.node, attempt, swap, group, event.until, at, version=version)
        state.exchanges.put(swap.claim, row)
        for one in swap.results:
            if one.key in event.guarded:
                state.guarded.put(one.key, Guarded(swap.claim, event.until, event.node))


def advance_stage(state: State, group: Iterable[str], before: Stage, after: Stage, at: int, version: str = "") -> None:
    """The exchanges of these claims that are at stage `before` come to `after`."""
    for uid in group:
        row = state.exchanges.get(uid)
        if row is not None and row.stage == before:
            state.exchanges.put(uid, replace(row, stage=after, since=at, version=version or row.version, wanted=False))


FENCE_SETTLE = 30 * MICROSECONDS
"""A fence without a hold stands so long before a LIST confirms it: longer than a scheduler takes from a choice to its write."""


def fence_due(fence: Fence) -> int:
    """The instant from which a LIST confirms the fence. A held device is allocated, and was so before it was marked: no scheduler
    can give it away, so the LIST only has to begin later. Without a hold, what schedulers have chosen already must have been
    written."""
    return fence.since if fence.held else fence.since + FENCE_SETTLE


def _allocation_cleared(state: State, event: e.AllocationCleared, at: int) -> None:
    advance_stage(state, (event.claim,), "listed", "clearing", at)


_CLEARED: tuple[Stage, ...] = ("listed", "cleared")


def _devices_given(state: State, event: e.DevicesGiven, at: int) -> None:
    for stage in _CLEARED:
        advance_stage(state, (event.claim,), stage, "giving", at)
    state.counters.put("hand-over/exchange", (state.counters.get("hand-over/exchange") or 0) + 1)


def _exchange_ended(state: State, event: e.ExchangeEnded, at: int) -> None:
    state.exchanges.drop(event.claim)


def _guard_lifted(state: State, event: e.GuardLifted, at: int) -> None:
    for key in event.devices:
        if (row := state.guarded.get(key)) is not None:
            state.guarded.put(key, replace(row, lifting=True))
    state.fired_deadlines.drop((DeadlineKind.GUARD, event.claim))


def _guards_are_off(state: State, claim: str) -> None:
    lifting = {key for key in state.guarded_for[claim] if state.guarded.rows[key].lifting}
    state.guarded.drop_where(lambda key: key in lifting)


def _guard_void(state: State, claim: str) -> None:
    """The removal of the guard is not confirmed: try again, unless the guard has ended by itself or no guard is possible now."""
    for key in sorted(state.guarded_for[claim]):
        row = state.guarded.rows[key]
        if row.until <= state.now or not (state.guards or state.unanswered):
            state.guarded.drop(key)
        else:
            state.guarded.put(key, replace(row, lifting=False))


_NEXT: dict[str, tuple[Stage, Stage]] = {
    e.ExchangeBegun.__name__: ("guarding", "listing"),
    e.AllocationCleared.__name__: ("clearing", "cleared"),
    e.DevicesGiven.__name__: ("giving", "given"),
}


_NO_RIGHTS = (403, 404)
"""HTTP status of a write that cannot succeed before a policy is installed or a right is granted."""
_DENIED = (400, 422, *_NO_RIGHTS)
"""And of one that an admission policy or webhook denies."""
_REFUSED_TO_ALL = {
    e.ExchangeBegun.__name__: (UNGUARDED, _NO_RIGHTS),
    e.DevicesGiven.__name__: (UNGUARDED, _NO_RIGHTS),
    e.HoldBegun.__name__: (UNHELD, _DENIED),
    e.DeviceHeld.__name__: (UNHELD, _DENIED),
}
"""Steps that are tried for no device for a while after a refusal with such a status. A refused clear does no harm."""


def _step_done(state: State, event: e.WriteDone, at: int) -> None:
    row = state.exchanges.get(event.target)
    if event.action == e.GuardLifted.__name__:
        _guards_are_off(state, event.target)
    if row is not None and event.action in _NEXT:
        group = row.group if event.action == e.ExchangeBegun.__name__ else (event.target,)
        advance_stage(state, group, *_NEXT[event.action], at, event.version)


def _exchange_void(state: State, claim: str) -> None:
    """A step failed. A cleared claim is left to the scheduler; the others are handed over in another way."""
    row = state.exchanges.get(claim)
    for uid in row.group if row is not None and row.stage == "guarding" else (claim,):
        one = state.exchanges.get(uid)
        if one is not None and one.version:
            state.exchanges.put(uid, replace(one, stage="left"))
        else:
            state.exchanges.drop(uid)


def _exchanges_unseen(state: State, unseen: set[Key], at: int) -> None:
    """After a restart, an exchange that has not cleared its claim begins again. One that has is guarded again and goes on: with
    the version that the clear left, or with any if the process ended before it knew it. It does not matter who cleared the claim:
    without allocation and reservation no pod uses it, and a scheduler that gave up on it finds the devices allocated."""
    for key, guard in [*state.guarded.rows.items()]:
        if guard.lifting:  # even if its time is over: its key would stay
            state.guarded.put(key, replace(guard, lifting=False))
            unseen.add((e.GuardLifted.__name__, guard.claim))
    for uid, row in list(state.exchanges.rows.items()):
        claim = state.claims.get(uid)
        if claim is None or claim.allocation is not None or not row.open:
            state.exchanges.drop(uid)
            unseen |= {(e.ExchangeBegun.__name__, uid), (e.GuardLifted.__name__, uid)}
        elif row.stage != "left":
            version = row.version or ANY_VERSION
            state.exchanges.put(uid, replace(row, stage="cleared", until=0, since=at, version=version))
            unseen |= {(e.ExchangeBegun.__name__, uid), (e.DevicesGiven.__name__, uid)}


def _claim_failed(state: State, event: e.ClaimFailed, at: int) -> None:
    state.failures.put(event.claim, Failure(event.attempt, event.reason, event.message, event.node, event.model, at))
    life = state.lives.get(event.claim)
    if life is not None and event.device and event.device not in life.unsuited:
        life = replace(life, unsuited=(*life.unsuited, event.device))
    if life is not None and event.basis:
        life = replace(life, verdict=(event.basis, event.message))
    if life is not None and life != state.lives.get(event.claim):
        state.lives.put(event.claim, life)


def _failure_signalled(state: State, event: e.FailureSignalled, at: int) -> None:
    failure = state.failures.get(event.claim)
    if failure is not None:
        state.failures.put(event.claim, replace(failure, signalled=True, on=event.signal.claim))


def _failure_void(state: State, claim: str) -> None:
    failure = state.failures.get(claim)
    if failure is not None:
        state.failures.put(claim, replace(failure, signalled=False))


def _failures_unseen(state: State, unseen: set[Key]) -> None:
    for uid, row in list(state.failures.rows.items()):
        if row.signalled and not state.has_true_condition(row.on, FAILED_CONDITION):
            state.failures.put(uid, replace(row, signalled=False))
            unseen.add((e.FailureSignalled.__name__, uid))


# -- nodes -------------------------------------------------------------------------------------------------------------


def _cool_down(state: State, event: e.CoolDown, at: int) -> None:
    row = Cooling(event.until, event.reason, event.times, event.alone, event.needs)
    state.cooling.put((event.node, event.model), row)
    if not row.of_fabric:
        state.cooled.put((event.node, event.model), row)


def _cool_down_over(state: State, event: e.CoolDownOver, at: int) -> None:
    state.cooling.drop((event.node, event.model))
    state.fired_deadlines.drop((DeadlineKind.COOLING, f"{event.node}/{event.model}"))


def _node_labelled(state: State, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        state.labelled.put((event.node, key), value or "")


def _label_void(state: State, node: str) -> None:
    state.labelled.drop_where(lambda key: key[0] == node)
    state.dirty.nodes.add(node)


def _labels_unseen(state: State, unseen: set[Key]) -> None:
    for key in list(state.labelled):
        state.labelled.drop(key)
        unseen.add((e.NodeLabelled.__name__, key[0]))


# -- devices -----------------------------------------------------------------------------------------------------------


def _victim_marked(state: State, event: e.VictimMarked, at: int) -> None:
    resource, key = state.resources.get(event.resource), (event.driver, event.pool, event.device)
    held = event.resource in state.holds
    state.fences.put(event.resource, Fence(at, key, resource.request if resource else "", held=held))
    state.unmarked.drop(event.resource)
    if event.device:
        reuse.count_detach(state, event.resource, at)


def _mark_void(state: State, resource: str) -> None:
    state.fences.drop(resource)
    hold.give_up(state, resource)
    state.touch_device(resource)


def _victim_unmarked(state: State, event: e.VictimUnmarked, at: int) -> None:
    state.fences.drop(event.resource)
    hold.give_up(state, event.resource)
    state.fired_deadlines.drop((DeadlineKind.FENCE, event.resource))
    state.unmarked.put(event.resource, at)
    state.touch_device(event.resource)


def _unmark_void(state: State, resource: str) -> None:
    if resource in state.unmarked:
        state.unmarked.put(resource, 0)


def _claims_list_wanted(state: State, event: e.ClaimsListWanted, at: int) -> None:
    fence, exchange = state.fences.get(event.resource), state.exchanges.get(event.resource)
    if fence is not None:
        state.fences.put(event.resource, replace(fence, wanted=True))
    else:
        hold.list_wanted(state, event.resource)
    if exchange is not None:
        state.exchanges.put(event.resource, replace(exchange, wanted=True))


def _is_lowered(state: State, name: str) -> bool:
    """Whether the request asks for less than the number of its resources that stay: the operator may detach one at any moment."""
    request = state.requests.get(state.request_named.get(name, ""))
    owned = (state.resources.rows[uid] for uid in state.resources_of_request[name])
    return request is not None and request.size < sum(not one.leaving for one in owned)


def _fences_unseen(state: State, unseen: set[Key], at: int) -> None:
    """After a restart, fences start again, because the process that watched them is gone; missing marks are written again. An
    ordered detach stays ordered while the size is lowered: the device can only go, or be kept by a larger size."""
    for uid, fence in list(state.fences.rows.items()):
        resource = state.resources.get(uid)
        if resource is None:
            state.fences.drop(uid)
            continue
        ordered = fence.ordered and _is_lowered(state, fence.request)
        state.fences.put(uid, replace(fence, since=at, wanted=False, confirmed=0, ordered=ordered))
        unseen.add((e.ClaimsListWanted.__name__, uid))
        if not resource.marked:
            unseen.add((e.VictimMarked.__name__, uid))
    unseen |= {(e.VictimUnmarked.__name__, uid) for uid in state.unmarked}


# -- all ---------------------------------------------------------------------------------------------------------------


def void_unseen(state: State, at: int) -> set[Key]:
    """Void all intents that the cluster does not show after a restart; returns the keys of decisions to mark as reissued."""
    unseen: set[Key] = set()
    _orders_unseen(state, unseen)
    _hand_overs_unseen(state, unseen)
    _exchanges_unseen(state, unseen, at)
    _failures_unseen(state, unseen)
    _labels_unseen(state, unseen)
    _fences_unseen(state, unseen, at)
    hold.restarted(state, unseen)
    return unseen


VOIDS: dict[str, Callable[[State, str], None]] = {
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
    e.OperatorNudged.__name__: nudge_void,
    **hold.VOIDS,
    e.VictimMarked.__name__: _mark_void,
    e.VictimUnmarked.__name__: _unmark_void,
}
"""By the type of a decision that will not be carried out: how to forget its intent, given the object's name or uid."""


def _write_done(state: State, event: e.WriteDone, at: int) -> None:
    kit.write_done(state, event)
    _step_done(state, event, at)
    hold.written(state, event, at)
    request = state.requests.get(state.request_named.get(event.target, ""))
    if request is not None and event.action in _ORDERS:
        order_met(state, request)
        _forget_fruitless_order(state, request)


def _write_failed(state: State, event: e.WriteRefused | e.WriteObsolete, at: int) -> None:
    """The intent is void; what follows from that is decided after a pause."""
    before = state.refusals.get((event.action, event.target))
    ordered = (cell for cell, order in state.orders.rows.items() if order.request == event.target)
    kit.try_later(state, event, at, next(ordered, (before.node, before.model) if before is not None else ("", "")))
    if isinstance(event, e.WriteRefused) and event.code in _REFUSED_TO_ALL.get(event.action, ("", ()))[1]:
        state.fired_deadlines.put(_REFUSED_TO_ALL[event.action][0], at)
    if isinstance(event, e.WriteRefused) and event.action == e.DevicesGiven.__name__:
        # the claim must not be cleared for it again either
        kit.try_later(state, replace(event, action=e.AllocationCleared.__name__), at)
    void = VOIDS.get(event.action)
    if void is not None:
        void(state, event.target)


def _superseded(state: State, event: e.Superseded, at: int) -> None:
    """A newer decision carries the intent now. If that raises a request instead of lowering it, the victims go later. If it
    lowers it too, the size of this one was seen before."""
    request = state.requests.get(state.request_named.get(event.target, ""))
    order = state.orders.get((request.node, request.model)) if request is not None else None
    lowers = request is not None and order is not None and order.size < request.size
    if event.action == e.DetachOrdered.__name__ and not lowers:
        detach_void(state, event.target)


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
    e.VictimMarked: _victim_marked,
    e.VictimUnmarked: _victim_unmarked,
    e.ClaimsListWanted: _claims_list_wanted,
    e.DetachOrdered: _detach_ordered,
    e.UsedStamped: nothing,
    e.OperatorNudged: nudged,
    e.WriteDone: _write_done,
    e.WriteObsolete: _write_failed,
    e.WriteRefused: _write_failed,
    e.Superseded: _superseded,
}
