"""Failures: claims that will not get their device. A failure is noticed early and has the fabric's words, but is signalled only
after the cool-down was read back, so that the scheduler does not choose the same again. A model cools down on a node, or in the
whole fabric if it failed on several of its nodes."""

from __future__ import annotations

from collections.abc import Iterable

from dds_core.events import decode
from dds_core.kit.policy import MICROSECONDS
from dds_core.lifecycle import ATTACHED
from dds_core.model import BLOCKING, FAILED_CONDITION, PUBLISHER, RESCHEDULE, Claim, Node, Pod, Result
from dds_core.scaler.events import AttachOrdered, ClaimFailed, ClaimMoved, CoolDown, Entry, FailureSignalled, Signal
from dds_core.scaler.exchange import impossible
from dds_core.scaler.model import ORDER_REFUSED, Cell, ClaimLife, Failure
from dds_core.scaler.operator import is_of_node
from dds_core.scaler.rules.assignment import assign
from dds_core.scaler.rules.suiting import unjudged, without_class
from dds_core.scaler.state import State, Work

PLACED = "PodPlaced"
LONGEST_COOL_DOWN = 600
"""Seconds. No doubled cool-down is longer: meanwhile no claim at all gets a device of the pool on the node."""
ERROR_GRACE = 10 * MICROSECONDS
"""An attach error that stands for so long is definite. The operator's first ten tries (5 ms, doubled) are over by then."""
READ_BACK = 15 * MICROSECONDS
"""Longest wait of a failure for the publisher to close the pool: its writes take a second or two, and it may be away."""


def budget_due(state: State, claim: Claim, life: ClaimLife) -> int:
    """The instant at which this attempt fails with AttachTimeout."""
    scheduler = state.demand.scheduler_of(claim)
    timeout = state.lifecycle.timeouts.get(scheduler)
    learned = timeout.learned if timeout is not None and timeout.learned else None
    return life.began + state.policy.attach_budget(scheduler, learned)


def definite_due(state: State, resource: str) -> int | None:
    """The instant from which a standing attach error is definite; None without an error."""
    since = state.health.erring.get(resource)
    return since + ERROR_GRACE if since is not None else None


def fail_overdue(work: Work, claim: Claim, life: ClaimLife) -> None:
    """Fail the attempt when its budget is used up. Alert if the claim has no node."""
    state = work.state
    if life.allocation is None or claim.uid in state.failing.failures or claim.deleting:
        return
    if not state.inventory.wanted_models(life.allocation):
        return
    if claim.allocation is not None and not state.demand.node_of(claim):
        work.alert(
            claim.uid,
            "NoNode",
            f"claim {claim.namespace}/{claim.name} is allocated on no single node; its device cannot be placed",
        )
    due = budget_due(state, claim, life)
    if life.state != ATTACHED and work.has_come(due) and not _by_no_fault(state, claim):
        seconds, late = (due - life.began) // MICROSECONDS, _late(state, claim)
        refused = refused_order(state, state.demand.node_of(claim), late)
        if refused:  # on any node, and by no fault of the fabric
            fail(work, claim, life, ORDER_REFUSED, f"no device within {seconds} s: {refused}", anywhere=True)
        else:
            fail(work, claim, life, "AttachTimeout", f"no device within {seconds} s", late)


def refused_order(state: State, node: str, model: str) -> str:
    """The API server's words about the order of the model for the node that it did not take last; "" if it took it."""
    rows = (row for (action, _), row in state.notes.refusals.rows.items() if action == AttachOrdered.__name__)
    return next((row.text for row in rows if (row.node, row.model) == (node, model)), "")


def placed_in_vain(state: State, claim: Claim) -> str:
    """Words on a pod that was put on its node past the scheduler, if that keeps the claim from ever getting what dds attaches:
    only an exchange could give it that, and none is possible. Else ""."""
    pods = [pod for pod in state.demand.pods_of(claim) if not pod.over]
    placed = next((pod for pod in pods if pod.node), None)
    why = impossible(state, pods) if placed is not None else ""
    return placed_words(placed, cannot_be(why)) if placed is not None and why else ""


def cannot_be(why: str) -> str:
    return f"its devices cannot be exchanged: {why}"


def placed_words(pod: Pod, why: str) -> str:
    whose = f"pod {pod.namespace}/{pod.name} was put on {pod.node} past the scheduler"
    return f"{whose}, and {why}; delete it and let the scheduler place it"


def _by_no_fault(state: State, claim: Claim) -> bool:
    """Whether nothing is ordered for the claim, by no fault of the node: its pod was put there past the scheduler, its class does
    not exist, or it cannot be told if a free device there would do. Then the attempt does not time out; in the latter cases the
    scheduler chooses again when its binding timeout ends."""
    if placed_in_vain(state, claim) or without_class(state, claim):
        return True
    node, models = state.demand.node_of(claim), {m.model: m for m in state.inventory.wanted_models(claim.allocation)}
    return bool(node) and any(unjudged(state, node, claim, model) for model in models.values())


