"""The others in a cluster, who obey: scheduler, operator, the vendor's driver, users, and the writer of our decisions.

Each verb is one small step of one of them, so that any interleaving can be drawn. With them a stream reaches states that
chance alone does not: hand-overs, fences, detaches, failures that are told. Nothing here knows the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dds_core.model import (
    OWNER,
    OWNER_LABEL,
    Allocation,
    AttachRequest,
    Claim,
    Condition,
    Device,
    FabricResource,
    Node,
    Pod,
    Result,
    Slice,
)
from dds_core.scaler import events as e
from tests.property.cluster import FAILED, MODELS, NVIDIA, PREFIX, READY, RESCHEDULE, Cluster, Move
from tests.property.places import plug, unplug
from tests.property.verbs import give, pods_of, pool_result, wanted_by
from tests.support.world import asks

JOBS = 5


# --- users -------------------------------------------------------------------------------------------------------------


def submit(cluster: Cluster, a: int, b: int, c: int) -> None:
    """Job `a`: a pod with one claim, two claims, or a claim shared with the next job; one or two devices each."""
    name = f"job{a % JOBS}"
    if cluster.get(Pod, f"pod-{name}") is not None:
        return
    own = [f"{name}-{i}" for i in range(2 if c == 7 else 1)]
    if c == 6:
        own = [f"job{(a + 1) % JOBS}-0"]
    for one in own:
        if cluster.named(Claim, one) is None:
            number = cluster.number()
            request = asks("r0", NVIDIA, count=2 if b == 7 else 1)
            cluster.put(Claim(f"claim-{one}-{number}", "default", one, cluster.now, requests=(request,)))
    cluster.put(Pod(f"pod-{name}", "default", name, phase="Pending", scheduler="default-scheduler", claims=tuple(own)))


def finish(cluster: Cluster, a: int, b: int, c: int) -> None:
    """A job ends: its pod goes; the claims that no other pod names lose their allocation, then go (next time)."""
    pods = cluster.all(Pod)
    if pods:
        cluster.drop(pods[a % len(pods)])
    for claim in cluster.all(Claim):
        if not pods_of(cluster, claim):
            if claim.allocation is None:
                cluster.drop(claim)
            else:
                cluster.update(claim, allocation=None, consumers=(), conditions=())


# --- the scheduler -----------------------------------------------------------------------------------------------------


def schedule(cluster: Cluster, a: int, b: int, c: int) -> None:
    """One step for one pending pod: allocate what is not allocated, look at the conditions, bind, fail or clear."""
    pods = [pod for pod in cluster.all(Pod) if not pod.node]
    if not pods:
        return
    pod = pods[a % len(pods)]
    claims = [one for name in pod.claims if (one := cluster.named(Claim, name)) is not None]
    open_claims = [one for one in claims if one.allocation is None]
    if open_claims:
        _find_node(cluster, pod, claims, open_claims, b, c)
        return
    if any(_true(one, RESCHEDULE) or _true(one, FAILED) for one in claims):
        if pod.waiting != "SchedulerError":
            cluster.update(pod, waiting="SchedulerError", nominated="")
            for one in claims:
                cluster.update(one, consumers=tuple(k for k in one.consumers if k.uid != pod.uid))
        else:
            told = [one for one in claims if not one.consumers]
            if told:
                cluster.update(told[b % len(told)], allocation=None, consumers=(), conditions=())
    elif all(_ready(one) for one in claims) and claims:
        allocation = claims[0].allocation
        node = allocation.node if allocation is not None else ""
        cluster.update(pod, node=node, nominated="", waiting="", phase="Running")


def _find_node(cluster: Cluster, pod: Pod, claims: list[Claim], wanted: list[Claim], b: int, c: int) -> None:
    """The first node, nominated one first, where every claim finds devices: ready ones first, then the pool's."""
    bound = {one.allocation.node for one in claims if one.allocation is not None}
    nodes = [one for one in cluster.all(Node) if not one.unschedulable and (not bound or one.name in bound)]
    nodes = nodes[b % 2 :] + nodes[: b % 2]
    nodes.sort(key=lambda one: one.name != pod.nominated)
    model = MODELS[1 if c == 7 else 0]
    for node in nodes:
        taken = {r.key for k in cluster.all(Claim) if k.allocation is not None for r in k.allocation.results}
        taken |= cluster.guarded
        plan: list[tuple[Claim, tuple[Result, ...]]] = []
        for one in wanted:
            count = wanted_by(one)
            free = _offers(cluster, node, model.driver, model.device, taken)
            results = tuple(free[:count])
            taken |= {r.key for r in results}
            plan.append((one, results))
        if all(len(results) == wanted_by(one) for one, results in plan):
            for one, results in plan:
                give(cluster, one, results, node.name)
            cluster.update(pod, nominated=node.name, waiting="")
            return


