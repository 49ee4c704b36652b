"""`apply`: the fold of one event into the picture. Facts, decisions and transitions alike; it never decides.

Decisions made in mode `observe` are folded only as "already shown". Loading a log is `apply` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dds_core import events as e
from dds_core.errors import IllegalTransition
from dds_core.events import KIND_OF, Event, merged
from dds_core.intents import void_unseen
from dds_core.lifecycle import claim_edge_exists, device_target
from dds_core.model import AttachRequest, Claim, Slice
from dds_core.picture import Picture
from dds_core.policy import read_policy
from dds_core.rows import (
    ClaimLife,
    Cooling,
    DeviceLife,
    Failure,
    Fence,
    HandOverRow,
    Order,
    Rate,
    Refusal,
    Reservation,
    Timeout,
)

HOUR = 3_600_000_000
SECOND = 1_000_000

_FORGET_WITH_CLAIM = ("HandOver", "Reserved", "ReservationDropped", "ClaimFailed", "FailureSignalled")
_FORGET_WITH_DEVICE = ("VictimMarked", "VictimUnmarked", "ClaimsListWanted", "UsedStamped")

_KEEPS_PROMISES = ("reserved", "reservation_lost", "cleared", "signalled")

Fold = Callable[[Picture, Any, int], None]


def apply(picture: Picture, event: Event, at: int) -> Picture:
    """Fold `event`, which happened at the instant `at`, into `picture`; the same picture is returned.

    Raises IllegalTransition for a transition that its table does not have; the picture is then as before.
    """
    if picture.reissue and isinstance(event, e.Fact):
        for key in list(picture.reissue):
            picture.reissue.drop(key)
    mode = getattr(event, "mode", "")
    if isinstance(event, e.Decision) and mode == "observe":
        picture.shown.put(shown_key(event), e.encode(event))
    else:
        _FOLDS[type(event)](picture, event, at)
    if at > picture.now:
        picture.now = at
    return picture


def shown_key(decision: e.Decision) -> tuple[str, str]:
    """What a later decision must have in common with this one to take its place."""
    cell = f"{decision.node}/{decision.model}" if isinstance(decision, e.OfCell) else decision.subject
    if isinstance(decision, e.Alerted):
        cell = f"{decision.of}:{decision.reason}"
    elif isinstance(decision, e.NodeLabelled) and all(key.endswith("-ready") for key in decision.labels):
        cell = f"{decision.node}:ready"
    return (type(decision).__name__, cell)


# --- objects -----------------------------------------------------------------------------------------------------------


def _observed(picture: Picture, event: Any, at: int) -> None:
    kind = KIND_OF[type(event)]
    table = picture.table(kind)
    old = table.get(event.uid)
    table.put(event.uid, merged(old if old is not None else kind(uid=event.uid), event.changes))


def _gone(picture: Picture, event: Any, at: int) -> None:
    picture.table(KIND_OF[type(event)]).drop(event.uid)


def _slice_observed(picture: Picture, event: e.SliceObserved, at: int) -> None:
    old = picture.slices.get(event.uid) or Slice(uid=event.uid)
    new = merged(old, event.changes)
    if event.devices:
        devices = {name: device for name, device in old.devices.items() if name not in event.devices}
        devices.update({name: device for name, device in event.devices.items() if device is not None})
        new = replace(new, devices=devices)
    picture.slices.put(event.uid, new)


def _claim_observed(picture: Picture, event: e.ClaimObserved, at: int) -> None:
    _observed(picture, event, at)
    claim = picture.claims.rows[event.uid]
    if picture.synced and claim.allocation is not None and claim.allocation.timestamp is not None:
        life = picture.lives.get(event.uid)
        if life is None or life.allocation != claim.allocation:
            seen = at - claim.allocation.timestamp
            picture.skew = seen if picture.skew is None else min(picture.skew, seen)


def _claim_gone(picture: Picture, event: e.ClaimGone, at: int) -> None:
    picture.claims.drop(event.uid)
    life = picture.lives.get(event.uid)
    if life is None or life.state == "Released":
        _forget_claim(picture, event.uid)


def _forget_claim(picture: Picture, uid: str) -> None:
    picture.lives.drop(uid)
    for name in _FORGET_WITH_CLAIM:
        picture.shown.drop((name, uid))
    for kind in ("budget", "reservation"):
        picture.passed.drop((kind, uid))
    _forget_rejections(picture, uid)


def _forget_rejections(picture: Picture, uid: str) -> None:
    for key in list(picture.rejections_of[uid]):
        picture.rejections.drop(key)


def _pod_gone(picture: Picture, event: e.PodGone, at: int) -> None:
    picture.pods.drop(event.uid)
    picture.reservations.drop(f"pod:{event.uid}")
    picture.shown.drop(("Steered", event.uid))


def _node_observed(picture: Picture, event: e.NodeObserved, at: int) -> None:
    _observed(picture, event, at)
    node = picture.nodes.rows[event.uid]
    for key in [key for key in picture.labelled.rows if key[0] == node.name]:
        if node.labels.get(key[1], "") == picture.labelled.rows[key]:
            picture.labelled.drop(key)


def _node_gone(picture: Picture, event: e.NodeGone, at: int) -> None:
    node = picture.nodes.get(event.uid)
    picture.nodes.drop(event.uid)
    if node is not None:
        for cell in sorted(picture.cooling_at[node.name]):
            picture.cooling.drop(cell)
        for key in [key for key in picture.labelled.rows if key[0] == node.name]:
            picture.labelled.drop(key)
        for cell in [cell for cell in picture.orders.rows if cell[0] == node.name]:
            picture.orders.drop(cell)


def _request_observed(picture: Picture, event: e.AttachRequestObserved, at: int) -> None:
    old = picture.requests.get(event.uid)
    _observed(picture, event, at)
    request = picture.requests.rows[event.uid]
    _order_met(picture, request)
    _order_overtaken(picture, request, old.size if old is not None else 0)


def _order_met(picture: Picture, request: AttachRequest) -> None:
    """Our intent for the request is fulfilled when it has the size that we ordered last."""
    cell = (request.node, request.model)
    order = picture.orders.get(cell)
    if order is not None and order.request == request.name and order.size == request.size:
        picture.orders.drop(cell)


def _order_overtaken(picture: Picture, request: AttachRequest, before: int) -> None:
    """Somebody else took the size beyond what we ordered: our intent is void, or the next order would undo theirs."""
    order = picture.orders.get((request.node, request.model))
    if order is None or order.request != request.name:
        return
    if request.size > max(order.size, before) or request.size < order.size <= before:
        picture.orders.drop((request.node, request.model))
        _detach_void(picture, request.name)


def _detach_void(picture: Picture, request: str) -> None:
    """The size was not lowered after all: it may be ordered again."""
    for uid, fence in list(picture.fences.rows.items()):
        if fence.request == request and fence.ordered:
            picture.fences.put(uid, replace(fence, ordered=False))


def _request_gone(picture: Picture, event: e.AttachRequestGone, at: int) -> None:
    request = picture.requests.get(event.uid)
    picture.requests.drop(event.uid)
    if request is not None:
        order = picture.orders.get((request.node, request.model))
        if order is not None and order.request == request.name:
            picture.orders.drop((request.node, request.model))


def _resource_observed(picture: Picture, event: e.FabricResourceObserved, at: int) -> None:
    _observed(picture, event, at)
    resource = picture.resources.rows[event.uid]
    if not resource.marked:
        picture.unmarked.drop(event.uid)
    if not (resource.error and resource.state in ("", "Attaching")):
        picture.erring.drop(event.uid)
    elif event.uid not in picture.erring:
        picture.erring.put(event.uid, at)


def _resource_gone(picture: Picture, event: e.FabricResourceGone, at: int) -> None:
    picture.resources.drop(event.uid)
    picture.unmarked.drop(event.uid)
    picture.erring.drop(event.uid)


# --- ourselves ---------------------------------------------------------------------------------------------------------


def _started(picture: Picture, event: e.Started, at: int) -> None:
    picture.epoch = event.epoch
    picture.synced = False
    picture.restarted = True


def _policy(picture: Picture, event: e.PolicyChanged, at: int) -> None:
    picture.policy = read_policy(event.policy)
    picture.rebuild()


def _capabilities(picture: Picture, event: e.Capabilities, at: int) -> None:
    picture.taint_rules = event.taint_rules


def _synced(picture: Picture, event: e.Synced, at: int) -> None:
    picture.synced = True
    picture.stale.clear()
    if not picture.synced_at:
        picture.synced_at = at
    picture.level_at = at
    if picture.restarted:
        picture.restarted = False
        for key in sorted(void_unseen(picture, at)):
            picture.reissue.put(key, True)
    picture.touch_everything()


def _stale(picture: Picture, event: e.Stale, at: int) -> None:
    picture.stale.add(event.resource)


def _rejected(picture: Picture, event: e.Rejected, at: int) -> None:
    picture.rejections.put((event.uid, event.field, event.reason), True)


def _claims_listed(picture: Picture, event: e.ClaimsListed, at: int) -> None:
    fence = picture.fences.get(event.resource)
    settled = picture.policy.fence_settle_seconds * SECOND
    if fence is not None and event.started >= fence.since + settled:
        picture.fences.put(event.resource, replace(fence, confirmed=at))
        _touch_device(picture, event.resource)


def _deadline(picture: Picture, event: e.DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    match event.kind:
        case "level":
            picture.level_at = at
            picture.touch_everything()
        case "idle" | "fence" | "grace":
            _touch_device(picture, event.of)
        case "cooling":
            picture.dirty.nodes.add(event.of.partition("/")[0])
        case "retry" | "detaches" | "prewarm":
            picture.dirty.everything = True
        case "reservation":
            picture.dirty.claims.add(event.of)
            picture.dirty.nodes |= {picture.reservations.rows[key].node for key in picture.reservations_for[event.of]}
        case _:
            picture.dirty.claims.add(event.of)
            life = picture.lives.get(event.of)
            if life is not None and life.node:
                picture.dirty.nodes.add(life.node)


def _touch_device(picture: Picture, uid: str) -> None:
    picture.dirty.devices.add(uid)
    resource = picture.resources.get(uid)
    if resource is not None:
        picture.dirty.nodes.add(resource.node)


def _write_done(picture: Picture, event: e.WriteDone, at: int) -> None:
    picture.refusals.drop((event.action, event.target))
    request = picture.requests.get(picture.request_named.get(event.target, ""))
    if request is not None and event.action in ("AttachOrdered", "DetachOrdered"):
        _order_met(picture, request)


def _write_refused(picture: Picture, event: e.WriteRefused, at: int) -> None:
    """The intent is void; the same is not decided again before a pause that doubles from 30 s to 10 minutes."""
    key = (event.action, event.target)
    before = picture.refusals.get(key)
    count = before.count + 1 if before is not None else 1
    pause = min(30 * SECOND << min(count - 1, 10), 600 * SECOND)
    picture.refusals.put(key, Refusal(count, at + pause))
    _void(picture, event.action, event.target)


def _superseded(picture: Picture, event: e.Superseded, at: int) -> None:
    """A newer decision took its place; that one carries the intent."""


def _void(picture: Picture, action: str, target: str) -> None:
    """Forget the intent of a decision that will not be carried out; `target` is the object's name or uid."""
    match action:
        case "AttachOrdered" | "DetachOrdered":
            for cell, order in list(picture.orders.rows.items()):
                if order.request == target:
                    picture.orders.drop(cell)
                    picture.dirty.nodes.add(cell[0])
            if action == "DetachOrdered":
                _detach_void(picture, target)
        case "HandOver":
            picture.hand_overs.drop(target)
            picture.dirty.claims.add(target)
        case "Steered":
            for uid, row in list(picture.hand_overs.rows.items()):
                if row.pod == target:
                    picture.hand_overs.put(uid, replace(row, steered=False))
        case "FailureSignalled":
            failure = picture.failures.get(target)
            if failure is not None:
                picture.failures.put(target, replace(failure, signalled=False))
        case "NodeLabelled":
            for key in [key for key in picture.labelled.rows if key[0] == target]:
                picture.labelled.drop(key)
            picture.dirty.nodes.add(target)
        case "VictimMarked":
            picture.fences.drop(target)
            _touch_device(picture, target)
        case _:
            pass


