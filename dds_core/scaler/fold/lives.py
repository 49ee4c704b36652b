"""The folds of transitions, each checked against its lifecycle table before anything changes; and how a claim's step is made."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.errors import IllegalTransition
from dds_core.events import Event
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.work import Fold, forget_words, gone_with
from dds_core.lifecycle import ATTACHING, claim_edge_exists, device_target
from dds_core.model import FAILED_CONDITION, Claim, DeviceKey
from dds_core.scaler import events as e
from dds_core.scaler import exchange, fence
from dds_core.scaler.fold import reuse
from dds_core.scaler.model import (
    HELD_IN_VAIN,
    NO_PROGRESS,
    ORDER_REFUSED,
    UNDECIDED,
    ClaimLife,
    DeviceLife,
    Rate,
    Timeout,
)
from dds_core.scaler.spending import counting
from dds_core.scaler.state import State

_WITH_CLAIM, _WITH_DEVICE = gone_with(e.EVENTS, "claim"), gone_with(e.EVENTS, "device")

_LEAST_WAIT = 5 * MICROSECONDS
"""The scheduler looks at conditions every five seconds; a shorter wait says nothing about its timeout."""

_KEEPS_PROMISES = ("reserved", "reservation_lost", "cleared", "signalled")


def _claim_moved(state: State, event: e.ClaimMoved, at: int) -> None:
    if not claim_edge_exists(event.trigger, event.source, event.target):
        raise IllegalTransition(
            f"claim {event.claim}: {event.trigger} does not take {event.source or 'New'} to {event.target}"
        )
    old = state.lifecycle.lives.get(event.claim)
    source = old.state if old is not None else ""
    if source != event.source:
        raise IllegalTransition(
            f"claim {event.claim}: {event.trigger} starts from {event.source or 'New'} but the claim is {source or 'New'}"
        )
    claim = state.demand.claims.get(event.claim)
    if event.landed:
        state.lifecycle.counters.put(
            f"landed/{event.landed}", (state.lifecycle.counters.get(f"landed/{event.landed}") or 0) + 1
        )
    if event.trigger == "reservation_lost" and old is not None:
        _learn_timeout(state, claim, old, at)
    life = _next_life(state, event, old, claim, at)
    state.lifecycle.lives.put(event.claim, life)
    if old is not None and old.promises and not life.promises:
        _restart_idle_clocks(state, old, at)
    if event.trigger in ("cleared", "released"):
        _may_be_taken(state, event.claim, at)
    if event.trigger in ("allocated_pool", "allocated_local", "pod_bound", "released", "failed"):
        state.hand_over.hand_overs.drop(event.claim)
        if event.claim in state.hand_over.exchanges:
            exchange.done(state, event.claim)
        if not _made_again(state, event, claim):
            _drop_reservation(state, event.claim)
    if event.trigger in ("allocated_pool", "allocated_local", "released"):
        state.failing.failures.drop(event.claim)
    if event.trigger == "reserved":
        _must_be_told_again(state, event.claim)
    if event.source == ATTACHING != event.target:
        state.notes.clear_alert(event.claim, NO_PROGRESS)
    if event.source != event.target:
        state.notes.clear_alert(event.claim, UNDECIDED)
        state.notes.clear_alert(event.claim, ORDER_REFUSED)
    if event.target == "Released" and claim is None:
        forget_claim(state, event.claim)


def forget_claim(state: State, uid: str) -> None:
    state.lifecycle.lives.drop(uid)
    for name in _WITH_CLAIM:
        state.notes.last_emitted.drop((name, uid))
    for kind in (
        DeadlineKind.BUDGET,
        DeadlineKind.RESERVATION,
        DeadlineKind.PUBLISHER,
        DeadlineKind.GUARD,
        DeadlineKind.SETTLE,
        DeadlineKind.TELL,
        DeadlineKind.SLOW,
    ):
        state.notes.fired_deadlines.drop((kind, uid))
    forget_words(state, uid)


def _must_be_told_again(state: State, uid: str) -> None:
    """A pod is about to wait for a claim that failed, but the claim with the signal was cleared: signal the failure again."""
    failure = state.failing.failures.get(uid)
    if failure is not None and failure.signalled and not state.demand.has_true_condition(failure.on, FAILED_CONDITION):
        state.failing.failures.put(uid, replace(failure, signalled=False))


def _may_be_taken(state: State, claim: str, at: int) -> None:
    """A signalled claim was cleared: only from now on can it take what was handed over to it, and the time for that begins."""
    for key in sorted(state.hand_over.reservations_for[claim]):
        row = state.hand_over.reservations.rows[key]
        if row.signalled or claim in state.hand_over.hand_overs:
            state.hand_over.reservations.put(key, replace(row, signalled=at))


def _drop_reservation(state: State, claim_uid: str) -> None:
    state.hand_over.reservations.drop(claim_uid)
    claim = state.demand.claims.get(claim_uid)
    if claim is not None and claim.extended and claim.owner:
        state.hand_over.reservations.drop(f"pod:{claim.owner}")


def _made_again(state: State, event: e.ClaimMoved, claim: Claim | None) -> bool:
    """Whether the scheduler recreated this claim of an extended resource at the hand-over, for the same pod and node: what is
    reserved for the pod still is."""
    if claim is None or not claim.extended or (event.trigger, event.source) != ("allocated_pool", ""):
        return False
    row = state.hand_over.reservations.get(f"pod:{claim.owner}")
    return row is not None and row.node == state.demand.node_of(claim)


def _restart_idle_clocks(state: State, life: ClaimLife, at: int) -> None:
    """Devices that stood ready for a claim that went another way idle from here on."""
    for promise in life.promises:
        resource = state.fleet.resource_with(promise.uuid, life.node) if promise.uuid else None
        device = state.lifecycle.devices.get(resource.uid) if resource is not None else None
        if resource is not None and device is not None and device.state == "Idle":
            state.lifecycle.devices.put(resource.uid, replace(device, idle_since=at))


def _next_life(state: State, event: e.ClaimMoved, old: ClaimLife | None, claim: Claim | None, at: int) -> ClaimLife:
    allocated = event.trigger in ("allocated_pool", "allocated_local")
    moved = allocated or event.source != event.target
    life = ClaimLife(
        state=event.target,
        cycle=event.cycle,
        attempt=event.attempt,
        since=at if moved or old is None else old.since,
        began=(event.began or at) if allocated or old is None else old.began,
        namespace=claim.namespace if claim is not None else old.namespace if old is not None else "",
        name=claim.name if claim is not None else old.name if old is not None else "",
        node=old.node if old is not None else "",
        allocation=old.allocation if old is not None else None,
        reserved=old.reserved if old is not None else False,
        devices=event.devices or (old.devices if old is not None and not allocated else ()),
        promises=event.promises or (old.promises if old is not None and event.trigger in _KEEPS_PROMISES else ()),
        handed=old.handed if old is not None and not allocated else False,
        unsuited=old.unsuited if old is not None else (),
        verdict=old.verdict if old is not None else ("", ""),
        ordered=old.ordered if old is not None and not allocated else (),
    )
    if old is not None and old.cycle == life.cycle:
        vain = old.vain + bool(event.excluded)
        life = replace(life, excluded=(*old.excluded, *event.excluded), vain=vain, robbed=old.robbed)
    match event.trigger:
        case "allocated_pool" | "allocated_local" if claim is not None:
            return replace(
                life, allocation=claim.allocation, node=state.demand.node_of(claim), reserved=bool(claim.consumers)
            )
        case "cleared" | "released":
            return replace(life, allocation=None, reserved=False, devices=event.devices)
        case "reserved" | "reservation_lost":
            return replace(life, reserved=event.trigger == "reserved")
        case "device_ready" | "signalled":
            return replace(life, handed=True)
        case _:
            return life


def _learn_timeout(state: State, claim: Claim | None, life: ClaimLife, at: int) -> None:
    """Two successive waits of like length that ended without any condition teach the scheduler's bindingTimeout. A single one may
    be a preemption; waits that end together may have one cause (two claims of a pod, or pods that are deleted)."""
    waited = at - life.began
    if claim is None or life.state not in ("Pending", "Attaching") or waited < _LEAST_WAIT:
        return
    pods = state.demand.pods_of(claim)
    if not any(pod.pending for pod in pods):
        return
    told = [claim, *(one for pod in pods for one in state.demand.claims_of(pod))]
    if any(c.status == "True" for one in told for c in one.conditions):
        return
    scheduler = state.demand.scheduler_of(claim)
    before = state.lifecycle.timeouts.get(scheduler) or Timeout(0)
    if life.began < before.ended:
        return
    agree = before.last > 0 and abs(waited - before.last) <= max(2 * MICROSECONDS, before.last // 20)
    learned = min(waited, before.last) if agree else 0
    if learned and before.learned:
        learned = min(learned, before.learned)
    if learned and learned != before.learned:
        state.dirty.everything = True
    state.lifecycle.timeouts.put(scheduler, Timeout(waited, learned or before.learned, at))


def _device_moved(state: State, event: e.DeviceMoved, at: int) -> None:
    if device_target(event.trigger, event.source) != event.target:
        raise IllegalTransition(
            f"device {event.resource}: {event.trigger} does not take {event.source or 'New'} to {event.target}"
        )
    old = state.lifecycle.devices.get(event.resource)
    source = old.state if old is not None else ""
    if source != event.source:
        raise IllegalTransition(
            f"device {event.resource}: {event.trigger} starts from {event.source or 'New'} but the device is {source or 'New'}"
        )
    if event.target == "Gone":
        _forget_device(state, event.resource)
        return
    if event.trigger == "online" and old is not None:
        _measure(state, at - old.since)
        _note_brought(state, event.resource)
    idle = old.idle_since if old is not None else 0
    if event.trigger in ("online", "freed"):
        idle = at
    elif event.trigger == "taken":
        idle = 0
        _no_longer_returning(state, event.resource)
        _note_robbed(state, event.resource, event.key)
    key = event.key if event.trigger == "taken" else old.key if old is not None and event.target == "Used" else None
    resource = state.fleet.resources.get(event.resource)
    node = resource.node if resource is not None else old.node if old is not None else ""
    model = resource.model if resource is not None else old.model if old is not None else ""
    rounds = old.rounds if old is not None and event.trigger in ("marked", "unmarked") else 0
    hardware, forms = (old.hardware, old.forms) if old is not None else ((), ())
    made = DeviceLife(event.target, at, node, model, idle, key, rounds=rounds, hardware=hardware, forms=forms)
    life = reuse.moved(state, old, made, at)
    state.lifecycle.devices.put(event.resource, life)
    if not rounds:
        state.notes.clear_alert(event.resource, HELD_IN_VAIN)


def _note_brought(state: State, uid: str) -> None:
    """The fabric has brought a device of the model: it is not to blame for nodes that got none until now."""
    resource = state.fleet.resources.get(uid)
    if resource is None:
        return
    for node in sorted(state.failing.fabric_failed[state.failing.fabric_of.get(resource.node, ""), resource.model]):
        cell = node, resource.model
        state.failing.cooling.put(cell, replace(state.failing.cooling.rows[cell], alone=True))


def _note_robbed(state: State, uid: str, key: DeviceKey | None) -> None:
    """If a claim took a device that was not reserved for it, another claim has lost the device: the one for which it was
    reserved, or, if it was reserved for none, the oldest claim that waits for such a device on the node."""
    resource = state.fleet.resources.get(uid)
    if resource is None or key is None:
        return
    takers = state.demand.having[key]
    meant = {state.hand_over.reservations.rows[one].claim for one in state.hand_over.reserved_for[resource.uuid]}
    if meant & takers:
        return
    waiting = (state.demand.claims.get(uid) for uid in (meant or state.lifecycle.waiting_at[resource.node]) - takers)
    wanting = [
        one
        for one in waiting
        if one is not None and any(m.model == resource.model for m in state.inventory.wanted_models(one.allocation))
    ]
    loser = min(wanting, key=lambda one: (one.created, one.namespace, one.name, one.uid), default=None)
    if loser is not None and loser.uid in state.lifecycle.lives:
        state.lifecycle.lives.put(loser.uid, replace(state.lifecycle.lives.rows[loser.uid], robbed=True))


def _no_longer_returning(state: State, uid: str) -> None:
    """Another claim took the device: those that released it are done with it. The last one stays, to say why they settled."""
    for claim in sorted(state.lifecycle.returning[uid]):
        life = state.lifecycle.lives.rows[claim]
        others = tuple(device for device in life.devices if device != uid)
        if others:
            state.lifecycle.lives.put(claim, replace(life, devices=others))


def _forget_device(state: State, uid: str) -> None:
    state.lifecycle.devices.drop(uid)
    fence.gone(state, uid)
    for kind in (
        DeadlineKind.IDLE,
        DeadlineKind.FENCE,
        DeadlineKind.STUCK,
        DeadlineKind.GRACE,
        DeadlineKind.HOLD,
        DeadlineKind.SETTLE,
        "let-go",
        DeadlineKind.PROGRESS,
        DeadlineKind.NUDGE,
        DeadlineKind.CALL_OFF,
    ):
        state.notes.fired_deadlines.drop((kind, uid))
    for name in _WITH_DEVICE:
        state.notes.last_emitted.drop((name, uid))
    forget_words(state, uid)


def _measure(state: State, took: int) -> None:
    """An attach took so long (microseconds) beside the others under way; its share of that is the fabric's own time for it."""
    beside = len(state.lifecycle.under_way) or 1
    share = took / MICROSECONDS / beside
    rate = state.fleet.rates.get("") or Rate()
    service = share if not rate.count else 0.7 * rate.service + 0.3 * share
    state.fleet.rates.put("", Rate(round(service, 6), min(rate.count + 1, 1000)))


FOLDS: dict[type[Event], Fold] = {
    e.ClaimMoved: _claim_moved,
    e.DeviceMoved: counting(_device_moved, "resource"),
}
