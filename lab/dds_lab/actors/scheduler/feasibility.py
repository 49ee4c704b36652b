"""Filters and scores of nodes, apart from devices, and the message of an attempt that found no node.

The filters are in kube-scheduler's order and use its messages. The scores are those of its default plugins that can differ
between nodes here: least allocated, balanced allocation, preferred node affinity, tolerated taints. Preferred pod affinity is
left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from dds_core.matching.node_selectors import NodeSelector, node_matches
from dds_lab.actors.objects import tolerates
from dds_lab.actors.scheduler.node_cache import Node, NodeCache
from dds_lab.actors.scheduler.pods import Object, Pod
from dds_lab.scenario.parts import Choice

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node refuses a pod. `curable`: removing pods from the node could help."""

    plugin: str
    reasons: tuple[str, ...]
    curable: bool = False


@dataclass(eq=False)
class Diagnosis:
    """Why no node takes a pod: each node's refusal, or the one before any node was checked. Properties are cached, so all
    refusals must be in before the first property is read."""

    nodes: int
    refusals: dict[str, Refusal] = field(default_factory=dict)
    before: Refusal | None = None

    @cached_property
    def _said(self) -> list[tuple[Refusal, int]]:
        """Each refusal and its number of nodes. Many nodes share a refusal, so only this property goes through all nodes."""
        every = self.refusals.values()
        numbers = Counter(map(id, every))
        return [(one, numbers[key]) for key, one in dict(zip(map(id, every), every, strict=True)).items()]

    @cached_property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose hints may bring the pod back into the queue."""
        found = {one.plugin for one, _ in self._said}
        return frozenset(found | {self.before.plugin} if self.before is not None else found)

    @cached_property
    def curable(self) -> tuple[str, ...]:
        """The nodes where removing pods could help."""
        if not any(one.curable for one, _ in self._said):
            return ()
        return tuple(name for name, one in self.refusals.items() if one.curable)

    def message(self, afterwards: str = "") -> str:
        """The message of the condition. `afterwards`: the messages of PostFilter."""
        return f"{self._reasons} {afterwards}" if afterwards else self._reasons

    @cached_property
    def _reasons(self) -> str:
        if self.before is not None:
            return f"0/{self.nodes} nodes are available: {', '.join(self.before.reasons)}."
        numbers: Counter[str] = Counter()
        for one, number in self._said:
            for reason in one.reasons:
                numbers[reason] += number
        return _worded(self.nodes, numbers)

    def preemption(self, tried: Mapping[str, tuple[str, ...]]) -> str:
        """The message of a preemption that found no victims. `tried`: the reasons of the nodes that it tried."""
        if not tried:
            return self._hopeless
        others = [NOT_HELPFUL] * (self.nodes - len(tried))
        return counted(self.nodes, [*(reason for one in tried.values() for reason in one), *others])

    @cached_property
    def _hopeless(self) -> str:
        return _worded(self.nodes, {NOT_HELPFUL: self.nodes} if self.nodes else {})


def counted(nodes: int, reasons: Iterable[str]) -> str:
    """The message with the number of nodes for each reason, sorted by text."""
    return _worded(nodes, Counter(reasons))


def _worded(nodes: int, numbers: Mapping[str, int]) -> str:
    parts = sorted(f"{number} {reason}" for reason, number in numbers.items())
    text = f"0/{nodes} nodes are available"
    return f"{text}: {', '.join(parts)}." if parts else f"{text}."


_UNSCHEDULABLE = Refusal("NodeUnschedulable", ("node(s) were unschedulable",))
_OTHER_NAME = Refusal("NodeName", ("node(s) didn't match the requested node name",))
_TAINTED = Refusal("TaintToleration", ("node(s) had untolerated taint(s)",))
_NOT_SELECTED = Refusal("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
_PORTS = Refusal("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), curable=True)
_TOO_MANY = Refusal("NodeResourcesFit", ("Too many pods",), curable=True)
_NO_AFFINE = Refusal("InterPodAffinity", ("node(s) didn't match pod affinity rules",))
_ANTI_AFFINE = Refusal("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",), curable=True)
_KEPT_AWAY = Refusal("InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",), curable=True)


def static(pod: Pod, node: Node) -> Refusal | None:
    """The filters that depend only on the Node object and the pod's shape."""
    if node.unschedulable and not tolerates(pod.tolerations, UNSCHEDULABLE_TAINT):
        return _UNSCHEDULABLE
    if pod.node and pod.node != node.name:
        return _OTHER_NAME
    if node.taints and not tolerates_all(pod, node.taints):
        return _TAINTED
    selector: Mapping[str, str] = pod.obj["spec"].get("nodeSelector") or {}
    if selector and any(node.labels.get(key) != value for key, value in selector.items()):
        return _NOT_SELECTED
    required = (pod.affinity.get("nodeAffinity") or {}).get(REQUIRED)
    if not node_selects(required, node.name, node.labels):
        return _NOT_SELECTED
    return None


