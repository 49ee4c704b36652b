"""The folds of decisions. In live modes a logged decision counts, as an intent, until the cluster shows it.

Its fold records the intent. A write that failed makes it void (`VOIDS`). After a restart, an intent that the cluster does not
show is void too (`void_unseen`), and the level pass that follows decides again. Reservations stay: they are not writes.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.state import Key
from dds_core.kit.work import Fold, nothing
from dds_core.model import FAILED_CONDITION, RESCHEDULE, AttachRequest
from dds_core.scaler import events as e
from dds_core.scaler import exchange, fence, hold
from dds_core.scaler.fold import reuse
from dds_core.scaler.fold.looks import nudge_void, nudged
from dds_core.scaler.keys import ORDERED, UNGUARDED, UNHELD, UNMADE
from dds_core.scaler.model import (
    Cooling,
    Failure,
    HandOverRow,
    Order,
    Reservation,
)
from dds_core.scaler.state import State

# -- requests ----------------------------------------------------------------------------------------------------------


def note_ordered(state: State, node: str, at: int) -> None:
    """From now on a device of the node that no resource names may be one of the operator's."""
    known = state.fleet.node(node) is not None or not state.process.synced
    if node and known and (ORDERED, node) not in state.notes.fired_deadlines:
        state.notes.fired_deadlines.put((ORDERED, node), at)


def _attach_ordered(state: State, event: e.AttachOrdered, at: int) -> None:
    more = max(0, event.size - (event.previous or 0))
    if not event.size:  # taken back before there was a request
        state.fleet.orders.drop((event.node, event.model))
        return
    state.fleet.orders.put((event.node, event.model), Order(event.request, event.size, at, more))
    note_ordered(state, event.node, at)
    for uid in event.claims if event.reason == "demand" else ():
        life = state.lifecycle.lives.get(uid)
        if life is not None and not (event.reissued and event.model in life.ordered):
            state.lifecycle.lives.put(uid, replace(life, ordered=(*life.ordered, event.model)))
    if event.reason == "prewarm":
        state.notes.fired_deadlines.put((DeadlineKind.PREWARM, ""), at)


def _detach_ordered(state: State, event: e.DetachOrdered, at: int) -> None:
    state.fleet.orders.put((event.node, event.model), Order(event.request, event.size, at))
    fence.ordered(state, event, at)


def order_met(state: State, request: AttachRequest) -> None:
    """The order is fulfilled when the request has the size that was ordered last."""
    cell = (request.node, request.model)
    order = state.fleet.orders.get(cell)
    if order is not None and order.request == request.name and order.size == request.size:
        state.fleet.orders.drop(cell)


def _forget_fruitless_order(state: State, request: AttachRequest) -> None:
    """The size was raised again without having been lowered: the request is larger, and would never show this order's size."""
    cell = (request.node, request.model)
    order = state.fleet.orders.get(cell)
    lowered = any(row.ordered for row in state.give_back.fences.rows.values() if row.request == request.name)
    if order is not None and order.request == request.name and order.size < request.size and not lowered:
        state.fleet.orders.drop(cell)


def _order_void(state: State, request: str) -> None:
    for cell, order in list(state.fleet.orders.rows.items()):
        if order.request == request:
            state.fleet.orders.drop(cell)


def _lowering_void(state: State, request: str) -> None:
    _order_void(state, request)
    state.notes.fired_deadlines.drop((UNMADE, request))
    fence.voided(state, request)


_ORDERS = (e.AttachOrdered.__name__, e.DetachOrdered.__name__)


def _orders_unseen(state: State, unseen: set[Key]) -> None:
    for cell in list(state.fleet.orders):
        state.fleet.orders.drop(cell)
        unseen |= {(action, "/".join(cell)) for action in _ORDERS}


# -- claims ------------------------------------------------------------------------------------------------------------


def _reserved(state: State, event: e.Reserved, at: int) -> None:
    key = f"pod:{event.pod}" if event.pod else event.claim
    if event.pod:
        state.hand_over.reservations.drop(event.claim)  # made before the pod was seen
    state.hand_over.reservations.put(
        key, Reservation(event.claim, event.node, event.attempt, event.promises, at, event.pod)
    )


def _reservation_dropped(state: State, event: e.ReservationDropped, at: int) -> None:
    for key in sorted(state.hand_over.reservations_for[event.claim]):  # also the pod's, whose claim may be gone
        state.hand_over.reservations.drop(key)


def _hand_over(state: State, event: e.HandOver, at: int) -> None:
    for signal in event.signals:
        uid = signal.claim
        life = state.lifecycle.lives.get(uid)
        state.hand_over.hand_overs.put(
            uid, HandOverRow(event.pod, event.node, event.steering, life.attempt if life else 0, at)
        )
        for key in (uid, f"pod:{event.pod}"):
            row = state.hand_over.reservations.get(key)
            if row is not None:
                state.hand_over.reservations.put(key, replace(row, signalled=at))
    state.lifecycle.counters.put(
        f"hand-over/{event.steering}", (state.lifecycle.counters.get(f"hand-over/{event.steering}") or 0) + 1
    )