def _nothing(picture: Picture, event: Event, at: int) -> None:
    """Told for people; nothing rests on it."""


# --- decisions, folded as intent ---------------------------------------------------------------------------------------


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
    picture.reservations.put(key, Reservation(event.claim, event.node, event.attempt, event.promises, at, event.pod))
    picture.dirty.claims.add(event.claim)


def _reservation_dropped(picture: Picture, event: e.ReservationDropped, at: int) -> None:
    for key in sorted(picture.reservations_for[event.claim]):  # also the pod's, whose claim may be gone
        picture.reservations.drop(key)


def _drop_reservation(picture: Picture, claim_uid: str) -> None:
    picture.reservations.drop(claim_uid)
    claim = picture.claims.get(claim_uid)
    if claim is not None and claim.extended and claim.owner:
        picture.reservations.drop(f"pod:{claim.owner}")


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
        Fence(at, (event.driver, event.pool, event.device), resource.request if resource else "", tainted=event.taint),
    )
    picture.unmarked.drop(event.resource)
    for uid, marked in list(picture.marks.rows.items()):
        if marked <= at - HOUR:
            picture.marks.drop(uid)
    picture.marks.put(event.resource, at)
    _touch_device(picture, event.resource)


def _victim_unmarked(picture: Picture, event: e.VictimUnmarked, at: int) -> None:
    picture.fences.drop(event.resource)
    picture.passed.drop(("fence", event.resource))
    picture.unmarked.put(event.resource, at)
    _touch_device(picture, event.resource)