def _late(state: State, claim: Claim) -> str:
    """The first model of which the claim has no device yet; the others are not to blame."""
    node = state.demand.node_of(claim)
    assignments = assign(state, node) if node else []
    there = {promise.result for one in assignments if one.claim.uid == claim.uid for promise, _ in one.ready}
    waiting = state.inventory.pool_results(claim.allocation)
    return next((m.model for place, one, m in waiting if place not in there and not one.admin), "")


def fail(
    work: Work,
    claim: Claim,
    life: ClaimLife,
    reason: str,
    message: str,
    model: str = "",
    *,
    observed: bool = False,
    device: str = "",
    anywhere: bool = False,
    basis: str = "",
    needs: int = 0,
) -> None:
    """End the attempt: decide the failure, move the claim (in live modes, or if the failure itself was observed), and cool the
    cell down; not if the claim would fail `anywhere`."""
    state = work.state
    if not (state.live or observed) and shown_failure(state, claim.uid, life):
        return
    node = state.demand.node_of(claim) or life.node
    models = [m.model for m in state.inventory.wanted_models(claim.allocation)]
    model = model or (models[0] if models and not anywhere else "")
    decision = ClaimFailed(
        claim=claim.uid,
        mode=state.mode,
        cycle=life.cycle,
        attempt=life.attempt,
        reason=reason,
        message=message,
        node=node,
        model=model,
        device=device,
        basis=basis,
    )
    if not work.emit_once(decision):
        return
    failed = ClaimMoved.of(claim.uid, life, "failed", f"{reason}: {message}", devices=life.devices)
    if (state.live or observed) and failed is not None:
        work.emit(failed)
    if node and model and (node, model) not in state.failing.cooling:
        times = _times_in_a_row(work, (node, model), reason)
        until = work.at + _cool_down(state, times)
        alone = reason == "AttachFailed" and is_of_node(message)
        cool_down = CoolDown(
            node=node, model=model, mode=state.mode, until=until, reason=reason, times=times, alone=alone, needs=needs
        )  # fmt: skip
        work.emit_once(cool_down, f"{node}/{model}")


def _times_in_a_row(work: Work, cell: Cell, reason: str) -> int:
    """How often in a row the cell failed for this reason of the node's own. After LONGEST_COOL_DOWN without a cool-down the count
    starts again: a claim that goes round among so many nodes could not be kept from all of them. Failures of the fabric are not
    counted: it may recover at any time, and until then the pool is closed."""
    last = work.state.failing.cooled.get(cell)
    if last is None or last.reason != reason or work.at >= last.until + LONGEST_COOL_DOWN * MICROSECONDS:
        return 1
    return last.times + 1


def _cool_down(state: State, times: int) -> int:
    """Microseconds, doubled each time in a row: a claim that no node of a kind can serve comes to the other nodes at last. With a
    constant time the first node would be open again before the last was tried."""
    first = state.policy.cool_down_seconds
    return max(first, min(first << min(times - 1, 10), LONGEST_COOL_DOWN)) * MICROSECONDS


def shown_failure(state: State, uid: str, life: ClaimLife) -> ClaimFailed | None:
    """The failure of this attempt that observe has shown: failures are not folded there, and an attempt fails only once."""
    shown = state.notes.last_emitted.get((ClaimFailed.__name__, uid))
    before = decode(ClaimFailed.__name__, shown) if shown is not None else None
    if isinstance(before, ClaimFailed) and (before.cycle, before.attempt) == (life.cycle, life.attempt):
        return before
    return None


UNSCHEDULABLE = "NodeUnschedulable"


def fail_unschedulable(work: Work, claims: Iterable[Claim], pods: Iterable[Pod], place: Node) -> bool:
    """Whether the scheduler would not place one of the pods on the node now. Unless the reason passes by itself, the claims fail,
    so that they are served on other nodes."""
    pods = list(pods)
    why = next(filter(None, (place.against(pod.tolerations, passing=False) for pod in pods)), "")
    for claim in claims if why else ():
        text = f"{why}, and takes no pod of {claim.namespace}/{claim.name} any more"
        fail(work, claim, work.state.lifecycle.lives.rows[claim.uid], UNSCHEDULABLE, text)
    return not all(place.takes(pod.tolerations) for pod in pods)


def tell_failures(work: Work, node: str) -> None:
    """Set the failure condition on claims whose cool-down was read back. If it is no longer seen there, set it again, and then on
    the claim itself: if another claim of the pod were cleared each time, its device would have to be attached again."""
    state = work.state
    for uid in sorted(state.failing.failed_at[node]):
        failure, claim, life = (
            state.failing.failures.rows[uid],
            state.demand.claims.get(uid),
            state.lifecycle.lives.get(uid),
        )
        if failure.signalled or claim is None or claim.allocation is None:  # the scheduler has cleared what failed
            continue
        if life is None or claim.allocation != life.allocation:
            continue
        if not (failure.on or _may_be_told(work, failure, life)):
            continue
        signal = failure_signal(state, claim, failure.reason, failure.message)
        if signal is not None and (signal.claim == uid or not failure.on):
            work.emit_once(FailureSignalled(claim=uid, mode=state.mode, attempt=failure.attempt, signal=signal))


