"""The steps of a claim's life that follow from the claim, its pods and its devices; the others are in `deciding.for_node`."""

from __future__ import annotations

from dds_core.lifecycle import (
    ATTACHED,
    ATTACHING,
    BOUND,
    CLAIM_DETACHING,
    FAILED,
    NEW,
    PENDING,
    USED,
    WAITING,
    claim_target,
)
from dds_core.model import BEING_ATTACHED, FINISHED, RESCHEDULE, Allocation, Claim
from dds_core.scaler import hold
from dds_core.scaler.events import ClaimMoved, ReservedDevice
from dds_core.scaler.exchange import exchanged, next_step
from dds_core.scaler.model import DEVICE_TWICE, NO_PROGRESS, ClaimLife
from dds_core.scaler.rules.assignment import Assignment, assign
from dds_core.scaler.rules.devices import SLOW
from dds_core.scaler.rules.failures import fail, fail_overdue
from dds_core.scaler.rules.handover import steer, tell_kept
from dds_core.scaler.rules.orders import limits_of, usable
from dds_core.scaler.state import State, Work

_LONGEST_CHAIN = 8
_MOST_IN_VAIN = 2
"""Hand-overs in a cycle that may land on a pool device again although the handed-over one is free; then the claim fails."""


def step(work: Work, uid: str) -> None:
    """Take every step that is due for the claim; then look at its exchange, its budget and its steering."""
    claim = work.state.demand.claims.get(uid)
    if claim is not None and claim.hold:
        hold.end_stray(work, claim)
        if claim.allocation is not None:
            _tell_doubles(work, claim, claim.allocation)
        return
    for _ in range(_LONGEST_CHAIN):
        move = next_move(work.state, uid, work.at)
        if move is None:
            work.state.dirty.claims.discard(uid)  # its own steps marked it; all below sees what they made of it
            break
        work.emit(move)
        if move.excluded:
            text = f"the scheduler took a pool device again although {', '.join(move.excluded)} was handed over and is free"
            work.alert(uid, "HandOverInVain", f"{text}; it is not handed over to this claim again")
    if uid in work.state.hand_over.exchanges or uid in work.state.hand_over.guarded_for:
        next_step(work, uid, lambda node: {one.claim.uid for one in assign(work.state, node) if one.complete})
    claim, life = work.state.demand.claims.get(uid), work.state.lifecycle.lives.get(uid)
    if claim is not None and claim.allocation is not None:
        _tell_doubles(work, claim, claim.allocation)
        _tell_elsewhere(work, claim, claim.allocation)
        if claim.true_conditions:
            tell_kept(work, claim)
    if claim is not None and life is not None and life.state in WAITING:
        fail_overdue(work, claim, life)
        if life.vain >= _MOST_IN_VAIN:
            text = (
                f"the scheduler left {', '.join(life.excluded)} on {life.node} although they were handed over and free"
            )
            fail(work, claim, life, "HandOverInVain", text)
        if life.state == ATTACHED:
            steer(work, claim, life)


def _tell_elsewhere(work: Work, claim: Claim, allocation: Allocation) -> None:
    """Alert about a pod that runs on another node than its claim's devices: if a claim was cleared and given devices in between,
    the scheduler compares neither node nor reservation."""
    for pod in work.state.demand.pods_of(claim):
        if allocation.node and pod.node and pod.node != allocation.node and pod.phase not in FINISHED:
            whose = f"pod {pod.namespace}/{pod.name} runs on {pod.node} with claim {claim.namespace}/{claim.name}"
            work.alert(claim.uid, "PodElsewhere", f"{whose}, whose devices are on {allocation.node}: delete the pod")


def _tell_doubles(work: Work, claim: Claim, allocation: Allocation) -> None:
    """Alert about two claims that have one device, each as a whole: the API server does not check this, and when one of them
    ends, the scheduler gives the device to a third."""
    state = work.state
    for result in allocation.results:
        key = result.key
        if len(state.demand.having[key]) + len(state.demand.held_by.get(key, ())) < 2 or not result.whole:
            continue
        for uid in sorted(state.demand.claims_naming(key) - {claim.uid}):
            other = state.demand.claims.rows[uid]
            results = other.allocation.results if other.allocation is not None else ()
            if any(one.key == key and one.whole for one in results):
                names = sorted(f"{one.namespace}/{one.name}" for one in (claim, other))
                both = f"claims {' and '.join(names)} have the device {result.device} of pool {result.pool} both"
                what = "delete the pod of one of them, and restart the scheduler, whose record of devices in use is wrong by now"
                for one in (claim, other):
                    work.alert(one.uid, DEVICE_TWICE, f"{both}: {what}")


