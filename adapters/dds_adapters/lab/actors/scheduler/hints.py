"""What changes in the cluster may help which waiting pods: the queueing hints of kube-scheduler 1.36.

A pod is tried again when one of the plugins that refused it says that the change may help. Source: EventsToRegister and the
hint functions of each plugin.
"""

from __future__ import annotations

from dataclasses import dataclass

from dds_adapters.lab.actors.scheduler import labels
from dds_adapters.lab.actors.scheduler.feasibility import REQUIRED, UNSCHEDULABLE_TAINT, fits, tolerates_all
from dds_adapters.lab.actors.scheduler.nodes import Node
from dds_adapters.lab.actors.scheduler.pods import Object, Pod, tolerates

DEVICES = "DynamicResources"


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """A slice, class or taint rule came or changed, or a claim gave its devices back: it may help whoever lacks devices."""

    claim: None = None

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin == DEVICES


@dataclass(frozen=True, slots=True)
class ClaimChanged:
    """A claim came, or its status changed, and it gave nothing back: it may help its own pods."""

    claim: str

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin == DEVICES


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod left its node, bound or assumed."""

    pod: Pod
    claim: None = None

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin in ("NodeResourcesFit", "NodePorts", "InterPodAffinity") and pod.uid != self.pod.uid


@dataclass(frozen=True, slots=True)
class PodPlaced:
    """A pod came onto a node, or its labels there changed."""

    pod: Pod
    claim: None = None

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin == "InterPodAffinity" and bool((pod.affinity.get("podAffinity") or {}).get(REQUIRED))


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanged:
    """A node came or changed; `node` has no pods on it, so that what it could take at all is judged."""

    node: Node
    added: bool
    labels: bool
    taints: bool
    room: bool
    claim: None = None

    def helps(self, pod: Pod, plugin: str) -> bool:
        node = self.node
        match plugin:
            case "DynamicResources":
                return self.added or self.labels or self.room
            case "NodeAffinity" | "NodeName":
                return (self.added or self.labels) and _selected(pod, node)
            case "NodeUnschedulable":
                free = not node.unschedulable or tolerates(pod.tolerations, UNSCHEDULABLE_TAINT)
                return (self.added or self.taints) and free
            case "TaintToleration":
                return (self.added or self.taints) and tolerates_all(pod, node.taints)
            case "NodeResourcesFit":
                return (self.added or self.room) and fits(pod, node) is None
            case "InterPodAffinity":
                return self.added or self.labels
            case "NodePorts":
                return self.added
            case _:
                return False


def of_node(old: Object | None, new: Object) -> NodeChanged | None:
    """The change of a node, None when it is nothing that scheduling depends on."""
    was, now = _bare(old) if old is not None else Node(""), _bare(new)
    change = NodeChanged(
        now,
        added=old is None,
        labels=was.labels != now.labels,
        taints=was.taints != now.taints or was.unschedulable != now.unschedulable,
        room=was.allocatable != now.allocatable,
    )
    return change if change.added or change.labels or change.taints or change.room else None


def pod_itself(old: Pod, new: Pod) -> bool:
    """Whether what changed in the pod may make it schedulable: its generated claims, labels, tolerations, what it asks."""
    return (
        old.claims != new.claims
        or old.labels != new.labels
        or old.shape != new.shape
        or old.requests != new.requests
        or (old.gated and not new.gated)
    )


def _bare(obj: Object) -> Node:
    node = Node(obj["metadata"]["name"])
    node.take(obj)
    return node


def _selected(pod: Pod, node: Node) -> bool:
    required = (pod.affinity.get("nodeAffinity") or {}).get(REQUIRED)
    selector = pod.obj["spec"].get("nodeSelector") or {}
    return labels.node_selects(required, node.name, node.labels) and all(
        node.labels.get(key) == value for key, value in selector.items()
    )