def tolerates_all(pod: Pod, taints: Iterable[Object]) -> bool:
    """Whether the pod tolerates these taints of a node, apart from soft ones."""
    return all(one["effect"] not in ("NoSchedule", "NoExecute") or tolerates(pod.tolerations, one) for one in taints)


def fits(pod: Pod, node: Node, nominated: Iterable[Pod] = (), by_claim: Container[str] = ()) -> Refusal | None:
    """Whether the node has enough left, if the nominated pods were on it already. Resources that devices may serve (`by_claim`)
    count only on nodes that have them in their allocatable."""
    others = list(nominated)
    if pod.ports and _ports_taken(pod, node, others):
        return _PORTS
    if len(node.pods) + len(others) + 1 > node.allocatable.get("pods", 0):
        return _TOO_MANY
    lacking = []
    hopeless = False
    allocatable, used = node.allocatable, node.used
    for name, wanted in pod.requests.items():
        have = allocatable.get(name, 0)
        if not have and name in by_claim:
            continue
        taken = used.get(name, 0)
        if others:
            taken += sum(one.requests.get(name, 0) for one in others)
        if wanted > have - taken:
            lacking.append(f"Insufficient {name}")
            hopeless = hopeless or wanted > have
    return Refusal("NodeResourcesFit", tuple(lacking), curable=not hopeless) if lacking else None


def _ports_taken(pod: Pod, node: Node, others: list[Pod]) -> bool:
    taken = [port for one in (*node.pods.values(), *others) for port in one.ports]
    return any(
        protocol == other and number == same and (ip == there or "0.0.0.0" in (ip, there))
        for ip, protocol, number in pod.ports
        for there, other, same in taken
    )