def _hand_over_void(state: State, claim: str) -> None:
    """No claim of the group was signalled: one write has the signals of all."""
    first = state.hand_over.hand_overs.get(claim)
    together = [claim]
    if first is not None:
        rows = state.hand_over.hand_overs.rows.items()
        together = [uid for uid, row in rows if (row.pod, row.node, row.since) == (first.pod, first.node, first.since)]
    for uid in together:
        state.hand_over.hand_overs.drop(uid)
        state.dirty.claims.add(uid)


def _steered(state: State, event: e.Steered, at: int) -> None:
    for uid in event.claims:
        row = state.hand_over.hand_overs.get(uid)
        if row is not None:
            state.hand_over.hand_overs.put(uid, replace(row, steered=True))


def _steering_void(state: State, pod: str) -> None:
    for uid, row in list(state.hand_over.hand_overs.rows.items()):
        if row.pod == pod:
            state.hand_over.hand_overs.put(uid, replace(row, steered=False))


def _hand_overs_unseen(state: State, unseen: set[Key]) -> None:
    for uid, row in list(state.hand_over.hand_overs.rows.items()):
        if not state.demand.has_true_condition(uid, RESCHEDULE):
            state.hand_over.hand_overs.drop(uid)
            unseen.add((e.HandOver.__name__, uid))
        elif row.steered:
            state.hand_over.hand_overs.put(uid, replace(row, steered=False))
            unseen.add((e.Steered.__name__, row.pod))


_NO_RIGHTS = (403, 404)
"""HTTP status of a write that cannot succeed before a policy is installed or a right is granted."""
_DENIED = (400, 422, *_NO_RIGHTS)
"""And of one that an admission policy or webhook denies."""
_BLOCKS_ALL_FOR_A_WHILE = {
    e.ExchangeBegun.__name__: (UNGUARDED, _NO_RIGHTS),
    e.DevicesGiven.__name__: (UNGUARDED, _NO_RIGHTS),
    e.HoldBegun.__name__: (UNHELD, _DENIED),
    e.DeviceHeld.__name__: (UNHELD, _DENIED),
}
"""Steps that are tried for no device for a while after a refusal with such a status. A refused clear does no harm."""


def _claim_failed(state: State, event: e.ClaimFailed, at: int) -> None:
    state.failing.failures.put(
        event.claim, Failure(event.attempt, event.reason, event.message, event.node, event.model, at)
    )
    life = state.lifecycle.lives.get(event.claim)
    if life is not None and event.device and event.device not in life.unsuited:
        life = replace(life, unsuited=(*life.unsuited, event.device))
    if life is not None and event.basis:
        life = replace(life, verdict=(event.basis, event.message))
    if life is not None and life != state.lifecycle.lives.get(event.claim):
        state.lifecycle.lives.put(event.claim, life)


def _failure_signalled(state: State, event: e.FailureSignalled, at: int) -> None:
    failure = state.failing.failures.get(event.claim)
    if failure is not None:
        state.failing.failures.put(event.claim, replace(failure, signalled=True, on=event.signal.claim))


def _failure_void(state: State, claim: str) -> None:
    failure = state.failing.failures.get(claim)
    if failure is not None:
        state.failing.failures.put(claim, replace(failure, signalled=False))


def _failures_unseen(state: State, unseen: set[Key]) -> None:
    for uid, row in list(state.failing.failures.rows.items()):
        if row.signalled and not state.demand.has_true_condition(row.on, FAILED_CONDITION):
            state.failing.failures.put(uid, replace(row, signalled=False))
            unseen.add((e.FailureSignalled.__name__, uid))


# -- nodes -------------------------------------------------------------------------------------------------------------


def _cool_down(state: State, event: e.CoolDown, at: int) -> None:
    row = Cooling(event.until, event.reason, event.times, event.alone, event.needs)
    state.failing.cooling.put((event.node, event.model), row)
    if not row.of_fabric:
        state.failing.cooled.put((event.node, event.model), row)


def _cool_down_over(state: State, event: e.CoolDownOver, at: int) -> None:
    state.failing.cooling.drop((event.node, event.model))
    state.notes.fired_deadlines.drop((DeadlineKind.COOLING, f"{event.node}/{event.model}"))