def _offers(cluster: Cluster, node: Node, driver: str, device: str, taken: set[tuple[str, str, str]]) -> list[Result]:
    model = next(one for one in MODELS if one.device == device)
    here = [
        Result("r0", driver, node.name, name)
        for one in cluster.all(Slice)
        if one.node == node.name and one.driver == driver
        for name, found in sorted(one.devices.items())
        if _is(found, model.attributes)
    ]
    pool: list[Result] = []
    fabric = node.labels.get(f"{PREFIX}/fabric", "")
    published = cluster.get(Slice, f"pool-{device}-fabric{fabric}")
    if published is not None and node.labels.get(f"{PREFIX}/{device}") == "true":
        pool = [pool_result(model, i, int(fabric)) for i in range(len(published.devices))]
    return [one for one in here + pool if one.key not in taken]


def _is(device: Device, attributes: dict[str, str]) -> bool:
    return not device.taints and all(device.attributes.get(k) == v for k, v in attributes.items())


def _true(claim: Claim, type: str) -> bool:
    return any(one.type == type and one.status == "True" for one in claim.conditions)


def _ready(claim: Claim) -> bool:
    results = claim.allocation.results if claim.allocation is not None else ()
    return not any(one.binding for one in results) or _true(claim, READY)


# --- the operator, the fabric, the vendor's driver ---------------------------------------------------------------------


def operate(cluster: Cluster, a: int, b: int, c: int) -> None:
    """One step for one request: make a resource that is missing, take one that is too many, or say that it is done. The
    first victims are those still attaching, then the marked ones, then any (the operator's own order)."""
    requests = cluster.all(AttachRequest)
    if not requests:
        return
    request = requests[a % len(requests)]
    made = [one for one in cluster.all(FabricResource) if one.request == request.name and not one.deleting]
    size = 0 if request.deleting else request.size
    if len(made) < size:
        name = f"{request.name}-{cluster.number()}"
        fields: dict[str, Any] = {"type": request.type, "model": request.model, "node": request.node}
        cluster.put(FabricResource(name, name, request.name, cluster.now, state="Attaching", **fields))
        cluster.update(request, state="Updating", acted_size=request.size)
    elif len(made) > size:
        made.sort(key=lambda one: (one.state == "Online", not one.marked, one.uid))
        cluster.update(made[0], deleting=True)
        cluster.update(request, state="Updating", acted_size=request.size)
    elif request.deleting:
        cluster.drop(request)
    else:
        done = all(one.state == "Online" for one in made)
        cluster.update(request, state="Running" if done else "Updating", acted_size=request.size)


def attach(cluster: Cluster, a: int, b: int, c: int) -> None:
    """One step for one resource on its way: the fabric says which device, the vendor lists it, the operator calls it
    Online; or the device leaves, its slice first."""
    moving = [one for one in cluster.all(FabricResource) if one.deleting or one.state != "Online"]
    if not moving:
        return
    one = moving[a % len(moving)]
    if one.deleting:
        if one.state != "Detaching":
            cluster.update(one, state="Detaching")
        else:
            unplug(cluster, one.node, one.uuid or "none")
            cluster.drop(one)
    elif b == 7:
        cluster.update(one, error="the fabric has no such device")
    elif not one.uuid:
        cluster.update(one, uuid=f"GPU-{one.name}", error="")
    else:
        model = next((m for m in MODELS if m.model == one.model), None)
        if model is not None:
            plug(cluster, one.node, f"gpu-{one.name}", one.uuid, model)
        cluster.update(one, state="Online", error="")


# --- the writer --------------------------------------------------------------------------------------------------------