def slow_due(life: ClaimLife) -> int | None:
    """The instant from which a claim has waited long for its order; None when it waits for none."""
    return life.since + SLOW if life.state == ATTACHING else None


def is_slow(work: Work, uid: str) -> bool:
    """Whether the claim has waited long for its order."""
    due = slow_due(work.state.lifecycle.lives.rows[uid])
    return due is not None and work.has_come(due) and work.state.live


def tell_hidden(work: Work, uid: str, assignment: Assignment, node: str) -> None:
    """Alert about an order without visible effect, not even an error. Slow resources and unlisted devices have other alerts."""
    state, claim = work.state, assignment.claim
    hidden = [_not_made(state, node, name) for name in assignment.ordered if (node, name) not in state.fleet.orders]
    hidden += [_not_shown(state, uid) for _, uid in assignment.attaching]
    why = next(filter(None, hidden), "")
    if why:
        work.alert(uid, NO_PROGRESS, f"{claim.namespace}/{claim.name} waits on {node} for long: {why}")


def _not_made(state: State, node: str, model: str) -> str:
    """What the requests show of a device that was ordered and has no resource."""
    requests = (state.fleet.requests.rows[uid] for uid in sorted(state.fleet.requests_at[node]))
    told = (
        f"{one.name} asks for {one.size} and has {len(state.fleet.resources_of_request[one.name])}"
        for one in requests
        if one.model == model
    )
    return f"{model} was ordered and is not seen; {', '.join(told) or 'there is no request'}"


def _not_shown(state: State, uid: str) -> str:
    """Why a resource is Online and no slice shows its device; "" for other resources, and if another alert says so."""
    resource = state.fleet.resources.rows[uid]
    if resource.state != "Online" or uid in state.health.unlisted:
        return ""
    where = f"no driver lists {resource.uuid}" if resource.uuid else "the operator does not say which device it is"
    return f"{resource.name} is Online, and {where}"


def next_move(state: State, uid: str, at: int) -> ClaimMoved | None:
    claim, life = state.demand.claims.get(uid), state.lifecycle.lives.get(uid)
    allocation = claim.allocation if claim is not None else None
    if claim is not None and allocation is not None and (life is None or life.allocation != allocation):
        return _allocated(state, claim, allocation, life, at)
    if life is None:
        return None
    if allocation is None:
        return _unallocated(state, claim, life, uid)
    assert claim is not None
    return _condition_move(state, claim, allocation, life)


def _allocated(
    state: State, claim: Claim, allocation: Allocation, life: ClaimLife | None, at: int
) -> ClaimMoved | None:
    """Another allocation than the one last seen: a new attempt, or a new cycle if the last has ended."""
    source = life.state if life is not None else NEW
    waits, local = state.inventory.pool_results(allocation), state.inventory.local_results(allocation)
    if not waits and not local:
        ours = life is not None and source not in ("Released", CLAIM_DETACHING)
        return _release(state, claim.uid, life, "allocated on devices that are none of ours") if ours and life else None
    trigger = "allocated_pool" if waits else "allocated_local"
    target = claim_target(trigger, source)
    if target is None:
        return _release(state, claim.uid, life, "allocated anew") if life is not None else None
    fresh = life is None or source in ("Released", FAILED, CLAIM_DETACHING)
    cycle = (life.cycle if life is not None else 0) + (1 if fresh else 0)
    attempt = 1 if fresh or life is None else life.attempt + 1
    node = state.demand.node_of(claim)
    names = ", ".join(r.device for r in ([r for _, r, _ in waits] or local))
    chosen = f"the scheduler chose {names} {'from the pool for' if waits else 'on'} {node or 'no single node'}"
    landed = _landing(life, node, bool(waits)) if _was_told(state, claim) else ""
    return ClaimMoved(
        claim=claim.uid,
        trigger=trigger,
        source=source,
        target=target,
        cycle=cycle,
        attempt=attempt,
        cause=(claim.uid in state.hand_over.exchanges and exchanged(state, claim)) or chosen,
        devices=_resources_of(state, allocation),
        began=_began(state, allocation, at),
        landed=landed,
        excluded=_not_taken(state, claim, life)
        if landed == "pool" and claim.uid not in state.hand_over.exchanges
        else (),
    )