def _may_be_told(work: Work, failure: Failure, life: ClaimLife) -> bool:
    return _stands(work, failure) if failure.model else work.has_come(signal_due(work.state, failure, life))


def failure_signal(state: State, claim: Claim, reason: str, message: str) -> Signal | None:
    """The failure where the scheduler looks first: on the first claim of the pod, in pod order, that is not ready. It would not
    see one on a later claim (Kubernetes 1.36.2, dynamicresources.go, isPodReadyForBinding)."""
    waiting = [pod for pod in state.demand.pods_of(claim) if not pod.node and not pod.deleting]
    in_order = [
        one for pod in waiting[:1] for one in state.demand.claims_of(pod) if claim in state.demand.claims_of(pod)
    ]
    for one in in_order or [claim]:
        entry = failure_entry(state, one, reason, message)
        if entry is not None:
            return Signal(one.uid, (*standing_entries(state, one, entry), entry))
    return None


def standing_entries(state: State, claim: Claim, beside: Entry) -> tuple[Entry, ...]:
    """What dds set on the claim's other devices: a server-side apply replaces all that its manager applied before."""
    if claim.uid not in state.hand_over.hand_overs:
        return ()
    true = claim.true_conditions
    return tuple(
        reschedule_entry(result)
        for _, result, _ in state.inventory.pool_results(claim.allocation)
        if (*result.key, RESCHEDULE) in true and result.device != beside.device
    )


def reschedule_entry(result: Result) -> Entry:
    """The condition on one device of a claim that is handed over."""
    message = "the device is attached to the node; the pod is scheduled again to use it"
    return Entry(*result.key, RESCHEDULE, "DeviceAttached", message, result.share)


def withdrawn(state: State, node: str, model: str) -> bool:
    """Whether the scheduler can no longer choose the model from the pool on the node: its pool label was seen gone."""
    found, named = state.fleet.node(node), state.settings.model(model)
    if found is None or named is None:
        return True
    return found.labels.get(f"{state.settings.config.prefix}/{named.device}") != "true"


def failure_entry(state: State, claim: Claim, reason: str, message: str) -> Entry | None:
    """The failure on the first result of dds that is not ready: the scheduler looks no further."""
    for _, result, _ in state.inventory.pool_results(claim.allocation):
        if not claim.waits_for([result]):
            continue
        names = [name for name in result.failure if name == FAILED_CONDITION] or list(result.failure)
        if names:
            return Entry(result.driver, result.pool, result.device, names[0], reason, message, result.share)
    return None


def _stands(work: Work, failure: Failure) -> bool:
    """Whether the cool-down was read back. An absent publisher delays the failure for a limited time only."""
    state = work.state
    if not withdrawn(state, failure.node, failure.model):
        return False
    if not cools_with_fabric(state, failure.node, failure.model) or _closed(state, failure):
        return True
    return work.has_come(read_back_due(failure))


def signal_due(state: State, failure: Failure, life: ClaimLife) -> int:
    """When a claim that would fail anywhere gets the signal: at once the first time, later each time that it is tried again."""
    pause = state.policy.cool_down_seconds * MICROSECONDS
    return failure.since + (pause << min(life.cycle - 2, 5) if life.cycle > 1 else 0)


def read_back_due(failure: Failure) -> int:
    """The instant from which the failure no longer waits for the publisher."""
    return failure.since + READ_BACK


def cools_with_fabric(state: State, node: str, model: str) -> bool:
    """Whether the model cools down on the node because the fabric fails, not because of the node."""
    fabric = state.failing.fabric_of.get(node, "")
    return node in state.failing.fabric_failed.get((fabric, model), ()) and state.failing.fails(fabric, model)


def _closed(state: State, failure: Failure) -> bool:
    """Whether the scheduler can choose no device of the fabric's pool: each is tainted for the cool-down, or a claim has it. Only
    the publisher of dds knows the label, so another's pool is not waited for."""
    named = state.settings.model(failure.model)
    if named is None:
        return True
    key = (named.driver, f"{named.device}-fabric{state.failing.fabric_of[failure.node]}")
    pool = state.inventory.pools.get(key)
    if pool is None or pool.owner != PUBLISHER:
        return True
    taint = f"{state.settings.config.prefix}/cooling"
    return pool.usable and all(
        (*key, name) in state.demand.having or any(t.key == taint and t.effect in BLOCKING for t in device.taints)
        for name, device in pool.devices.items()
    )
