"""The scheduler's cache of the cluster, read from mirrors, and the changes that it reports to the queue.

This module never writes. It does not look into bindings: the scheduler tells it which pods are being bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from dds_lab.actors.objects import allocation_of, tolerates, version_of
from dds_lab.actors.scheduler.claim_cache import Book, ClaimCache, ExtendedResources
from dds_lab.actors.scheduler.dynamic_resources import Inventory, missing_claim
from dds_lab.actors.scheduler.feasibility import REQUIRED, UNSCHEDULABLE_TAINT, fits, node_selects, tolerates_all
from dds_lab.actors.scheduler.finding import Nominations
from dds_lab.actors.scheduler.node_cache import Node, NodeCache
from dds_lab.actors.scheduler.pods import Object, Pod, read
from dds_lab.actors.scheduler.queue import SchedulingQueue
from dds_lab.actors.scheduler.scheduler_settings import SchedulerSettings
from dds_lab.client import ApiError, Client, Mirror, OnChange

# -- the queueing hints of kube-scheduler 1.36: a pod is tried again when a plugin that refused it says that the change may help
# Source: EventsToRegister and the hint functions of each plugin.

DEVICES = "DynamicResources"


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """A slice, class or taint rule was added or changed, or a claim was deallocated: may help every pod that lacks devices."""

    claim: None = None

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin == DEVICES


@dataclass(frozen=True, slots=True)
class ClaimChanged:
    """A claim was added, or changed its status without being deallocated: may help its own pods."""

    claim: str

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin == DEVICES


@dataclass(frozen=True, slots=True)
class PodGone:
    """A bound or assumed pod left its node."""

    pod: Pod
    claim: None = None

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin in ("NodeResourcesFit", "NodePorts", "InterPodAffinity") and pod.uid != self.pod.uid


@dataclass(frozen=True, slots=True)
class PodPlaced:
    """A pod was placed on a node."""

    pod: Pod
    claim: None = None

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin == "InterPodAffinity" and bool((pod.affinity.get("podAffinity") or {}).get(REQUIRED))


@dataclass(frozen=True, slots=True, eq=False)
class NodeChanged:
    """A node was added or changed. `node` has no pods here, so the hints judge what it could take if it were empty."""

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
    """The change of a node, None if scheduling does not depend on it."""
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
    """Whether the pod's own change may make it schedulable: of its claims, labels, shape, requests or gates."""
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
    return node_selects(required, node.name, node.labels) and all(
        node.labels.get(key) == value for key, value in selector.items()
    )


