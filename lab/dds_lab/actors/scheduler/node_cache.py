"""The scheduler's cache of nodes: what each node has, what its pods use, and the order in which nodes are tried.

Sums are updated as pods come and go. This module never looks at claims or devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dds_core import model
from dds_lab.actors.scheduler.pods import Pod, units
from dds_lab.client import Object

JOURNAL = 2000  # changes that are remembered one by one
ZONE_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Node:
    """One node with the pods on it, bound or assumed."""

    __slots__ = (
        "allocatable",
        "choice",
        "labels",
        "name",
        "obj",
        "place",
        "pods",
        "scored_cpu",
        "scored_memory",
        "taints",
        "unschedulable",
        "used",
        "version",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.obj: Object | None = None
        self.choice = model.Node("", name)  # the node as the allocator sees it
        self.labels: Mapping[str, str] = {}
        self.taints: tuple[Object, ...] = ()
        self.unschedulable = False
        self.allocatable: dict[str, int] = {}
        self.pods: dict[str, Pod] = {}
        self.used: dict[str, int] = {}
        self.scored_cpu = 0
        self.scored_memory = 0
        self.version = 0  # counts changes of the Node object, not of its pods
        self.place = -1  # index in the order of nodes

    def take(self, obj: Object) -> None:
        """Read a new version of the Node object."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        self.obj = obj
        self.labels = obj["metadata"].get("labels") or {}
        self.choice = model.Node("", self.name, self.labels)
        self.taints = tuple(spec.get("taints") or ())
        self.unschedulable = bool(spec.get("unschedulable"))
        amounts = status.get("allocatable") or status.get("capacity") or {}
        self.allocatable = {name: units(name, text) for name, text in amounts.items()}
        self.version += 1

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        for name, value in pod.requests.items():
            self.used[name] = self.used.get(name, 0) + sign * value
        self.scored_cpu += sign * pod.scored[0]
        self.scored_memory += sign * pod.scored[1]


class NodeCache:
    """All nodes, in the order of the scheduler's node tree: zones in turn, within a zone by arrival."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._where: dict[str, str] = {}
        self._order: list[Node] | None = None
        self.changes = 0  # counts changes of nodes and of the pods on them
        self.arrangement = 0  # counts how often the order was built
        self._journal: list[Node] = []
        self.gains = 0  # counts changes that may let a pod fit that did not before
        self.with_required_affinity: dict[str, Pod] = {}  # pods with required anti-affinity

    def __len__(self) -> int:
        return len(self.order())

    def __iter__(self) -> Iterator[Node]:
        return iter(self.order())

    def get(self, name: str) -> Node | None:
        """The node; None also if it is deleted and only its pods are still known."""
        node = self._nodes.get(name)
        return node if node is not None and node.obj is not None else None

    def order(self) -> list[Node]:
        if self._order is None:
            self._order = list(_in_turn(node for node in self._nodes.values() if node.obj is not None))
            self.arrangement += 1
            for place, node in enumerate(self._order):
                node.place = place
        return self._order

    def changed_since(self, changes: int) -> list[Node] | None:
        """The nodes that changed, or whose pods did, since `self.changes` had this value; None if that is too long ago."""
        missed = self.changes - changes
        return None if missed > len(self._journal) else self._journal[len(self._journal) - missed :]

    def put(self, obj: Object) -> None:
        node = self._node(obj["metadata"]["name"])
        moved = node.obj is None or _zone(node.labels) != _zone(obj["metadata"].get("labels") or {})
        if node.obj is None:
            self._nodes[node.name] = self._nodes.pop(node.name)
        node.take(obj)
        if moved:
            self._order = None
        self._changed(node, better=True)

    def drop(self, name: str) -> None:
        """Remove a node. Its pods are remembered until they are removed, too."""
        node = self._node(name)
        node.obj = None
        self._order = None
        self._changed(node, better=True)
        self._forget_if_empty(node)

    def add_pod(self, pod: Pod, name: str) -> None:
        """Add a bound or assumed pod, in place of an earlier version of it."""
        self.remove_pod(pod.uid)
        node = self._node(name)
        node.add(pod)
        self._where[pod.uid] = name
        self._changed(node, better=False)
        if (pod.affinity.get("podAntiAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            self.with_required_affinity[pod.uid] = pod

    def remove_pod(self, uid: str) -> None:
        name = self._where.pop(uid, None)
        if name is not None:
            node = self._nodes[name]
            node.remove(uid)
            self._changed(node, better=True)
            self.with_required_affinity.pop(uid, None)
            self._forget_if_empty(node)

    def node_of(self, uid: str) -> Node | None:
        name = self._where.get(uid)
        return self._nodes[name] if name is not None else None

    def _changed(self, node: Node, better: bool) -> None:
        self.changes += 1
        self.gains += better
        self._journal.append(node)
        if len(self._journal) > 2 * JOURNAL:
            del self._journal[:JOURNAL]

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            self._nodes[name] = Node(name)
        return self._nodes[name]

    def _forget_if_empty(self, node: Node) -> None:
        if node.obj is None and not node.pods:
            self._nodes.pop(node.name, None)


def _zone(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels.get(one, "") for one in ZONE_LABELS)


def _in_turn(nodes: Iterable[Node]) -> Iterator[Node]:
    zones: dict[tuple[str, ...], list[Node]] = {}
    for node in nodes:
        zones.setdefault(_zone(node.labels), []).append(node)
    for place in range(max((len(one) for one in zones.values()), default=0)):
        yield from (one[place] for one in zones.values() if place < len(one))
