"""A cluster that anybody may change in any way: the truth that a stream of facts tells about.

A `Move` is a verb and three small numbers, which the verb takes modulo whatever there is: a stream of moves is what
hypothesis generates and shrinks. Verbs here are plausible and implausible alike (a device allocated twice, a resource that
goes from Online to Attaching, a slice of an old generation). Nothing here knows the rules or the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from dds_core.decide.orders import OWNER, OWNER_LABEL, request_name
from dds_core.model import (
    Allocation,
    AttachRequest,
    Claim,
    ClaimRequest,
    Condition,
    Config,
    Consumer,
    Device,
    DeviceClass,
    FabricResource,
    Model,
    Node,
    Observed,
    Pod,
    Requirement,
    Result,
    Slice,
    Taint,
    TaintRule,
    Toleration,
)

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
PREFIX = "cohdi.io"
READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"
NVIDIA, AMD = "gpu.nvidia.com", "gpu.amd.com"

A100 = Model(1, "A100 40G", "nvidia-a100-40", NVIDIA, {"productName": "NVIDIA A100 40GB"})
H100 = Model(2, "H100 80G", "nvidia-h100-80", NVIDIA, {"productName": "NVIDIA H100 80GB"}, conflicts=(3,))
MI300 = Model(3, "MI300X", "amd-mi300x", AMD, {"product": "MI300X"})
MODELS = (A100, H100, MI300)
NODES = ("node0", "node1")
CLAIMS, PODS, RESOURCES, UUIDS = 5, 5, 6, 5

Kind = type[Observed]
Thing = TypeVar("Thing", bound=Observed)


class Move(NamedTuple):
    """One thing that happens."""

    verb: str
    a: int = 0
    b: int = 0
    c: int = 0


class Cluster:
    """The objects by kind and uid; `now` is the instant that new objects carry."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Kind, str], Observed] = {}
        self.now = START
        self.made = 0

    def get(self, kind: type[Thing], uid: str) -> Thing | None:
        of: Any = kind
        found: Any = self.objects.get((of, uid))
        return found  # type: ignore[no-any-return]

    def all(self, kind: type[Thing]) -> list[Thing]:
        found: list[Any] = [one for (k, _), one in self.objects.items() if k is kind]
        return sorted(found, key=lambda one: one.uid)

    def put(self, one: Observed) -> None:
        self.objects[(type(one), one.uid)] = one

    def update(self, one: Observed, **fields: Any) -> None:
        self.put(replace(one, **fields))

    def drop(self, one: Observed | None) -> None:
        if one is not None:
            del self.objects[(type(one), one.uid)]

    def named(self, kind: type[Thing], name: str) -> Thing | None:
        return next((one for one in self.all(kind) if getattr(one, "name", "") == name), None)

    def number(self) -> int:
        self.made += 1
        return self.made

    def do(self, move: Move) -> None:
        """The verb happens, unless there is nothing that it could happen to."""
        VERBS[move.verb](self, move.a, move.b, move.c)


def furnished() -> Cluster:
    """Two nodes of a fabric with a pool of every model, and a ConfigMap."""
    cluster = Cluster()
    cluster.put(Config("config", PREFIX, MODELS, (0,)))
    for node in range(len(NODES)):
        _node(cluster, node, 0, 0)
    for model in range(len(MODELS)):
        _pool(cluster, model, 0, 3)
    for one in range(2):
        _class(cluster, one, 0, 0)
    return cluster


# --- nodes, slices, configuration --------------------------------------------------------------------------------------


def _node(cluster: Cluster, a: int, b: int, c: int) -> None:
    name = NODES[a % len(NODES)]
    labels = {f"{PREFIX}/{model.device}": "true" for model in MODELS}
    cluster.put(Node(f"uid-{name}", name, {f"{PREFIX}/fabric": str(b % 2), **labels}))


def _nodes(change: Callable[[Cluster, Node, int, int], None]) -> Callable[[Cluster, int, int, int], None]:
    def verb(cluster: Cluster, a: int, b: int, c: int) -> None:
        node = cluster.get(Node, f"uid-{NODES[a % len(NODES)]}")
        if node is not None:
            change(cluster, node, b, c)

    return verb


