"""The node lifecycle controller: it taints nodes by their Ready condition, evicts pods from tainted nodes, and deletes the pods
of deleted nodes.

Heartbeats are not simulated: the lab calls `silent` and `heard` instead. Source: pkg/controller/nodelifecycle, tainteviction and
podgc.
"""

from collections.abc import Callable, Mapping
from random import Random

from dds_lab.actors.objects import covers, ready_condition
from dds_lab.client import ApiError, Client, Object, instants
from dds_lab.latency import Latency, Uniform
from dds_lab.scenario.parts import ControllersPart
from dds_lab.time import Time, Timers

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
RETRY = 1.0
REACTION = Uniform(0.005, 0.03)
"""Seconds from a condition to its taint."""


class NodeLifecycle:
    def __init__(self, client: Client, time: Time, settings: ControllersPart, reaction: Latency = REACTION) -> None:
        self._client = client
        self._time = time
        self._settings = settings
        self._orphaned = settings.orphaned.latency()
        self._reaction = reaction
        self._random: Random = time.random("nodes")
        self._timers = Timers(time)  # by purpose and name, such as taints/NODE

    def start(self) -> None:
        self._nodes = self._client.mirror("nodes")
        self._bound = self._client.mirror("pods")
        self._nodes.follow(self._changed)
        self._bound.follow(self._pod_changed)

    def stop(self) -> None:
        self._nodes.close()
        self._bound.close()
        self._timers.clear()

    def join(self, node: str, provider_id: str, amounts: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """The kubelet of a server that was powered on registers its Node. If the Node exists, its heartbeats resume."""
        if self._nodes.get(node) is not None:
            self.heard(node)
            return
        words = ("KubeletReady", "kubelet is posting ready status")
        ready = ready_condition("True", *words, instants.written(self._time.now()))
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node, **labels}},
            "spec": {"providerID": provider_id},
            "status": {"capacity": {**amounts}, "allocatable": {**amounts}, "conditions": [ready]},
        }
        try:
            self._client.create("nodes", made)
        except ApiError:
            self._timers.after(f"join/{node}", RETRY, lambda: self.join(node, provider_id, amounts, labels))

    def silent(self, node: str) -> None:
        """The node's heartbeats stop."""
        self._timers.after(f"silent/{node}", self._settings.silent, lambda: self._ready(node, "Unknown"))

    def heard(self, node: str) -> None:
        """The node's heartbeats resume."""
        self._timers.cancel(f"silent/{node}")
        self._ready(node, "True")

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._node_gone(old["metadata"]["name"])
            return
        name = new["metadata"]["name"]
        if old is None or _condition(old) != _condition(new) or _taints(old) != _taints(new):
            self._timers.cancel(f"gone/{name}")
            wait = self._reaction.draw(self._random)
            self._timers.after(f"taints/{name}", wait, lambda: self._taint(name))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Handle a pod that was just bound to a deleted node, or to a node with a NoExecute taint."""
        name = new["spec"].get("nodeName") if new is not None else None
        if not name or (old is not None and old["spec"].get("nodeName")):
            return
        node = self._nodes.get(name)
        if node is None:
            if f"gone/{name}" not in self._timers:
                self._node_gone(name)
        elif any(one["effect"] == "NoExecute" for one in _taints(node)):
            self._evict(name)

    def _node_gone(self, name: str) -> None:
        for what in ("taints", "silent"):
            self._timers.cancel(f"{what}/{name}")
        self._timers.after(f"gone/{name}", self._orphaned.draw(self._random), lambda: self._collect(name))

    def _taint(self, name: str) -> None:
        """Set the taints that the node's Ready condition asks for, and evict the pods that do not tolerate them."""
        node = self._nodes.get(name)
        if node is None:
            return
        ready = _condition(node)
        key = {"True": "", "": NOT_READY, "False": NOT_READY, "Unknown": UNREACHABLE}[ready]
        others = [one for one in _taints(node) if one["key"] not in (NOT_READY, UNREACHABLE)]
        added = {(one["key"], one["effect"]): one.get("timeAdded") for one in _taints(node)}
        now = instants.written(self._time.now())
        wanted = [
            {"key": key, "effect": effect, "timeAdded": added.get((key, effect)) or now}
            for effect in (("NoSchedule", "NoExecute") if ready else ("NoSchedule",))
            if key
        ]
        if _named([*others, *wanted]) == _named(_taints(node)):
            self._evict(name)
            return
        # As PatchNodeTaints of the real controller: the list is replaced, so a change in between is a conflict.
        taints, version = [*others, *wanted], node["metadata"]["resourceVersion"]
        try:
            self._client.patch(
                "nodes", name, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
            )
        except ApiError:
            self._timers.after(f"taints/{name}", RETRY, lambda: self._taint(name))

    def _evict(self, name: str) -> None:
        """Plan the deletion of pods that do not tolerate a NoExecute taint of the node, or tolerate it only for a time."""
        node = self._nodes.get(name)
        taints = [one for one in _taints(node) if one["effect"] == "NoExecute"] if node is not None else []
        for pod in self._pods(name, lambda: self._evict(name)) if taints else ():
            left = _seconds_left(pod, taints, self._time.now())
            if left is not None:
                key = f"evict/{name}/{pod['metadata']['uid']}"
                self._timers.after(key, left, self._deletion(pod, name))

    def _deletion(self, pod: Object, node: str) -> Callable[[], None]:
        """A callback that deletes the pod if the node is still tainted."""

        def delete() -> None:
            found = self._nodes.get(node)
            if found is not None and any(one["effect"] == "NoExecute" for one in _taints(found)):
                self._delete(pod, None)

        return delete

    def _collect(self, name: str) -> None:
        """The node is gone: delete its pods with grace 0, since no kubelet is left to end them."""
        if self._nodes.get(name) is None:
            for pod in self._pods(name, lambda: self._collect(name)):
                self._delete(pod, 0)

    def _pods(self, node: str, again: Callable[[], None]) -> list[Object]:
        """The pods of the node. If the API call fails: none, and `again` is called later."""
        try:
            return self._client.list("pods", fields=f"spec.nodeName={node}")
        except ApiError:
            self._timers.after(f"pods/{node}", RETRY, again)
            return []

    def _delete(self, pod: Object, grace: int | None) -> None:
        metadata = pod["metadata"]
        try:
            self._client.delete("pods", metadata["name"], metadata["namespace"], uid=metadata["uid"], grace=grace)
        except ApiError as error:
            if error.code not in (404, 409):
                self._timers.after(f"delete/{metadata['uid']}", RETRY, lambda: self._delete(pod, grace))

    def _ready(self, name: str, status: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        known = (node.get("status") or {}).get("conditions") or []
        words = {"True": ("KubeletReady", "kubelet is posting ready status")}
        reason, message = words.get(status, ("NodeStatusUnknown", "Kubelet stopped posting node status."))
        condition = ready_condition(status, reason, message, instants.written(self._time.now()))
        conditions = [*(one for one in known if one["type"] != "Ready"), condition]
        try:
            self._client.patch("nodes", name, {"status": {"conditions": conditions}}, subresource="status")
        except ApiError:
            self._timers.after(f"silent/{name}", RETRY, lambda: self._ready(name, status))


def _condition(node: Object) -> str:
    """The status of the Ready condition, "" if the node never had one: it gets no new pods, and keeps those that it has."""
    for one in (node.get("status") or {}).get("conditions") or ():
        if one["type"] == "Ready":
            found: str = one["status"]
            return found
    return ""


def _taints(node: Object) -> list[Object]:
    found: list[Object] = node["spec"].get("taints") or []
    return found


def _named(taints: list[Object]) -> list[tuple[str, str, str]]:
    return sorted((one["key"], one["effect"], one.get("value", "")) for one in taints)


def _seconds_left(pod: Object, taints: list[Object], now: int) -> float | None:
    """The seconds that the pod may stay, None for no limit."""
    found: list[float] = []
    for taint in taints:
        fitting = [one for one in pod["spec"].get("tolerations") or () if covers(one, taint)]
        limits = [one["tolerationSeconds"] for one in fitting if one.get("tolerationSeconds") is not None]
        if fitting and not limits:
            continue
        added = instants.read(taint["timeAdded"]) if taint.get("timeAdded") else now
        found.append(max(0.0, min(limits, default=0) - (now - added) / 1_000_000))
    return min(found, default=None)
