"""What happens to nodes, slices and the configuration, and the cluster that every stream begins with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dds_core.model import (
    PUBLISHER,
    Config,
    Device,
    DeviceClass,
    Model,
    Node,
    Requirement,
    Slice,
    Taint,
    TaintRule,
)
from tests.property.cluster import AMD, FAILED, MODELS, NODES, NVIDIA, PREFIX, READY, RESCHEDULE, UUIDS, Cluster, Verb


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
    """The pool of model `a` on fabric `b` shows `c` devices, in a new generation. Some are our publisher's, and of those some are
    closed."""
    model, fabric = MODELS[a % len(MODELS)], b % 2
    owner = PUBLISHER if b // 2 % 4 > 1 else ""
    taints = (Taint(f"{PREFIX}/cooling", "", "NoSchedule"),) if b // 2 % 4 == 3 else ()
    name = f"{model.device}-fabric{fabric}"
    old = cluster.get(Slice, f"pool-{name}")
    reach = (
        Requirement(f"{PREFIX}/{model.device}", "In", ("true",)),
        Requirement(f"{PREFIX}/fabric", "In", (str(fabric),)),
    )
    device = Device({**model.attributes, "uuid": ""}, {"memory": "40Gi"}, (READY,), (RESCHEDULE, FAILED), taints=taints)
    cluster.put(
        Slice(
            f"pool-{name}",
            f"pool-{name}",
            model.driver,
            name,
            old.generation + 1 if old is not None else 1,
            selector=reach,
            devices={f"{model.device}-{i}": device for i in range(c % 5)},
            owner=owner,
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
    cluster.put(TaintRule(f"rule-{a % 2}", f"rule-{a % 2}", NVIDIA, NODES[b % 2], "", Taint("x", "", "NoSchedule")))


VERBS: dict[str, Verb] = {
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
}
