"""The hand-over: how waiting claims get their attached devices. By an exchange where it is possible, else by a signal to the
scheduler and steering. The unit is the pod.

The scheduler stops at the first claim of a pod that is not ready. After a failure it clears one random unavailable claim of the
pod, healthy ones included (Kubernetes 1.36.2, dynamicresources.go, isPodReadyForBinding and PostFilter). So all pool claims of a
group (a pod with its claims, and the other pods of shared claims) are signalled in one batch, or none.
"""

from __future__ import annotations

from dds_core.lifecycle import ATTACHED
from dds_core.model import RESCHEDULE, Claim, DeviceKey, Pod, Result
from dds_core.scaler.events import HandOver, Signal, Steered
from dds_core.scaler.exchange import against, begin, looks_anew
from dds_core.scaler.model import KUBE_SCHEDULER, ClaimLife
from dds_core.scaler.rules.failures import PLACED, cannot_be, fail_unschedulable, placed_words, reschedule_entry
from dds_core.scaler.state import State, Work

NO_WAY = "NoWayToHandOver"


def hand_over(work: Work, uid: str, node: str) -> None:
    """Hand over the claim's whole group, once all its claims and pods can be."""
    state = work.state
    life, claim = state.lifecycle.lives.rows[uid], state.demand.claims.rows[uid]
    if (
        life.state != ATTACHED
        or uid in state.hand_over.hand_overs
        or uid in state.hand_over.exchanges
        or is_signalled(state, claim)
    ):
        return
    group = group_of(state, claim)
    if isinstance(group, str):
        return
    pods, claims = group
    under_way = [row for one in claims if (row := state.hand_over.exchanges.get(one.uid)) is not None]
    if any(row.awaits_guard or row.between_writes for row in under_way):
        return  # nothing begins anew while a write is on its way
    why = begin(work, pods, claims, node)
    if not why:
        return
    placed = next((pod for pod in pods if pod.node), None)
    if placed is not None:
        shared = next(one for one in claims if placed in state.demand.pods_of(one))
        work.alert(shared.uid, PLACED, placed_words(placed, cannot_be(why)))
        return
    if any(_looks_at_all(state, one) for one in claims):
        work.alert(uid, NO_WAY, _looks_words(claim, why))
        return
    place = state.fleet.node(node)
    if place is None or fail_unschedulable(work, claims, pods, place):
        return
    signals = tuple(signal for one in claims if (signal := _signal(work, one)) is not None)
    if len(signals) != len(claims):
        return
    work.emit_once(
        HandOver(
            pod=pods[0].uid if pods else "",
            node=node,
            steering="clear",
            signals=signals,
            mode=state.mode,
            cause=f"attempt {life.cycle}.{life.attempt}",
            why=why,
        )
    )


def no_way(state: State, claim: Claim) -> str:
    """Why neither dds nor the scheduler can give the attached devices to the claim, whose group waits; "" if one of them can."""
    group = group_of(state, claim)
    if isinstance(group, str):
        return ""
    pods, claims = group
    why = against(state, pods, claims, state.demand.node_of(claim), state.process.now)
    if not why:
        return ""
    if any(_looks_at_all(state, one) for one in claims):
        return _looks_words(claim, why)
    results = (one for other in claims for _, one, _ in state.inventory.pool_results(other.allocation))
    return next((_unlisted_words(one) for one in results if RESCHEDULE not in one.failure), "")


def _looks_words(claim: Claim, why: str) -> str:
    text = (
        f"{claim.namespace}/{claim.name} is to look at all devices, those of the pool too if the scheduler chose anew"
    )
    return f"{text}, and they cannot be exchanged: {why}"


def _unlisted_words(result: Result) -> str:
    return f"device {result.device} of pool {result.pool} does not list {RESCHEDULE}; its claim cannot be handed over"


def _looks_at_all(state: State, claim: Claim) -> bool:
    """Whether the claim waits to look at all devices (admin access)."""
    waits = {result.request for _, result, _ in state.inventory.pool_results(claim.allocation) if result.admin}
    return any(one.name in waits and one.alternatives[0].all for one in claim.requests if one.alternatives)


def _is_kept(state: State, key: DeviceKey, claim: Claim) -> bool:
    """Whether a hold keeps the device from the claim, or another claim's guard that is not being removed."""
    guard = state.hand_over.guarded.get(key)
    return state.is_held(key) or (guard is not None and guard.claim != claim.uid and not guard.lifting)


def is_signalled(state: State, claim: Claim) -> bool:
    """Whether any client has set a condition that says that dds's devices are there, or will not come. Other drivers' devices,
    and conditions that the scheduler does not read, do not count."""
    read = {
        (*result.key, name)
        for _, result, _ in state.inventory.pool_results(claim.allocation)
        for name in (*result.binding, *result.failure)
    }
    return not read.isdisjoint(claim.true_conditions)


