"""The cluster as a scheduler sees it through its mirrors, and what it tells the queue of each change.

This module must never write anything, and must never look at a binding from within: it is told by the scheduler which pods are
on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dds_adapters.lab.actors.scheduler import hints
from dds_adapters.lab.actors.scheduler.claims import Claims, allocation_of
from dds_adapters.lab.actors.scheduler.devices import missing_claim
from dds_adapters.lab.actors.scheduler.extended import ExtendedResources
from dds_adapters.lab.actors.scheduler.finding import Nominations
from dds_adapters.lab.actors.scheduler.inventory import Inventory
from dds_adapters.lab.actors.scheduler.nodes import Nodes
from dds_adapters.lab.actors.scheduler.pods import Object, Pod, read
from dds_adapters.lab.actors.scheduler.queue import SchedulingQueue
from dds_adapters.lab.actors.scheduler.settings import SchedulerSettings
from dds_adapters.lab.client import ApiError, Client, Mirror

RESOURCES = ("nodes", "deviceclasses", "resourceslices", "resourceclaims", "pods")


class Cluster:
    """`binds(uid)` says whether a pod is on its way to a node; `left(uid)` is called when a pod is gone."""

    def __init__(
        self,
        client: Client,
        settings: SchedulerSettings,
        random: Random,
        binds: Callable[[str], bool],
        left: Callable[[str], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._binds = binds
        self._left = left
        self._mirrors: list[Mirror] = []
        self.nodes = Nodes()
        self.nominations = Nominations()
        self.inventory = Inventory(settings.gate, random)
        self.extended = ExtendedResources()
        self.claims = Claims(self.inventory.use, self.inventory.free)
        self.pods: dict[str, Pod] = {}
        self._queue: SchedulingQueue

    def open(self, queue: SchedulingQueue) -> None:
        """List everything and follow it from here on."""
        self._queue = queue
        told = {
            "nodes": self._node,
            "deviceclasses": self._class,
            "resourceslices": self._slice,
            "resourceclaims": self._claim,
            "pods": self._pod,
        }
        if self._settings.gate("DRADeviceTaintRules") and self._settings.gate("DRADeviceTaints"):
            self._follow("devicetaintrules", self._rule, served=self._serves("devicetaintrules"))
        for resource in RESOURCES:
            self._follow(resource, told[resource])

    def close(self) -> None:
        for mirror in self._mirrors:
            mirror.close()

    def gate(self, pod: Pod) -> str:
        """Why the pod may not be tried yet, "" when it may."""
        return "the pod has scheduling gates" if pod.gated else missing_claim(pod, self.claims)

    def wrote(self, obj: Object) -> None:
        """The scheduler wrote a pod itself and knows the result before its mirror does."""
        known = self.pods.get(obj["metadata"]["uid"])
        if known is not None and _version(obj) > _version(known.obj):
            self._keep(known, read(obj))

    def leave(self, pod: Pod) -> None:
        """An assumed pod is on no node after all."""
        known = self.pods.get(pod.uid)
        if known is None or not known.node:
            self.nodes.remove_pod(pod.uid)
            self._queue.happened(hints.PodGone(pod))

    # -- following -----------------------------------------------------------------------------------------------

    def _serves(self, resource: str) -> bool:
        try:
            self._client.resource(resource)
        except ApiError:
            return False
        return True

    def _follow(self, resource: str, told: Callable[[Object | None, Object | None], None], served: bool = True) -> None:
        if not served:
            return
        mirror = self._client.mirror(resource, self._settings.latencies.seen)
        self._mirrors.append(mirror)
        for obj in list(mirror.values()):
            told(None, obj)
        mirror.on_change(told)

    def _node(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.nodes.put(new)
            change = hints.of_node(old, new)
            if change is not None:
                self._queue.happened(change)
        elif old is not None:
            self.nodes.drop(old["metadata"]["name"])

    def _class(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.inventory.put_class(new)
            self.extended.put(new)
            self._queue.happened(hints.DevicesChanged())
        elif old is not None:
            self.inventory.drop_class(old["metadata"]["name"])
            self.extended.drop(old["metadata"]["name"])

    def _slice(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            if old is not None and old["spec"] == new["spec"]:
                return
            self.inventory.put_slice(new)
            self._queue.happened(hints.DevicesChanged())
        elif old is not None:
            self.inventory.drop_slice(old)

    def _rule(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.inventory.put_rule(new)
            self._queue.happened(hints.DevicesChanged())
        elif old is not None:
            self.inventory.drop_rule(old["metadata"]["name"])

    def _claim(self, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        self.claims.seen(key, new)
        if new is None:
            self.inventory.forget(meta["uid"])
        elif old is not None and allocation_of(old) is not None and allocation_of(new) is None:
            self._queue.happened(hints.DevicesChanged())
        elif old is None or (old.get("status") or {}) != (new.get("status") or {}):
            self._queue.happened(hints.ClaimChanged(key))

    # -- pods ----------------------------------------------------------------------------------------------------

    def _pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old["metadata"]["uid"])
            return
        known = self.pods.get(new["metadata"]["uid"])
        if known is not None and _version(known.obj) >= _version(new):
            return
        pod = read(new)
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
                self._queue.update(pod, hints.pod_itself(known, pod))

    def _placed(self, known: Pod | None, pod: Pod) -> None:
        if known is None or not known.node:
            self._queue.remove(pod.uid)
            self.nominations.drop(pod.uid)
            self.nodes.add_pod(pod, pod.node)
            self._queue.happened(hints.PodPlaced(pod))
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
                self._queue.happened(hints.PodGone(pod))


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