def _claims_list_wanted(picture: Picture, event: e.ClaimsListWanted, at: int) -> None:
    fence = picture.fences.get(event.resource)
    if fence is not None:
        picture.fences.put(event.resource, replace(fence, wanted=True))


def _alerted(picture: Picture, event: e.Alerted, at: int) -> None:
    picture.shown.put(shown_key(event), e.encode(event))


# --- transitions -------------------------------------------------------------------------------------------------------


def _claim_moved(picture: Picture, event: e.ClaimMoved, at: int) -> None:
    if not claim_edge_exists(event.trigger, event.source, event.target):
        raise IllegalTransition(
            f"claim {event.claim}: {event.trigger} does not take {event.source or 'New'} to {event.target}"
        )
    old = picture.lives.get(event.claim)
    state = old.state if old is not None else ""
    if state != event.source:
        raise IllegalTransition(
            f"claim {event.claim}: {event.trigger} starts from {event.source or 'New'} but the claim is {state or 'New'}"
        )
    claim = picture.claims.get(event.claim)
    if event.landed:
        picture.counters.put(f"landed/{event.landed}", (picture.counters.get(f"landed/{event.landed}") or 0) + 1)
    if event.trigger == "reservation_lost" and old is not None:
        _learn_timeout(picture, claim, old, at)
    life = _next_life(picture, event, old, claim, at)
    picture.lives.put(event.claim, life)
    if old is not None and old.promises and not life.promises:
        _restart_idle_clocks(picture, old, at)
    if event.trigger in ("allocated_pool", "allocated_local", "pod_bound", "released", "failed"):
        picture.hand_overs.drop(event.claim)
        if not _made_again(picture, event, claim):
            _drop_reservation(picture, event.claim)
    if event.trigger in ("allocated_pool", "allocated_local", "released"):
        picture.failures.drop(event.claim)
    if event.target == "Released" and claim is None:
        _forget_claim(picture, event.claim)