def _was_told(state: State, claim: Claim) -> bool:
    """Whether a hand-over of the claim has begun. In observe that is not known, so yes."""
    rows = (state.hand_over.reservations.rows[key] for key in state.hand_over.reservations_for[claim.uid])
    begun = claim.uid in state.hand_over.hand_overs or claim.uid in state.hand_over.exchanges
    return begun or not state.live or any(row.signalled for row in rows)


def _landing(life: ClaimLife | None, node: str, pool: bool) -> str:
    if life is None or not life.handed or life.state not in WAITING:
        return ""
    if node != life.node:
        return "elsewhere"
    return "pool" if pool else "here"


def _not_taken(state: State, claim: Claim, life: ClaimLife | None) -> tuple[str, ...]:
    """The devices that were handed over to the claim and have been free ever since: the scheduler has a reason to leave them."""
    if life is None:
        return ()
    mine = {claim.uid, f"pod:{claim.owner}"}
    there = [one for one in life.promises if state.inventory.device(one.key) and not state.demand.having[one.key]]
    stayed = [one for one in there if _stayed_free(state, claim, life, one)]
    return tuple(one.identity for one in stayed if mine.issuperset(state.promised(one.identity)))


def _stayed_free(state: State, claim: Claim, life: ClaimLife, promise: ReservedDevice) -> bool:
    resource = state.resource_of(promise.key)
    device = state.lifecycle.devices.get(resource.uid) if resource is not None else None
    if device is None:  # a fixed one: known only while it is reserved for the claim
        return bool(state.hand_over.reservations_for[claim.uid])
    return 0 < device.idle_since <= life.since


def _began(state: State, allocation: Allocation, at: int) -> int:
    """Start of the attempt: 0 for now. What a start or level pass finds is as old as its timestamp says, once the skew between
    this clock and the scheduler's was measured. It is never older: that this clock is behind may be over, since it was set right
    or is another host's, and an attempt that begins too late costs time, one that begins too early fails and closes the node."""
    if at != state.process.synced_at and at != state.process.level_at:
        return 0
    if allocation.timestamp is None or state.settings.skew is None:
        return 0
    return min(at, allocation.timestamp + max(0, state.settings.skew))


def _resources_of(state: State, allocation: Allocation) -> tuple[str, ...]:
    found = (state.resource_of(one.key) for one in allocation.results if not (one.binding or one.admin))
    return tuple(dict.fromkeys(resource.uid for resource in found if resource is not None))


def _unallocated(state: State, claim: Claim | None, life: ClaimLife, uid: str) -> ClaimMoved | None:
    if life.state == CLAIM_DETACHING:
        why = settled_because(state, uid, life)
        return ClaimMoved.of(uid, life, "settled", why) if why else None
    if life.state == "Released":
        return None
    pods = state.demand.pods_of(claim) if claim is not None else []
    waiting = any(pod.pending for pod in pods)
    exchange = state.hand_over.exchanges.get(uid)
    if waiting and exchange is not None and exchange.between_writes:
        return None
    left = all(pod.over for pod in pods)  # one that has its node may be seen there before the allocation is
    if life.state != BOUND and not left:
        return ClaimMoved.of(uid, life, "cleared", "a pod still waits for it") if life.allocation is not None else None
    return _release(state, uid, life, "the claim was deleted" if claim is None else "no pod refers to it any more")


def _release(state: State, uid: str, life: ClaimLife | None, cause: str) -> ClaimMoved | None:
    if life is None:
        return None
    devices = _devices_left_by(state, uid, life)
    ordered = bool(devices) or _order_stands(state, life)
    stays = claim_target("released", life.state, ordered=ordered) == CLAIM_DETACHING
    return ClaimMoved.of(uid, life, "released", cause, devices=devices if stays else (), ordered=ordered)


def _devices_left_by(state: State, uid: str, life: ClaimLife) -> tuple[str, ...]:
    """The resources that the claim had, or that are still coming for it and for no other claim."""
    had = [d for d in life.devices if (resource := state.fleet.resources.get(d)) is not None and not resource.deleting]
    if life.allocation is not None:
        keys = {result.key for result in life.allocation.results if not result.admin}
        had += [r.uid for key in sorted(keys) if (r := state.resource_of(key)) is not None]
        on_node = (
            u
            for u in state.fleet.resources_at[life.node]
            if (d := state.lifecycle.devices.get(u)) and d.state == USED and d.key in keys
        )
        had += sorted(on_node)
    if life.state in (PENDING, ATTACHING) and not had:
        had += _still_coming(state, uid, life)
    return tuple(dict.fromkeys(had))