def _node_labelled(state: State, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        state.notes.labelled.put((event.node, key), value or "")


def _label_void(state: State, node: str) -> None:
    state.notes.labelled.drop_where(lambda key: key[0] == node)
    state.dirty.nodes.add(node)


def _labels_unseen(state: State, unseen: set[Key]) -> None:
    for key in list(state.notes.labelled):
        state.notes.labelled.drop(key)
        unseen.add((e.NodeLabelled.__name__, key[0]))


# -- devices -----------------------------------------------------------------------------------------------------------


def _victim_marked(state: State, event: e.VictimMarked, at: int) -> None:
    fence.marked(state, event, at)
    state.give_back.unmarked.drop(event.resource)
    if event.device:
        reuse.count_detach(state, event.resource, at)


def _mark_void(state: State, resource: str) -> None:
    fence.mark_refused(state, resource)
    if resource not in state.give_back.fences:
        hold.give_up(state, resource)
    state.touch_device(resource)


def _victim_unmarked(state: State, event: e.VictimUnmarked, at: int) -> None:
    fence.unmarked(state, event.resource)
    hold.give_up(state, event.resource)
    state.notes.fired_deadlines.drop((DeadlineKind.FENCE, event.resource))
    state.notes.fired_deadlines.drop((DeadlineKind.STUCK, event.resource))
    state.give_back.unmarked.put(event.resource, at)
    state.touch_device(event.resource)


def _unmark_void(state: State, resource: str) -> None:
    if resource in state.give_back.unmarked:
        state.give_back.unmarked.put(resource, 0)


def _claims_list_wanted(state: State, event: e.ClaimsListWanted, at: int) -> None:
    if event.resource in state.give_back.fences:
        fence.list_wanted(state, event.resource, at)
    else:
        hold.list_wanted(state, event.resource, event.fenced)
    exchange.list_wanted(state, event.resource, event.fenced)


# -- all ---------------------------------------------------------------------------------------------------------------


def void_unseen(state: State, at: int) -> set[Key]:
    """Void all intents that the cluster does not show after a restart; returns the keys of decisions to mark as reissued."""
    unseen: set[Key] = set()
    _orders_unseen(state, unseen)
    _hand_overs_unseen(state, unseen)
    exchange.restarted(state, unseen, at)
    _failures_unseen(state, unseen)
    _labels_unseen(state, unseen)
    fence.restarted(state, unseen, at)
    unseen |= {(e.VictimUnmarked.__name__, uid) for uid in state.give_back.unmarked}
    hold.restarted(state, unseen)
    return unseen


VOIDS: dict[str, Callable[[State, str], None]] = {
    e.AttachOrdered.__name__: _order_void,
    e.DetachOrdered.__name__: _lowering_void,
    e.HandOver.__name__: _hand_over_void,
    e.Steered.__name__: _steering_void,
    e.FailureSignalled.__name__: _failure_void,
    e.NodeLabelled.__name__: _label_void,
    e.OperatorNudged.__name__: nudge_void,
    **exchange.VOIDS,
    **hold.VOIDS,
    e.VictimMarked.__name__: _mark_void,
    e.VictimUnmarked.__name__: _unmark_void,
}
"""By the type of a decision that will not be carried out: how to forget its intent, given the object's name or uid."""


def _write_done(state: State, event: e.WriteDone, at: int) -> None:
    if (event.action, event.target) in state.notes.refusals:  # its deadline is dropped with it
        state.touch_target(event.target)
    kit.write_done(state, event)
    exchange.written(state, event, at)
    hold.written(state, event, at)
    request = state.fleet.request(event.target)
    if request is not None and event.action in _ORDERS:
        order_met(state, request)
        _forget_fruitless_order(state, request)


def _write_failed(state: State, event: e.WriteRefused | e.WriteObsolete, at: int) -> None:
    """The intent is void; what follows from that is decided after a pause."""
    before = state.notes.refusals.get((event.action, event.target))
    ordered = (cell for cell, order in state.fleet.orders.rows.items() if order.request == event.target)
    kit.try_later(state, event, at, next(ordered, (before.node, before.model) if before is not None else ("", "")))
    if isinstance(event, e.WriteRefused) and event.code in _BLOCKS_ALL_FOR_A_WHILE.get(event.action, ("", ()))[1]:
        state.notes.fired_deadlines.put(_BLOCKS_ALL_FOR_A_WHILE[event.action][0], at)
    if isinstance(event, e.WriteRefused) and event.action == e.DevicesGiven.__name__:
        # the claim must not be cleared for it again either
        kit.try_later(state, replace(event, action=e.AllocationCleared.__name__), at)
    void = VOIDS.get(event.action)
    if void is not None:
        void(state, event.target)


def _superseded(state: State, event: e.Superseded, at: int) -> None:
    """A newer decision carries the intent now. If that raises a request instead of lowering it, the victims go later. If it
    lowers it too, the size of this one was seen before."""
    request = state.fleet.request(event.target)
    order = state.fleet.orders.get((request.node, request.model)) if request is not None else None
    lowers = request is not None and order is not None and order.size < request.size
    if event.action == e.DetachOrdered.__name__ and not lowers:
        fence.voided(state, event.target)


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
    e.ClaimsListWanted: _claims_list_wanted,
    e.DetachOrdered: _detach_ordered,
    e.UsedStamped: nothing,
    e.OperatorNudged: nudged,
    e.WriteDone: _write_done,
    e.WriteObsolete: _write_failed,
    e.WriteRefused: _write_failed,
    e.Superseded: _superseded,
}