def _made_again(picture: Picture, event: e.ClaimMoved, claim: Claim | None) -> bool:
    """Whether this is the claim of an extended resource that the scheduler deleted at the hand-over and made again for the
    same pod and node: what stands ready for the pod is still for it."""
    if claim is None or not claim.extended or (event.trigger, event.source) != ("allocated_pool", ""):
        return False
    row = picture.reservations.get(f"pod:{claim.owner}")
    return row is not None and row.node == picture.node_of(claim)


def _restart_idle_clocks(picture: Picture, life: ClaimLife, at: int) -> None:
    """What stood ready for a claim that took another way idles from here on."""
    for promise in life.promises:
        resource = picture.resource_with(promise.uuid) if promise.uuid else None
        device = picture.devices.get(resource.uid) if resource is not None else None
        if resource is not None and device is not None and device.state == "Idle":
            picture.devices.put(resource.uid, replace(device, idle_since=at))


def _next_life(picture: Picture, event: e.ClaimMoved, old: ClaimLife | None, claim: Claim | None, at: int) -> ClaimLife:
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
    )
    match event.trigger:
        case "allocated_pool" | "allocated_local" if claim is not None:
            return replace(
                life, allocation=claim.allocation, node=picture.node_of(claim), reserved=bool(claim.consumers)
            )
        case "cleared" | "released":
            return replace(life, allocation=None, reserved=False, devices=event.devices)
        case "reserved" | "reservation_lost":
            return replace(life, reserved=event.trigger == "reserved")
        case "device_ready" | "signalled":
            return replace(life, handed=True)
        case _:
            return life