class ClusterCache:
    """`binds(uid)`: whether the pod is being bound. `left(uid)`: called when a pod is gone. `panics`: called when the simulated
    release would crash."""

    def __init__(
        self,
        client: Client,
        settings: SchedulerSettings,
        random: Random,
        binds: Callable[[str], bool],
        left: Callable[[str], None],
        panics: Callable[[], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._binds = binds
        self._left = left
        self._panics = panics
        self._mirrors: list[Mirror] = []
        self._feared: set[str] = set()
        self._open = False
        self.nodes = NodeCache()
        self.nominations = Nominations()
        self.inventory = Inventory(settings.matching, random)
        self.extended = ExtendedResources()
        self.claims = ClaimCache(Book(self.inventory.use, self.inventory.free))
        self.pods: dict[str, Pod] = {}
        self._queue: SchedulingQueue

    def open(self, queue: SchedulingQueue) -> None:
        """List and watch everything."""
        self._queue = queue
        followed = {
            "nodes": self._node,
            "deviceclasses": self._class,
            "resourceslices": self._slice,
            "resourceclaims": self._claim,
            "pods": self._pod,
        }
        if self._settings.follows_taint_rules and self._serves("devicetaintrules"):
            self._follow("devicetaintrules", self._fear if self._settings.fears_taint_rules else self._rule)
        for resource, told in followed.items():
            self._follow(resource, told)
        self._open = True

    def close(self) -> None:
        for mirror in self._mirrors:
            mirror.close()

    def cut(self, seconds: float) -> None:
        for mirror in self._mirrors:
            mirror.cut(seconds)

    def gate(self, pod: Pod) -> str:
        """Why the pod may not be tried yet, "" if it may."""
        return "the pod has scheduling gates" if pod.gated else missing_claim(pod, self.claims)

    def wrote(self, obj: Object) -> None:
        """The scheduler's own write of a pod, whose result it knows before its mirror reports it."""
        known = self.pods.get(obj["metadata"]["uid"])
        if known is not None and version_of(obj) > version_of(known.obj):
            self._keep(known, read(obj, known))

    def leave(self, pod: Pod) -> None:
        """Take an assumed pod off its node."""
        known = self.pods.get(pod.uid)
        if known is None or not known.node:
            self.nodes.remove_pod(pod.uid)
            self._queue.happened(PodGone(pod))

    def _serves(self, resource: str) -> bool:
        try:
            self._client.resource(resource)
        except ApiError:
            return False
        return True

    def _follow(self, resource: str, told: OnChange) -> None:
        mirror = self._client.mirror(resource, self._settings.latencies.seen)
        self._mirrors.append(mirror)
        mirror.follow(told)

    def _node(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.nodes.put(new)
            change = of_node(old, new)
            if change is not None:
                self._queue.happened(change)
        elif old is not None:
            self.nodes.drop(old["metadata"]["name"])

    def _class(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.inventory.put_class(new)
            self.extended.put(new)
            self._queue.happened(DevicesChanged())
        elif old is not None:
            self.inventory.drop_class(old["metadata"]["name"])
            self.extended.drop(old["metadata"]["name"])

    def _slice(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            if self._feared and self._open:
                self._panics()
            if old is not None and old["spec"] == new["spec"]:
                return
            self.inventory.put_slice(new)
            self._queue.happened(DevicesChanged())
        elif old is not None:
            self.inventory.drop_slice(old)

    def _rule(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.inventory.put_rule(new)
            self._queue.happened(DevicesChanged())
        elif old is not None:
            self.inventory.drop_rule(old["metadata"]["name"])

    def _fear(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is not None:
            self._feared.add(name)
        else:
            self._feared.discard(name)

    def _claim(self, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        self.claims.seen(key, new)
        if new is None:
            self.inventory.forget(meta["uid"])
        elif old is not None and allocation_of(old) is not None and allocation_of(new) is None:
            self._queue.happened(DevicesChanged())
        elif old is None or (old.get("status") or {}) != (new.get("status") or {}):
            self._queue.happened(ClaimChanged(key))

    def _pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old["metadata"]["uid"])
            return
        known = self.pods.get(new["metadata"]["uid"])
        if known is not None and version_of(known.obj) >= version_of(new):
            return
        pod = read(new, known)
        if pod.ended:
            self._gone(pod.uid)
        elif pod.node or pod.scheduler in self._settings.profiles:
            self._keep(known, pod)

    def _keep(self, known: Pod | None, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        if pod.node:
            self._placed(known, pod)
        elif not self._binds(pod.uid):
            self.nominations.put(pod, pod.nominated)
            if known is None:
                self._queue.add(pod)
            else:
                self._queue.update(pod, pod_itself(known, pod))

    def _placed(self, known: Pod | None, pod: Pod) -> None:
        if known is None or not known.node:
            self._queue.remove(pod.uid)
            self.nominations.drop(pod.uid)
            self.nodes.add_pod(pod, pod.node)
            self._queue.happened(PodPlaced(pod))
        elif known.requests != pod.requests or known.labels != pod.labels or known.deleting != pod.deleting:
            self.nodes.add_pod(pod, pod.node)

    def _gone(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        self._queue.remove(uid)
        self.nominations.drop(uid)
        self._left(uid)
        if not self._binds(uid) or pod.node:
            self.nodes.remove_pod(uid)
            if pod.node:
                self._queue.happened(PodGone(pod))