def _relabel(cluster: Cluster, node: Node, b: int, c: int) -> None:
    device = MODELS[b % len(MODELS)].device
    key, values = (
        (f"{PREFIX}/{device}", ("true", "", "false")),
        (f"{PREFIX}/{device}-size-max", ("0", "1", "2", "", "many")),
        (f"{PREFIX}/{device}-size-min", ("0", "1", "2", "", "-1")),
        (f"{PREFIX}/{device}-ready", ("true", "")),
        (f"{PREFIX}/fabric", ("0", "1", "")),
    )[c % 5]
    value = values[(b // len(MODELS) + c // 5) % len(values)]
    labels = {**node.labels, key: value}
    cluster.update(node, labels={k: v for k, v in labels.items() if v})


def _taint_node(cluster: Cluster, node: Node, b: int, c: int) -> None:
    taint = Taint("maintenance", "", ("NoSchedule", "NoExecute", "PreferNoSchedule")[b % 3])
    cluster.update(node, taints=() if node.taints else (taint,))


def _pool(cluster: Cluster, a: int, b: int, c: int) -> None:
    """The pool of model `a` on fabric `b` shows `c` devices, in a new generation."""
    model, fabric = MODELS[a % len(MODELS)], b % 2
    name = f"{model.device}-fabric{fabric}"
    old = cluster.get(Slice, f"pool-{name}")
    reach = (
        Requirement(f"{PREFIX}/{model.device}", "In", ("true",)),
        Requirement(f"{PREFIX}/fabric", "In", (str(fabric),)),
    )
    device = Device({**model.attributes, "uuid": ""}, {"memory": "40Gi"}, (READY,), (RESCHEDULE, FAILED))
    cluster.put(
        Slice(
            f"pool-{name}",
            f"pool-{name}",
            model.driver,
            name,
            old.generation + 1 if old is not None else 1,
            selector=reach,
            devices={f"{model.device}-{i}": device for i in range(c % 5)},
        )
    )


def local_slice(cluster: Cluster, node: str, driver: str) -> Slice:
    uid = f"local-{node}-{driver}"
    return cluster.get(Slice, uid) or Slice(uid, uid, driver, node, 1, 1, node)


def plug(cluster: Cluster, node: str, name: str, uuid: str, model: Model, **fields: Any) -> None:
    """The vendor's driver lists a device of the node."""
    known = local_slice(cluster, node, model.driver)
    device = Device(
        {**model.attributes, "uuid": uuid} if uuid else dict(model.attributes), {"memory": "40Gi"}, **fields
    )
    cluster.update(known, generation=known.generation + 1, devices={**known.devices, name: device})


def unplug(cluster: Cluster, node: str, uuid: str) -> None:
    for known in cluster.all(Slice):
        rest = {name: one for name, one in known.devices.items() if not uuid or one.attributes.get("uuid") != uuid}
        if known.node == node and rest != known.devices:
            cluster.update(known, generation=known.generation + 1, devices=rest)


def _local(cluster: Cluster, a: int, b: int, c: int) -> None:
    """Device `gpu-<b>` of node `a` has UUID `c`, or none, or is shared, or tainted."""
    model = MODELS[(b + c) % len(MODELS)]
    fields: list[dict[str, Any]] = [{}, {}, {}, {"shared": True}, {"taints": (Taint("gone", "", "NoSchedule"),)}]
    plug(
        cluster,
        NODES[a % len(NODES)],
        f"gpu-{b % 3}",
        f"GPU-{c}" if c < UUIDS else "",
        model,
        **fields[(a // 2 + c) % 5],
    )


def _slices(change: Callable[[Cluster, Slice, int, int], None]) -> Callable[[Cluster, int, int, int], None]:
    def verb(cluster: Cluster, a: int, b: int, c: int) -> None:
        slices = cluster.all(Slice)
        if slices:
            change(cluster, slices[a % len(slices)], b, c)

    return verb


def _unlist(cluster: Cluster, one: Slice, b: int, c: int) -> None:
    names = sorted(one.devices)
    if names:
        rest = {name: device for name, device in one.devices.items() if name != names[b % len(names)]}
        cluster.update(one, devices=rest, generation=one.generation + c % 2)


def _second(cluster: Cluster, one: Slice, b: int, c: int) -> None:
    """Another slice of the same pool: of an older, the same or a newer generation."""
    generation = max(0, one.generation + b % 3 - 1)
    devices = one.devices if c % 2 else {}
    cluster.put(replace(one, uid=f"{one.uid}-2", name=f"{one.name}-2", generation=generation, devices=devices))


def _config(cluster: Cluster, a: int, b: int, c: int) -> None:
    models = MODELS[: 1 + b % len(MODELS)]
    cluster.put(Config("config", PREFIX, models, (0,), ("", "observe", "attach", "detach")[c % 4]))


def _class(cluster: Cluster, a: int, b: int, c: int) -> None:
    driver = (NVIDIA, AMD)[a % 2]
    cluster.put(DeviceClass(f"class-{driver}", driver, (f"device.driver == '{driver}'",)))


def _rule(cluster: Cluster, a: int, b: int, c: int) -> None:
    labels = {OWNER_LABEL: OWNER} if c % 2 else {}
    cluster.put(
        TaintRule(f"rule-{a % 2}", f"rule-{a % 2}", NVIDIA, NODES[b % 2], "", Taint("x", "", "NoSchedule"), labels)
    )


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
            (ClaimRequest("r0", classes, 1 + b % 2),),
        )
    )


def _claims(change: Callable[[Cluster, Claim, int, int], None]) -> Callable[[Cluster, int, int, int], None]:
    def verb(cluster: Cluster, a: int, b: int, c: int) -> None:
        claims = cluster.all(Claim)
        if claims:
            change(cluster, claims[a % len(claims)], b, c)

    return verb


def pool_result(model: Model, place: int, number: int, fabric: int = 0) -> Result:
    pool = f"{model.device}-fabric{fabric}"
    name = f"{model.device}-{number}"
    return Result(f"r{place}", model.driver, pool, name, (READY,), (RESCHEDULE, FAILED))


def give(cluster: Cluster, claim: Claim, results: tuple[Result, ...], node: str) -> None:
    consumers = tuple(Consumer(pod.uid, pod.name) for pod in pods_of(cluster, claim)[:1])
    allocation = Allocation(results, node, timestamp=cluster.now // SECOND * SECOND)
    cluster.update(claim, allocation=allocation, consumers=consumers, conditions=())


def pods_of(cluster: Cluster, claim: Claim) -> list[Pod]:
    return [pod for pod in cluster.all(Pod) if claim.name in pod.claims or claim.name == pod.extended_claim]


def _allocate_pool(cluster: Cluster, claim: Claim, b: int, c: int) -> None:
    """From the pool for a node (or no single node), whether or not somebody has the device already."""
    model = MODELS[b % len(MODELS)]
    count = sum(one.count for one in claim.requests)
    other = MODELS[(b + 1) % len(MODELS)] if b % 5 == 4 else model
    results = tuple(pool_result(model if i == 0 else other, i, (c + i) % 4) for i in range(count))
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
    share = replace(pool_result(A100, 0, c % 3), share=f"s{b}", consumed={"memory": "10Gi"})
    results = (
        (pool_result(A100, 0, b % 3), local),
        (share, replace(share, request="r1", share=f"t{b}")),
        (Result("r0", "fpga.example.com", node, "fpga-0"),),
        (pool_result(A100, 0, 0), pool_result(A100, 1, 0)),
        (pool_result(A100, 0, 0), pool_result(MI300, 1, 0)),
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
            scheduler=("default", "other")[c // 4],
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

Verb = Callable[[Cluster, int, int, int], None]

VERBS: dict[str, Verb] = {
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
    "node": _node,
    "node gone": _nodes(lambda cluster, one, b, c: cluster.drop(one)),
    "cordon": _nodes(lambda cluster, one, b, c: cluster.update(one, unschedulable=not one.unschedulable)),
    "taint node": _nodes(_taint_node),
    "relabel": _nodes(_relabel),
    "pool": _pool,
    "local device": _local,
    "unlist device": _slices(_unlist),
    "second slice": _slices(_second),
    "incomplete": _slices(lambda cluster, one, b, c: cluster.update(one, slices=1 + b % 2)),
    "slice gone": _slices(lambda cluster, one, b, c: cluster.drop(one)),
    "config": _config,
    "config gone": lambda cluster, a, b, c: cluster.drop(cluster.get(Config, "config")),
    "rule": _rule,
    "rule gone": lambda cluster, a, b, c: cluster.drop(cluster.get(TaintRule, f"rule-{a % 2}")),
    "class": _class,
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
    "move resource": _resources(lambda cluster, one, b, c: cluster.update(one, node=NODES[b % 2])),
    "delete resource": _resources(lambda cluster, one, b, c: cluster.update(one, deleting=True)),
    "resource gone": _resources(lambda cluster, one, b, c: cluster.drop(one)),
}