def _learn_timeout(picture: Picture, claim: Claim | None, life: ClaimLife, at: int) -> None:
    """Two waits in a row that ended alike without any condition tell the scheduler's bindingTimeout; one may be a
    preemption or a restart."""
    if claim is None or life.state not in ("Pending", "Attaching"):
        return
    pods = picture.pods_of(claim)
    told = [claim, *(one for pod in pods for one in picture.claims_of(pod))]
    if any(c.status == "True" for one in told for c in one.conditions):
        return
    scheduler = pods[0].scheduler if pods else ""
    waited = at - life.began
    before = picture.timeouts.get(scheduler) or Timeout(0)
    agree = before.last > 0 and abs(waited - before.last) <= max(2 * SECOND, before.last // 20)
    learned = min(waited, before.last) if agree else 0
    if learned and before.learned:
        learned = min(learned, before.learned)
    if learned and learned != before.learned:
        picture.dirty.everything = True
    picture.timeouts.put(scheduler, Timeout(waited, learned or before.learned))


def _device_moved(picture: Picture, event: e.DeviceMoved, at: int) -> None:
    if device_target(event.trigger, event.source) != event.target:
        raise IllegalTransition(
            f"device {event.resource}: {event.trigger} does not take {event.source or 'New'} to {event.target}"
        )
    old = picture.devices.get(event.resource)
    state = old.state if old is not None else ""
    if state != event.source:
        raise IllegalTransition(
            f"device {event.resource}: {event.trigger} starts from {event.source or 'New'} but the device is {state or 'New'}"
        )
    if event.target == "Gone":
        _forget_device(picture, event.resource)
        return
    if event.trigger == "online" and old is not None:
        _measure(picture, at - old.since)
    idle = old.idle_since if old is not None else 0
    if event.trigger in ("online", "freed"):
        idle = at
    elif event.trigger == "taken":
        idle = 0
        _no_longer_returning(picture, event.resource)
    key = event.key if event.trigger == "taken" else old.key if old is not None and event.target == "Used" else None
    resource = picture.resources.get(event.resource)
    node = resource.node if resource is not None else old.node if old is not None else ""
    model = resource.model if resource is not None else old.model if old is not None else ""
    picture.devices.put(event.resource, DeviceLife(event.target, at, node, model, idle, key))


def _no_longer_returning(picture: Picture, uid: str) -> None:
    """Claims that gave the device back are done with it: another has it. The last one is kept, to say why they settled."""
    for claim in sorted(picture.returning[uid]):
        life = picture.lives.rows[claim]
        others = tuple(device for device in life.devices if device != uid)
        if others:
            picture.lives.put(claim, replace(life, devices=others))


def _forget_device(picture: Picture, uid: str) -> None:
    picture.devices.drop(uid)
    picture.fences.drop(uid)
    for kind in ("idle", "fence", "grace"):
        picture.passed.drop((kind, uid))
    for name in _FORGET_WITH_DEVICE:
        picture.shown.drop((name, uid))
    _forget_rejections(picture, uid)


def _measure(picture: Picture, took: int) -> None:
    """One attach took so long beside the others under way: the fabric's own time for it is its share."""
    beside = len(picture.under_way) or 1
    share = took / SECOND / beside
    rate = picture.rates.get("") or Rate()
    service = share if not rate.count else 0.7 * rate.service + 0.3 * share
    picture.rates.put("", Rate(round(service, 6), min(rate.count + 1, 1000)))


_FOLDS: dict[type[Event], Fold] = {
    **{observed: _observed for observed, _ in e.OBSERVED.values()},
    **{gone: _gone for _, gone in e.OBSERVED.values()},
    e.ClaimObserved: _claim_observed,
    e.ClaimGone: _claim_gone,
    e.SliceObserved: _slice_observed,
    e.PodGone: _pod_gone,
    e.NodeObserved: _node_observed,
    e.NodeGone: _node_gone,
    e.AttachRequestObserved: _request_observed,
    e.AttachRequestGone: _request_gone,
    e.FabricResourceObserved: _resource_observed,
    e.FabricResourceGone: _resource_gone,
    e.Rejected: _rejected,
    e.Started: _started,
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.Stale: _stale,
    e.ClaimsListed: _claims_listed,
    e.WriteDone: _write_done,
    e.WriteRefused: _write_refused,
    e.Superseded: _superseded,
    e.DeadlinePassed: _deadline,
    e.Checkpoint: _nothing,
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
    e.UsedStamped: _nothing,
    e.Alerted: _alerted,
    e.ClaimMoved: _claim_moved,
    e.DeviceMoved: _device_moved,
}
