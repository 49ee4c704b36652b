"""What users and pipelines do to a cluster: run pods with claims, delete them, cordon, drain, lose nodes, set conditions.

`Workloads` does one action at a time; a scenario, `Arrivals` or `Mix` decides when. An action on an object that is gone counts
as done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from dds_lab.actors.kubelet import RUN_FOR
from dds_lab.actors.objects import condition, node_of, results
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.scenario import scenario as written
from dds_lab.scenario.scenario import Run
from dds_lab.time import MICROSECONDS, Time, Timer

RETRY = 1.0
GONE = (404, 409)


class Workloads:
    """A user of the cluster. `ran`: called at each change of a pod's phase with (namespace, name, phase or "" if it is gone)."""

    def __init__(self, client: Client, time: Time) -> None:
        self._client = client
        self._time = time
        self._delete_after: dict[tuple[str, str], float] = {}
        self._templates: set[tuple[str, str]] = set()
        self._timers: dict[tuple[str, str], Timer] = {}
        self.ran: list[Callable[[str, str, str], None]] = []

    def start(self) -> None:
        self._pods = self._client.mirror("pods")
        self._pods.on_change(self._pod_changed)

    def stop(self) -> None:
        self._pods.close()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def run(self, wanted: Run) -> None:
        """Create the pod and its claim (or template)."""
        if wanted.devices and wanted.template:
            self._templates.add((wanted.namespace, wanted.name))
        if wanted.devices:
            kind = "resourceclaimtemplates" if wanted.template else "resourceclaims"
            self._made(kind, _claim(wanted), wanted.namespace)
        self._made("pods", _pod(wanted), wanted.namespace)
        if wanted.delete_after is not None:
            self._delete_after[(wanted.namespace, wanted.name)] = wanted.delete_after

    def withdraw(self, name: str, namespace: str = "default") -> None:
        """Delete the pod and the claim (or template) that `run` made with it."""
        self._delete_after.pop((namespace, name), None)
        template = (namespace, name) in self._templates
        self._templates.discard((namespace, name))
        for resource in ("pods", "resourceclaimtemplates" if template else "resourceclaims"):
            self.delete(resource, name, namespace)

    def apply(self, resource: str, manifest: Object) -> None:
        """Create the object; if it exists, server-side apply it."""
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "")
        try:
            self._client.create(resource, manifest, namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            self._client.patch(resource, metadata["name"], manifest, namespace, how="apply", force=True)

    def delete(self, resource: str, name: str, namespace: str = "") -> None:
        try:
            self._client.delete(resource, name, namespace)
        except ApiError as error:
            if error.code not in GONE:
                self._time.after(RETRY, lambda: self.delete(resource, name, namespace))

    def condition(
        self, claim: str, namespace: str, type: str, status: str, *, reason: str, message: str = "", device: str = ""
    ) -> None:
        """Set a condition on the claim's devices that have binding conditions, or only on `device`. Raises ApiError 404."""
        found = self._client.get("resourceclaims", claim, namespace)
        known = (found.get("status") or {}).get("devices") or []
        told = condition(type, status, reason, message, self._time.now())
        for result in results(found):
            if result["device"] == device if device else result.get("bindingConditions"):
                known = _with_condition(known, result, told)
        status_now = {**(found.get("status") or {}), "devices": known}
        self._client.update("resourceclaims", {**found, "status": status_now}, subresource="status")

    def cordon(self, node: str, on: bool = True) -> None:
        self._client.patch("nodes", node, {"spec": {"unschedulable": True if on else None}})

    def drain(self, node: str) -> None:
        """Cordon the node and evict its pods."""
        self.cordon(node)
        for pod in self._client.list("pods", fields=f"spec.nodeName={node}"):
            with tolerating(*GONE):
                self._client.evict(pod["metadata"]["name"], pod["metadata"]["namespace"])

    def lose(self, node: str) -> None:
        """Delete the Node and, at once, its pods."""
        pods = self._client.list("pods", fields=f"spec.nodeName={node}")
        self.delete("nodes", node)
        for pod in pods:
            metadata = pod["metadata"]
            with tolerating(*GONE):
                self._client.delete("pods", metadata["name"], metadata["namespace"], uid=metadata["uid"], grace=0)

    def node_of_claim(self, claim: str, namespace: str = "default") -> str:
        """The node that a claim is allocated to, "" for none."""
        return node_of(self._client.find("resourceclaims", claim, namespace))

    def node_of_pod(self, pod: str, namespace: str = "default") -> str:
        """The node that a pod is bound to, "" for none."""
        found = self._client.find("pods", pod, namespace) or {}
        node: str = (found.get("spec") or {}).get("nodeName", "")
        return node

    def _made(self, resource: str, obj: Object, namespace: str) -> None:
        try:
            self._client.create(resource, obj, namespace)
        except ApiError as error:
            if error.code in (429, 500, 503):
                self._time.after(RETRY, lambda: self._made(resource, obj, namespace))
            else:
                raise

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None:
            return
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        before, after = _phase(old), _phase(new)
        if before == after:
            return
        if after == "Running" and key in self._delete_after:
            seconds = self._delete_after.pop(key)
            self._timers[key] = self._time.after(seconds, lambda: self._end(key))
        for call in self.ran:
            call(*key, after)

    def _end(self, key: tuple[str, str]) -> None:
        self._timers.pop(key, None)
        self.withdraw(key[1], key[0])


def _phase(pod: Object | None) -> str:
    return (pod.get("status") or {}).get("phase", "Pending") if pod is not None else ""


def _claim(wanted: Run) -> Object:
    spec = {"devices": {"requests": list(_requests(wanted))}}
    kind = "ResourceClaimTemplate" if wanted.template else "ResourceClaim"
    metadata = {"name": wanted.name, "namespace": wanted.namespace}
    body = {"spec": spec} if wanted.template else spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": body}


def _requests(wanted: Run) -> list[Object]:
    found = []
    for place, (device_class, count) in enumerate(wanted.devices.items()):
        exactly: Object = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
        if device_class in wanted.shares:
            exactly["capacity"] = {"requests": dict(wanted.shares[device_class])}
        found.append({"name": f"r{place}", "exactly": exactly})
    return found


def _pod(wanted: Run) -> Object:
    metadata: Object = {"name": wanted.name, "namespace": wanted.namespace}
    if wanted.lasts is not None:
        metadata["annotations"] = {RUN_FOR: f"{wanted.lasts:.6f}".rstrip("0").rstrip(".")}
    requests = {key: value for key, value in (("cpu", wanted.cpu), ("memory", wanted.memory)) if value}
    resources: Object = {"requests": requests} if requests else {}
    spec: Object = {
        "containers": [{"name": "c", "image": "pause", "resources": resources}],
        "restartPolicy": "Never",
        "schedulerName": wanted.scheduler,
        "terminationGracePeriodSeconds": wanted.grace,
    }
    if wanted.devices:
        resources["claims"] = [{"name": "d0"}]
        named = "resourceClaimTemplateName" if wanted.template else "resourceClaimName"
        spec["resourceClaims"] = [{"name": "d0", named: wanted.name}]
    if wanted.priority:
        spec["priority"] = wanted.priority
    if wanted.node_selector:
        spec["nodeSelector"] = dict(wanted.node_selector)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _with_condition(entries: list[Object], result: Object, told: Object) -> list[Object]:
    """status.devices with the condition set on the entry of one allocated device."""
    identity = {key: result[key] for key in ("driver", "pool", "device", "shareID") if result.get(key)}
    mine = [one for one in entries if _identity(one) == identity]
    others = [one for one in entries if _identity(one) != identity]
    before: dict[str, Any] = mine[0] if mine else identity
    conditions = [one for one in before.get("conditions") or () if one["type"] != told["type"]]
    return [*others, {**before, "conditions": [*conditions, told]}]


def _identity(entry: Object) -> Object:
    return {key: entry[key] for key in ("driver", "pool", "device", "shareID") if entry.get(key)}


# -- pods that arrive over time


class Arrivals:
    """Pods that arrive at known instants. `rows` gives them in order: (seconds after the start, the pod, seconds after which it
    is withdrawn in any case). Each row is read when the one before has arrived, so that a long run costs no memory."""

    def __init__(
        self, workloads: Workloads, time: Time, rows: Callable[[], Iterator[tuple[float, Run, float | None]]]
    ) -> None:
        self._workloads = workloads
        self._time = time
        self._rows = rows
        self._left: Iterator[tuple[float, Run, float | None]] = iter(())
        self._began = 0
        self._timer: Timer | None = None
        self.refused = 0  # pods that the API refused

    def start(self) -> None:
        self._began, self._left = self._time.now(), self._rows()
        self._next()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        self._timer = None
        row = next(self._left, None)
        if row is not None:
            passed = (self._time.now() - self._began) / MICROSECONDS
            self._timer = self._time.after(max(0.0, row[0] - passed), lambda: self._arrive(row[1], row[2]))

    def _arrive(self, pod: Run, withdrawn: float | None) -> None:
        try:
            self._workloads.run(pod)
        except ApiError:
            self.refused += 1
        if withdrawn is not None:
            self._time.after(withdrawn, lambda: self._workloads.withdraw(pod.name, pod.namespace))
        self._next()


class Mix:
    """A random mix of pods, drawn from one seed. Each arrival is drawn when the one before has come, so that a long run costs no
    memory."""

    def __init__(self, workloads: Workloads, time: Time, settings: written.Mix) -> None:
        self._workloads = workloads
        self._time = time
        self._settings = settings
        self._random: Random = time.random(f"mix/{settings.name}")
        self.refused = 0  # pods that the API refused, such as those of a namespace that is gone
        self._made = 0
        self._left = settings.over
        self._ended: deque[tuple[str, str]] = deque()
        self._timer: Timer | None = None
        self._weights = [one.weight for one in settings.asks]
        self._lasts, self._patience = settings.lasts.latency(), settings.patience.latency()

    def start(self) -> None:
        if self._settings.ends == "finished":
            self._workloads.ran.append(self._ran)
        self._timer = self._time.after(self._settings.start, self._next)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._ran in self._workloads.ran:
            self._workloads.ran.remove(self._ran)

    def _next(self) -> None:
        """Wait for the next arrival: the earliest of as many uniform instants as there are pods left."""
        missing = self._settings.pods - self._made
        if missing <= 0:
            self._timer = None
            return
        gap = self._left * (1.0 - self._random.random() ** (1.0 / missing))
        self._left -= gap
        self._timer = self._time.after(gap, self._arrive)

    def _arrive(self) -> None:
        settings, random = self._settings, self._random
        self._made += 1
        name = f"{settings.name}-{self._made}"
        namespace = settings.namespaces[int(random.random() * len(settings.namespaces))]
        ask = random.choices(settings.asks, self._weights)[0]
        lasts = self._lasts.draw(random)
        deleted = settings.ends == "deleted"
        wanted = Run.model_construct(  # of valid values, but for how long it was drawn to last
            name=name,
            namespace=namespace,
            devices=ask.devices,
            shares=ask.shares,
            lasts=None if deleted else lasts,
            delete_after=lasts if deleted else None,
            template=random.random() < settings.templates,
            cpu=settings.cpu,
            memory=settings.memory,
            node_selector=settings.node_selector,
        )
        try:
            self._workloads.run(wanted)
        except ApiError:
            self.refused += 1
        if random.random() < settings.withdrawn:
            self._time.after(self._patience.draw(random), lambda: self._workloads.withdraw(name, namespace))
        self._next()

    def _ran(self, namespace: str, name: str, phase: str) -> None:
        """Delete a pod of this mix that ended by itself after `linger` seconds, unless it is one of the newest `keep`."""
        stem, _, number = name.rpartition("-")
        if phase != "Succeeded" or stem != self._settings.name or not number.isdecimal():
            return
        self._ended.append((namespace, name))
        if len(self._ended) > self._settings.keep:
            oldest = self._ended.popleft()
            self._time.after(self._settings.linger, lambda: self._workloads.withdraw(oldest[1], oldest[0]))