def carry_out(cluster: Cluster, decision: e.Decision) -> None:
    """What the adapter would write; nothing when the object is gone or is not as it was when this was decided."""
    match decision:
        case e.AttachOrdered(request=name, uid=uid):
            known = cluster.get(AttachRequest, uid) if uid else cluster.named(AttachRequest, name)
            if known is not None and uid and not known.deleting:
                cluster.update(known, size=max(known.size, decision.size))
            elif known is None and not uid and decision.size:
                fields: dict[str, Any] = {"type": decision.type, "model": decision.model, "node": decision.node}
                labels = {OWNER_LABEL: OWNER}
                uid = f"request-{cluster.number()}"
                cluster.put(AttachRequest(uid, name, "", labels, cluster.now, size=decision.size, **fields))
        case e.DetachOrdered(uid=uid, size=size, previous=previous):
            known = cluster.get(AttachRequest, uid)
            if known is not None and known.size == previous:
                cluster.update(known, size=size)
        case e.NodeLabelled(node=name, labels=changed):
            node = cluster.named(Node, name)
            if node is not None:
                merged = {**node.labels, **changed}
                cluster.update(node, labels={k: v for k, v in merged.items() if v})
        case e.HandOver(signals=signals):
            for signal in signals:
                _apply(cluster, signal)
        case e.FailureSignalled(signal=signal):
            _apply(cluster, signal)
        case e.Steered(pod=uid, node=name, claims=claims):
            pod = cluster.get(Pod, uid)
            if pod is not None and not pod.node:
                cluster.update(pod, nominated=name)
                for one in (cluster.get(Claim, claim) for claim in claims):
                    if one is not None and not one.consumers:
                        cluster.update(one, allocation=None, conditions=())
        case e.VictimMarked(resource=uid) | e.VictimUnmarked(resource=uid):
            resource = cluster.get(FabricResource, uid)
            if resource is not None:
                cluster.update(resource, marked=isinstance(decision, e.VictimMarked))
        case e.ExchangeBegun() | e.HoldBegun():
            cluster.guarded |= set(decision.guarded if isinstance(decision, e.ExchangeBegun) else decision.devices)
        case e.GuardLifted(devices=keys):
            cluster.guarded -= set(keys)
        case e.AllocationCleared(claim=uid):
            claim = cluster.get(Claim, uid)
            if claim is not None and claim.allocation is not None:
                cluster.update(claim, allocation=None, consumers=(), conditions=())
        case e.DevicesGiven(claim=uid, node=name, swap=swap):
            claim = cluster.get(Claim, uid)
            if claim is not None and claim.allocation is None:
                given = Allocation(swap.results, name, timestamp=swap.timestamp)
                cluster.update(claim, allocation=given, consumers=swap.consumers)
        case e.DeviceHeld(resource=uid, node=name, devices=keys):
            if cluster.get(FabricResource, uid) is not None and cluster.get(Claim, f"hold-{uid}") is None:
                held = Allocation(tuple(Result("device", *key) for key in keys), name)
                hold = Claim(f"hold-{uid}", "dds", decision.hold, cluster.now, requests=(asks("device", "gpu"),))
                cluster.put(replace(hold, allocation=held, hold=uid))
        case e.HoldEnded(resource=uid, devices=keys):
            cluster.guarded -= set(keys)
            cluster.drop(cluster.get(Claim, f"hold-{uid}"))
        case _:
            pass


def _apply(cluster: Cluster, signal: e.Signal) -> None:
    claim = cluster.get(Claim, signal.claim)
    if claim is None or claim.allocation is None:
        return
    keys = {one.key for one in claim.allocation.results}
    if all((one.driver, one.pool, one.device) in keys for one in signal.entries):
        told = tuple(
            Condition(one.driver, one.pool, one.device, one.condition, "True", one.share, one.reason)
            for one in signal.entries
        )
        cluster.update(claim, conditions=told)


ACTORS: dict[str, Callable[[Cluster, int, int, int], None]] = {
    "submit": submit,
    "schedule": schedule,
    "operate": operate,
    "attach": attach,
    "finish": finish,
}


def act(cluster: Cluster, move: Move) -> None:
    ACTORS[move.verb](cluster, move.a, move.b, move.c)