def _still_coming(state: State, uid: str, life: ClaimLife) -> list[str]:
    others = (one for one in assign(state, life.node) if one.claim.uid != uid)
    taken = {resource for one in others for resource in one.resources}
    models = [model.model for model in state.inventory.wanted_models(life.allocation)]
    coming = [
        resource
        for name in state.fleet.resources_at[life.node]
        if (resource := state.fleet.resources.rows[name]).model in models
        and name not in taken
        and not resource.deleting
        and resource.state in BEING_ATTACHED
    ]
    coming.sort(key=lambda r: (r.created, r.name))
    return [resource.uid for resource in coming[: len(models)]]


def _order_stands(state: State, life: ClaimLife) -> bool:
    """Whether a request on the claim's node still asks for a model of its last allocation."""
    if life.state != ATTACHING or state.fleet.node(life.node) is None:
        return False
    models = {model.model for model in state.inventory.wanted_models(life.allocation)}
    requests = (state.fleet.requests.rows[uid] for uid in state.fleet.requests_at[life.node])
    return any(request.model in models and request.size > 0 and not request.deleting for request in requests)


def settled_because(state: State, uid: str, life: ClaimLife) -> str:
    """Why nothing is left to wait for after the claim's release; "" while something is."""
    reasons = []
    for device in life.devices:
        reason = _device_settled(state, device)
        if not reason:
            return ""
        reasons.append(reason)
    return ", ".join(dict.fromkeys(reasons)) or "it had no device that could go back"


def _device_settled(state: State, uid: str) -> str:
    life, resource = state.lifecycle.devices.get(uid), state.fleet.resources.get(uid)
    if resource is None:
        return "its device went back"
    if state.fleet.node(resource.node) is None:
        return "its node is gone"
    if life is not None and life.state == USED:
        return "its device was taken by another claim"
    if life is not None and life.state == "Idle" and kept_by_policy(state, uid):
        return "its device is kept by policy"
    return ""


def kept_by_policy(state: State, uid: str) -> bool:
    """Whether dds will never detach this idle device: because of the mode, another's request, or the node's minimum."""
    if state.mode == "attach":
        return True
    resource = state.fleet.resources.rows[uid]
    request = state.fleet.request(resource.request)
    if request is not None and not usable(state, request):
        return True
    here = [
        r
        for other in state.fleet.resources_at[resource.node]
        if (r := state.fleet.resources.rows[other]).model == resource.model
    ]
    return len([r for r in here if not r.deleting]) <= limits_of(state, resource.node, resource.model)[0]


def _condition_move(state: State, claim: Claim, allocation: Allocation, life: ClaimLife) -> ClaimMoved | None:
    """Steps within an attempt: failed, signalled, bound, reserved or not."""
    if life.state in WAITING:
        told = trigger_of_conditions(state, claim)
        if told is not None and claim_target(told[0], life.state) is not None:
            return ClaimMoved.of(claim.uid, life, told[0], told[1])
        # No pod uses the claim while a binding condition of any driver is not True.
        consumers = set() if claim.waits_for(allocation.results) else {c.uid for c in claim.consumers}
        for pod in state.demand.pods_of(claim) if consumers else ():
            if pod.uid in consumers and pod.node and pod.phase not in FINISHED:
                return ClaimMoved.of(claim.uid, life, "pod_bound", f"pod {pod.namespace}/{pod.name} runs on {pod.node}")
    if bool(claim.consumers) != life.reserved:
        trigger = "reserved" if claim.consumers else "reservation_lost"
        cause = f"reserved for {claim.consumers[0].name}" if claim.consumers else "no pod is reserved any more"
        return ClaimMoved.of(claim.uid, life, trigger, cause)
    return None


def trigger_of_conditions(state: State, claim: Claim) -> tuple[str, str] | None:
    """(trigger, cause) of the conditions on dds's results, None when they say nothing."""
    true = claim.true_conditions
    if not true:
        return None
    waits = state.inventory.pool_results(claim.allocation)
    for _, result, _ in waits:
        for name in result.failure:
            if name != RESCHEDULE and (*result.key, name) in true:
                return "failed", f"condition {name} on {result.device}"
    for _, result, _ in waits:
        if RESCHEDULE in result.failure and (*result.key, RESCHEDULE) in true:
            return "signalled", f"condition {RESCHEDULE} on {result.device}"
    if waits and all((*result.key, name) in true for _, result, _ in waits for name in result.binding):
        return "signalled", f"condition {waits[0][1].binding[0]} on {waits[0][1].device}"
    return None
