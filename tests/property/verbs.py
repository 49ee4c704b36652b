"""All that may happen to a cluster, plausible and implausible alike: a device allocated twice, a resource that goes from
Online to Attaching, a slice of an old generation."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dds_core.model import (
    OWNER,
    OWNER_LABEL,
    Allocation,
    AttachRequest,
    Claim,
    Condition,
    Consumer,
    FabricResource,
    Model,
    Pod,
    Result,
    Slice,
    Toleration,
    request_name,
)
from tests.property import places
from tests.property.cluster import (
    A100,
    AMD,
    CLAIMS,
    FAILED,
    MI300,
    MODELS,
    NODES,
    NVIDIA,
    PODS,
    READY,
    RESCHEDULE,
    RESOURCES,
    SECOND,
    START,
    UUIDS,
    Cluster,
    Move,
    Verb,
)
from tests.support.world import asks

# --- claims and pods ---------------------------------------------------------------------------------------------------


def _claim(cluster: Cluster, a: int, b: int, c: int) -> None:
    """Claim `a` is made (again, under another uid, when it was deleted): `b` devices, and some are special."""
    a %= CLAIMS
    if any(one.name == f"claim{a}" for one in cluster.all(Claim)):
        return
    extended = a == CLAIMS - 1
    owner = f"pod{b % PODS}" if extended or c % 2 else ""
    classes = (NVIDIA,) if c % 3 else (AMD, NVIDIA)
    cluster.put(
        Claim(
            f"claim{a}-{cluster.number()}",
            "default",
            f"claim{a}",
            START + (c % 3) * SECOND,
            False,
            extended,
            owner,
            (asks("r0", *classes, count=1 + b % 2),),
        )
    )


def _claims(change: Callable[[Cluster, Claim, int, int], None]) -> Callable[[Cluster, int, int, int], None]:
    def verb(cluster: Cluster, a: int, b: int, c: int) -> None:
        claims = cluster.all(Claim)
        if claims:
            change(cluster, claims[a % len(claims)], b, c)

    return verb


def pool_result(model: Model, number: int, fabric: int = 0) -> Result:
    pool = f"{model.device}-fabric{fabric}"
    name = f"{model.device}-{number}"
    return Result("r0", model.driver, pool, name, (READY,), (RESCHEDULE, FAILED))


def give(cluster: Cluster, claim: Claim, results: tuple[Result, ...], node: str) -> None:
    consumers = tuple(Consumer(pod.uid, pod.name) for pod in pods_of(cluster, claim)[:1])
    if len(claim.requests[0].alternatives) > 1:
        results = tuple(replace(one, request=f"r0/{one.driver}") for one in results)
    allocation = Allocation(results, node, timestamp=cluster.now // SECOND * SECOND)
    cluster.update(claim, allocation=allocation, consumers=consumers, conditions=(), protected=True)


def wanted_by(claim: Claim) -> int:
    return sum(request.alternatives[0].count for request in claim.requests)


def pods_of(cluster: Cluster, claim: Claim) -> list[Pod]:
    return [pod for pod in cluster.all(Pod) if claim.name in pod.claims or claim.name == pod.extended_claim]


def _allocate_pool(cluster: Cluster, claim: Claim, b: int, c: int) -> None:
    """From the pool for a node (or no single node), whether or not somebody has the device already."""
    model = MODELS[b % len(MODELS)]
    count = wanted_by(claim)
    other = MODELS[(b + 1) % len(MODELS)] if b % 5 == 4 else model
    results = tuple(pool_result(model if i == 0 else other, (c + i) % 4) for i in range(count))
    give(cluster, claim, results, (*NODES, "")[(b // 3 + c // 4) % 3])


def _allocate_local(cluster: Cluster, claim: Claim, b: int, c: int) -> None:
    here = [one for one in cluster.all(Slice) if one.node and one.devices]
    if here:
        one = here[b % len(here)]
        name = sorted(one.devices)[c % len(one.devices)]
        shared = one.devices[name].shared
        result = Result("r0", one.driver, one.pool, name, admin=c == 7 and b == 7)
        if shared:
            result = replace(result, share=f"share-{claim.uid}", consumed={"memory": f"{10 * (1 + b % 3)}Gi"})
        give(cluster, claim, (result,), one.node)


def _allocate_odd(cluster: Cluster, claim: Claim, b: int, c: int) -> None:
    """Pool and local devices together, shares of a pool device, a driver that is none of ours, or the same device twice."""
    node = NODES[c % 2]
    local = Result("r1", NVIDIA, node, f"gpu-{c % 3}")
    share = replace(pool_result(A100, c % 3), share=f"s{b}", consumed={"memory": "10Gi"})
    results = (
        (pool_result(A100, b % 3), local),
        (share, replace(share, request="r1", share=f"t{b}")),
        (Result("r0", "fpga.example.com", node, "fpga-0"),),
        (pool_result(A100, 0), pool_result(A100, 0)),
        (pool_result(A100, 0), pool_result(MI300, 0)),
    )[b % 5]
    give(cluster, claim, results, node)


def _condition(cluster: Cluster, claim: Claim, b: int, c: int) -> None:
    results = claim.allocation.results if claim.allocation is not None else ()
    if results:
        one = results[c % len(results)]
        type = (READY, RESCHEDULE, FAILED, "Other")[b % 4]
        told = Condition(one.driver, one.pool, one.device, type, "False" if b >= 6 else "True", one.share)
        cluster.update(claim, conditions=(*[k for k in claim.conditions if k.type != type], told))


def _consumers(cluster: Cluster, claim: Claim, b: int, c: int) -> None:
    pods = pods_of(cluster, claim) or cluster.all(Pod)
    if claim.allocation is not None and pods:
        pod = pods[b % len(pods)]
        cluster.update(claim, consumers=() if claim.consumers else (Consumer(pod.uid, pod.name),))


def _pod(cluster: Cluster, a: int, b: int, c: int) -> None:
    """Pod `a` refers to one or two claims, some shared with other pods."""
    a %= PODS
    if any(one.name == f"pod{a}" for one in cluster.all(Pod)):
        return
    names = tuple(f"claim{(b + i) % CLAIMS}" for i in range(1 + c % 2))
    extended = names[1] if c == 3 else ""
    tolerations = (Toleration("maintenance", "Exists"),) if c == 5 else ()
    uid = f"pod{a}" if c % 4 else f"pod{a}-{cluster.number()}"
    cluster.put(
        Pod(
            uid,
            "default",
            f"pod{a}",
            phase="Pending",
            scheduler=("default-scheduler", "other")[c // 4],
            claims=names[:1] if extended else names,
            extended_claim=extended,
            tolerations=tolerations,
        )
    )


def _pods(change: Callable[[Cluster, Pod, int, int], None]) -> Callable[[Cluster, int, int, int], None]:
    def verb(cluster: Cluster, a: int, b: int, c: int) -> None:
        pods = cluster.all(Pod)
        if pods:
            change(cluster, pods[a % len(pods)], b, c)

    return verb


# --- requests and resources --------------------------------------------------------------------------------------------


def _request(cluster: Cluster, a: int, b: int, c: int) -> None:
    """A request on node `a` for model `b`: of our name, as the reference makes it, or of a third party."""
    node, model = NODES[a % 2], MODELS[b % len(MODELS)]
    ours = request_name(node, "gpu", model.model)
    name, generated, labels, policy = (
        (ours, "", {OWNER_LABEL: OWNER}, "samenode"),
        (f"composability-{a % 2}{b % 3}", "composability-", {}, "samenode"),
        (f"theirs-{a % 2}{b % 3}", "", {}, "samenode"),
        (f"apart-{a % 2}{b % 3}", "", {}, "differentnode"),
    )[c % 4]
    if cluster.named(AttachRequest, name) is None:
        cluster.put(
            AttachRequest(
                f"request-{cluster.number()}",
                name,
                generated,
                dict(labels),
                cluster.now,
                type="gpu",
                model=model.model,
                size=1 + c // 4,
                policy=policy,
                node=node,
            )
        )


def _requests(
    change: Callable[[Cluster, AttachRequest, int, int], None],
) -> Callable[[Cluster, int, int, int], None]:
    def verb(cluster: Cluster, a: int, b: int, c: int) -> None:
        requests = cluster.all(AttachRequest)
        if requests:
            change(cluster, requests[a % len(requests)], b, c)

    return verb


def _resource(cluster: Cluster, a: int, b: int, c: int) -> None:
    """Resource `a` is made: for a request, or for none on some node."""
    a %= RESOURCES
    if any(one.name == f"resource{a}" for one in cluster.all(FabricResource)):
        return
    requests = cluster.all(AttachRequest)
    one = requests[b % len(requests)] if requests and c < 6 else None
    model = one.model if one is not None else MODELS[b % len(MODELS)].model
    cluster.put(
        FabricResource(
            f"resource{a}-{cluster.number()}",
            f"resource{a}",
            one.name if one is not None else "",
            cluster.now,
            type="gpu",
            model=model,
            node=one.node if one is not None else NODES[c % 2],
            state="Attaching",
            uuid=f"GPU-{b}" if b < UUIDS else "",
        )
    )


def _resources(
    change: Callable[[Cluster, FabricResource, int, int], None],
) -> Callable[[Cluster, int, int, int], None]:
    def verb(cluster: Cluster, a: int, b: int, c: int) -> None:
        resources = cluster.all(FabricResource)
        if resources:
            change(cluster, resources[a % len(resources)], b, c)

    return verb


STATES = ("", "Attaching", "Online", "Online", "Detaching", "Deleting")

VERBS: dict[str, Verb] = {
    **places.VERBS,
    "claim": _claim,
    "pod": _pod,
    "allocate from the pool": _claims(_allocate_pool),
    "allocate on the node": _claims(_allocate_local),
    "allocate oddly": _claims(_allocate_odd),
    "clear": _claims(lambda cluster, one, b, c: cluster.update(one, allocation=None, consumers=(), conditions=())),
    "condition": _claims(_condition),
    "consumers": _claims(_consumers),
    "delete claim": _claims(lambda cluster, one, b, c: cluster.update(one, deleting=True)),
    "claim gone": _claims(lambda cluster, one, b, c: cluster.drop(one)),
    "bind": _pods(lambda cluster, one, b, c: cluster.update(one, node=NODES[b % 2], nominated="", phase="Running")),
    "nominate": _pods(lambda cluster, one, b, c: cluster.update(one, nominated=(*NODES, "")[b % 3])),
    "binding failed": _pods(
        lambda cluster, one, b, c: cluster.update(one, waiting="" if b > 5 else "SchedulerError", nominated="")
    ),
    "pod ends": _pods(lambda cluster, one, b, c: cluster.update(one, phase=("Succeeded", "Failed", "Running")[b % 3])),
    "delete pod": _pods(lambda cluster, one, b, c: cluster.update(one, deleting=True)),
    "pod gone": _pods(lambda cluster, one, b, c: cluster.drop(one)),
    "request": _request,
    "resize": _requests(lambda cluster, one, b, c: cluster.update(one, size=b % 4)),
    "request state": _requests(
        lambda cluster, one, b, c: cluster.update(
            one, state=("Running", "Updating", "Failed")[b % 3], acted_size=one.size if c else None
        )
    ),
    "delete request": _requests(lambda cluster, one, b, c: cluster.update(one, deleting=True)),
    "request gone": _requests(lambda cluster, one, b, c: cluster.drop(one)),
    "resource": _resource,
    "resource state": _resources(lambda cluster, one, b, c: cluster.update(one, state=STATES[b % len(STATES)])),
    "resource uuid": _resources(lambda cluster, one, b, c: cluster.update(one, uuid=f"GPU-{b}" if b < UUIDS else "")),
    "resource error": _resources(
        lambda cluster, one, b, c: cluster.update(one, error="" if b > 4 else f"fabric says no {b}")
    ),
    "mark": _resources(lambda cluster, one, b, c: cluster.update(one, marked=not one.marked)),
    "delete resource": _resources(lambda cluster, one, b, c: cluster.update(one, deleting=True)),
    "resource gone": _resources(lambda cluster, one, b, c: cluster.drop(one)),
}


def do(cluster: Cluster, move: Move) -> None:
    """The verb happens, unless there is nothing that it could happen to."""
    VERBS[move.verb](cluster, move.a, move.b, move.c)