def tell_kept(work: Work, claim: Claim) -> None:
    """Alert about a pod that keeps the claim from being allocated anew, as the scheduler was told: it has its node, so its
    reservation stays, and neither the scheduler nor dds clears the claim under it."""
    state, consumers = work.state, {one.uid for one in claim.consumers}
    if is_signalled(state, claim) and state.inventory.waits_for_devices(claim):
        pods = [pod for pod in state.demand.pods_of(claim) if pod.uid in consumers and pod.node and not pod.over]
        for pod in pods[:1]:
            why = "the scheduler was told to choose anew, which the pod's reservation prevents"
            work.alert(claim.uid, PLACED, placed_words(pod, why))


def group_of(state: State, claim: Claim) -> tuple[list[Pod], list[Claim]] | str:
    """The pods that wait for the claim's devices, and for those of other claims, with all these claims, in pod order. A claim
    whose binding conditions are all True is left out, whoever shares it. A pod that has its node from its author waits for the
    devices of that node. While one of the group cannot be served: why."""
    pods: dict[str, Pod] = {}
    claims: dict[str, Claim] = {claim.uid: claim}
    queue = [claim]
    while queue:
        one = queue.pop(0)
        for pod in state.demand.pods_of(one):
            if pod.uid in pods or pod.over:
                continue
            if pod.node and (one.allocation is None or pod.node != one.allocation.node):
                return f"pod {pod.namespace}/{pod.name}, which shares it, is on {pod.node} already"
            pods[pod.uid] = pod
            for other in state.demand.claims_of(pod):
                if other.uid not in claims and state.inventory.waits_for_devices(other):
                    claims[other.uid] = other
                    queue.append(other)
    waiting = [one for one in _in_pod_order(state, pods, claims) if one.uid in claims]
    if not pods and any(pod.over for pod in state.demand.pods_of(claim)):
        return "no pod waits for it any more"
    for one in waiting:
        if one.deleting:
            return f"{one.namespace}/{one.name} is being deleted, so no scheduler places a pod that uses it"
        life = state.lifecycle.lives.get(one.uid)
        if life is None or life.state != ATTACHED or life.allocation != one.allocation:
            return f"the devices of {one.namespace}/{one.name}, which a pod has with it, are not all there"
        if not (state.hand_over.reservations_for[one.uid] if state.live else life.promises):
            return f"nothing is promised to {one.namespace}/{one.name} yet"
        used = (promise.key for promise in state.reserved_devices_of(one) if not promise.admin)
        if any(_is_kept(state, key, one) for key in used):
            return f"a hold, or the guard of another claim, still keeps a device of {one.namespace}/{one.name}"
    return list(pods.values()), waiting


def _in_pod_order(state: State, pods: dict[str, Pod], claims: dict[str, Claim]) -> list[Claim]:
    ordered = {one.uid: one for pod in pods.values() for one in state.demand.claims_of(pod)}
    return list({**ordered, **claims}.values())


def _signal(work: Work, claim: Claim) -> Signal | None:
    """All entries of dds on the claim; None, and an alert, if a device does not have the condition for it."""
    entries = []
    for _, result, _ in work.state.inventory.pool_results(claim.allocation):
        if RESCHEDULE not in result.failure:
            work.alert(claim.uid, NO_WAY, _unlisted_words(result))
            return None
        entries.append(reschedule_entry(result))
    return Signal(claim.uid, tuple(entries))


def steer(work: Work, claim: Claim, life: ClaimLife) -> None:
    """After the signal: between the failed binding and the next attempt, nominate the node for the pod and clear the signalled
    allocations, so that the next attempt allocates again and tries that node first."""
    state = work.state
    if life.allocation is None:
        return
    for pod in state.demand.pods_of(claim):
        if pod.waiting != "SchedulerError" or pod.nominated or pod.node or pod.deleting:
            continue
        signalled = [one for one in state.demand.claims_of(pod) if _given_way(state, one)]
        if claim not in signalled or any(one.consumers for one in signalled):
            continue
        rows = [state.hand_over.hand_overs.get(one.uid) for one in signalled]
        if state.live and (not all(rows) or any(row is not None and row.steered for row in rows)):
            continue
        if not _may_clear(state, pod, signalled):
            continue
        place = state.fleet.node(life.node)
        if place is None or not place.takes(pod.tolerations):
            continue
        uids = tuple(one.uid for one in signalled)
        cause = f"attempt {life.cycle}.{life.attempt}"
        work.emit_once(Steered(pod=pod.uid, node=life.node, claims=uids, mode=state.mode, cause=cause))


def _may_clear(state: State, pod: Pod, claims: list[Claim]) -> bool:
    """Before 1.36, a scheduler panics if a claim that another pod shares is cleared during a binding (Kubernetes pull request
    137371), and Volcano loses its claims (its issue 5812): there the scheduler has to clear them itself."""
    if pod.scheduler == "volcano":
        return False
    old = state.settings.version and not looks_anew(state) and pod.scheduler in KUBE_SCHEDULER
    return not old or all(claim.owner == pod.uid for claim in claims)


def _given_way(state: State, claim: Claim) -> bool:
    signals = {(*result.key, RESCHEDULE) for _, result, _ in state.inventory.pool_results(claim.allocation)}
    return not signals.isdisjoint(claim.true_conditions)