class Affinity:
    """Required affinity and anti-affinity between pods, evaluated once for each attempt."""

    def __init__(self, pod: Pod, nodes: NodeCache) -> None:
        self.pod = pod
        self._nodes = nodes
        affinity = pod.affinity
        self._near = (affinity.get("podAffinity") or {}).get(REQUIRED) or []
        self._away = (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or []
        self._near_places = [_places(term, pod, nodes) for term in self._near]
        self._away_places = [_places(term, pod, nodes) for term in self._away]
        self._kept_away = _kept_away(pod, nodes)

    def check(self, node: Node) -> Refusal | None:
        if self._near and not self._is_near(node):
            return _NO_AFFINE
        if any(
            node.labels.get(term["topologyKey"]) in places
            for term, places in zip(self._away, self._away_places, strict=True)
        ):
            return _ANTI_AFFINE
        if any(node.labels.get(key) == value for key, value in self._kept_away):
            return _KEPT_AWAY
        return None

    def _is_near(self, node: Node) -> bool:
        if any(term["topologyKey"] not in node.labels for term in self._near):
            return False
        if all(
            node.labels[term["topologyKey"]] in places
            for term, places in zip(self._near, self._near_places, strict=True)
        ):
            return True
        # The first pod of a group with affinity to itself may start the group anywhere.
        return not any(self._near_places) and all(_matches(term, self.pod, self.pod) for term in self._near)


def _places(term: Object, pod: Pod, nodes: NodeCache) -> set[str]:
    """The values of the term's topology key on nodes that have a matching pod."""
    key = term["topologyKey"]
    return {
        node.labels[key]
        for node in nodes
        if key in node.labels and any(_matches(term, pod, other) for other in node.pods.values())
    }


def _kept_away(pod: Pod, nodes: NodeCache) -> set[tuple[str, str]]:
    kept = set()
    for other in nodes.with_required_affinity.values():
        node = nodes.node_of(other.uid)
        for term in (other.affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ():
            key = term["topologyKey"]
            if node is not None and key in node.labels and _matches(term, other, pod):
                kept.add((key, node.labels[key]))
    return kept


def _matches(term: Object, owner: Pod, pod: Pod) -> bool:
    namespaces = term.get("namespaces") or ([] if term.get("namespaceSelector") else [owner.namespace])
    everywhere = term.get("namespaceSelector") == {}
    selector = term.get("labelSelector")
    return (everywhere or pod.namespace in namespaces) and selector is not None and _selects(selector, pod.labels)


def score(pod: Pod, nodes: list[Node], choice: Choice = "least") -> list[int]:
    """The sum of weighted scores for each node."""
    total = [0] * len(nodes) if choice == "random" else [_resources(pod, node, choice == "most") for node in nodes]
    preferred = (pod.affinity.get("nodeAffinity") or {}).get(PREFERRED) or ()
    if preferred:
        raw = [sum(one["weight"] for one in preferred if _prefers(one, node)) for node in nodes]
        total = [sum(pair) for pair in zip(total, _normalized(raw, 2), strict=True)]
    if any(taint["effect"] == "PreferNoSchedule" for node in nodes for taint in node.taints):
        raw = [-_tolerable(pod, node) for node in nodes]
        least = min(raw)
        total = [sum(pair) for pair in zip(total, _normalized([one - least for one in raw], 3), strict=True)]
    return total


def _prefers(term: Object, node: Node) -> bool:
    preference = term.get("preference") or {}
    nothing = not preference.get("matchExpressions") and not preference.get("matchFields")
    return nothing or node_selects({"nodeSelectorTerms": [preference]}, node.name, node.labels)


def _tolerable(pod: Pod, node: Node) -> int:
    """The number of PreferNoSchedule taints that the pod does not tolerate."""
    return sum(1 for one in node.taints if one["effect"] == "PreferNoSchedule" and not tolerates(pod.tolerations, one))


def _normalized(raw: list[int], weight: int) -> list[int]:
    highest = max(raw)
    return [100 * one // highest * weight for one in raw] if highest else [0] * len(raw)


def _resources(pod: Pod, node: Node, most: bool) -> int:
    """Least or most allocated, in whole percent as in kube-scheduler (a node with 64 cores and six small pods is as good as an
    empty one), plus how evenly cpu and memory would be used."""
    cpu, memory = node.allocatable.get("cpu", 0), node.allocatable.get("memory", 0)
    used_cpu, used_memory = node.scored_cpu + pod.scored[0], node.scored_memory + pod.scored[1]
    return _balance(used_cpu, cpu, used_memory, memory, pod.best_effort, most)


@lru_cache(maxsize=65_536)
def _balance(used_cpu: int, cpu: int, used_memory: int, memory: int, best_effort: bool, most: bool) -> int:
    """Cached, since most nodes of a fleet are alike."""
    part = _used if most else _left
    allocated = (part(used_cpu, cpu) + part(used_memory, memory)) // 2
    if best_effort:
        return allocated
    shares = [min(1.0, used / have) for used, have in ((used_cpu, cpu), (used_memory, memory)) if have]
    uneven = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return allocated + int((1 - uneven) * 100)


def _left(used: int, have: int) -> int:
    return (have - used) * 100 // have if have and used <= have else 0


def _used(used: int, have: int) -> int:
    return used * 100 // have if have and used <= have else 0


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; an empty one matches everything."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(one, labels) for one in selector.get("matchExpressions") or ())


def _meets(requirement: Object, labels: Mapping[str, str]) -> bool:
    value, operator = labels.get(requirement["key"]), requirement["operator"]
    values = requirement.get("values") or ()
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value not in values
    return (value is not None) is (operator == "Exists")


def node_selects(selector: Object | None, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one term of a node selector matches. None matches every node."""
    return selector is None or node_matches(NodeSelector.from_object(selector), name, labels)
