"""What the controllers share: one work queue for the objects of a kind, adoption and release of what they own, pods from
templates.

Decisions use live objects only; watches only say what to look at. So no controller has to know what it expects to see. What a
kind's objects own is watched from the first object on. Source: pkg/controller (controller_ref_manager.go,
controller_utils.go).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from dds_lab.actors.objects import Teller
from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Mirror, Object, instants, selects, tolerating
from dds_lab.latency import Latency, Uniform
from dds_lab.time import MICROSECONDS, Time

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
WORKERS = 5
LOOK = Uniform(0.003, 0.02)
"""Seconds until a queued object is looked at."""


class Controller(ABC):
    """`kind`, `api_version` and `resource` are those of the owners, `owned` the resources that these control."""

    kind = ""
    api_version = "apps/v1"
    resource = ""
    owned: tuple[str, ...] = ("pods",)

    def __init__(self, client: Client, time: Time, look: Latency = LOOK) -> None:
        self._client = client
        self._time = time
        self._queue = WorkQueue(time, self._look, look, time.random(self.resource), WORKERS)
        self._events = Teller(client, time, f"{self.kind.lower()}-controller")

    def start(self) -> None:
        self._owners = self._client.mirror(self.resource)
        self._owned: dict[str, Mirror] = {}
        self._owners.follow(self._changed)

    def stop(self) -> None:
        self._queue.stop()
        for mirror in (self._owners, *self._owned.values()):
            mirror.close()

    @abstractmethod
    def _sync(self, owner: Object) -> None:
        """Bring what the object owns, and its status, to where they should be. ApiError: tried again later."""

    def _orphaned(self, namespace: str, name: str) -> None:  # noqa: B027 (most kinds leave it to the garbage collector)
        """The object is gone."""

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self._add(new or old)

    def _add(self, owner: Object | None) -> None:
        if owner is not None:
            self._queue.add(f"{owner['metadata']['namespace']}/{owner['metadata']['name']}")

    def _owned_changed(self, old: Object | None, new: Object | None) -> None:
        """Queue the owner before the change and the one after it. For an object without a controller: all that select it."""
        for obj in (old, new):
            reference = controller_of(obj) if obj is not None else None
            if obj is not None and reference is not None and self._is_ours(reference):
                self._queue.add(f"{obj['metadata']['namespace']}/{reference['name']}")
        if new is not None and controller_of(new) is None:
            for owner in self._owners.values():
                if owner["metadata"]["namespace"] == new["metadata"]["namespace"] and _selects(owner, new):
                    self._add(owner)

    def _is_ours(self, reference: Object) -> bool:
        return (reference["apiVersion"], reference["kind"]) == (self.api_version, self.kind)

    def _look(self, key: str, finish: Finish) -> None:
        namespace, _, name = key.partition("/")
        try:
            for resource in self.owned:
                if resource not in self._owned:
                    self._owned[resource] = self._client.mirror(resource)
                    self._owned[resource].follow(self._owned_changed)
            owner = self._client.find(self.resource, name, namespace)
            if owner is not None:
                self._sync(owner)
            else:
                self._orphaned(namespace, name)
            self._queue.forget(key)
        except ApiError:
            self._queue.retry(key)
        finish()

    def _again(self, owner: Object, seconds: float | None) -> None:
        """Look at the object again after some seconds; None: no need."""
        if seconds is not None:
            key = f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"
            self._queue.add_after(key, max(0.001, seconds))

    # -- what an object owns

    def _claimed(self, owner: Object, resource: str = "pods") -> list[Object]:
        """The objects that the owner controls, oldest first. The owner becomes controller of objects that it selects and that
        have none, and releases those that it no longer selects."""
        found, metadata = [], owner["metadata"]
        living = not metadata.get("deletionTimestamp")
        for obj in self._client.list(resource, metadata["namespace"]):
            reference, fits = controller_of(obj), _selects(owner, obj)
            if reference is not None and reference["uid"] == metadata["uid"]:
                if fits:
                    found.append(obj)
                elif living:
                    self._set_owners(resource, obj, [one for one in _references(obj) if one is not reference])
            elif reference is None and fits and living and not obj["metadata"].get("deletionTimestamp"):
                found.append(self._set_owners(resource, obj, [*_references(obj), self._reference(owner)]))
        return sorted(found, key=_age)

    def _set_owners(self, resource: str, obj: Object, references: list[Object]) -> Object:
        metadata = obj["metadata"]
        guarded = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": {**guarded, "ownerReferences": references or None}}
        return self._client.patch(resource, metadata["name"], patch, metadata["namespace"])

    def _reference(self, owner: Object) -> Object:
        named = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        kind = {"apiVersion": self.api_version, "kind": self.kind}
        return {**kind, **named, "controller": True, "blockOwnerDeletion": True}

    # -- pods

    def _create_pod(self, owner: Object, template: Object, **metadata: Any) -> Object:
        """Create a pod from a template; `metadata` is added to that of the template. If the API server refuses the pod, an
        Event of the owner says so."""
        told = template.get("metadata") or {}
        meta = {key: told[key] for key in ("labels", "annotations", "finalizers") if told.get(key)}
        meta |= {"generateName": f"{owner['metadata']['name']}-", **metadata}
        meta |= {"namespace": owner["metadata"]["namespace"], "ownerReferences": [self._reference(owner)]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        try:
            made = self._client.create("pods", pod)
        except ApiError as error:
            self._events.warn(owner, "FailedCreate", f"Error creating: {error}")
            raise
        self._events.say(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return made

    def _delete_pod(self, owner: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        with tolerating(404, 409):
            self._client.delete("pods", metadata["name"], metadata["namespace"], uid=metadata["uid"])
            self._events.say(owner, "SuccessfulDelete", f"Deleted pod: {metadata['name']}")

    # -- status

    def _report(self, owner: Object, status: Object, annotations: Object | None = None) -> None:
        """Write the status, and annotations if they are given, unless nothing changes."""
        made = {**owner, "status": {key: value for key, value in status.items() if value not in (None, "", [])}}
        if annotations is not None:
            made["metadata"] = {**owner["metadata"], "annotations": annotations}
        if made["metadata"] != owner["metadata"] or _without_zeros(made) != _without_zeros(owner):
            self._client.update(self.resource, made, subresource="status")

    def _seconds_since(self, instant: str) -> float:
        return (self._time.now() - instants.read(instant)) / MICROSECONDS

    def _now(self) -> str:
        return instants.written(self._time.now())

    def _available(self, owner: Object, pods: Iterable[Object]) -> tuple[list[Object], float | None]:
        """The pods that have been ready for `minReadySeconds`, and the seconds until the next one will have been; None: there is
        none."""
        found, waits, least = [], [], owner["spec"].get("minReadySeconds", 0)
        for pod in pods:
            since = ready_since(pod)
            left = least - self._seconds_since(since) if since and least else 0.0
            if since and left <= 0:
                found.append(pod)
            elif since:
                waits.append(left)
        return found, min(waits, default=None)


def controller_of(obj: Object) -> Object | None:
    return next((one for one in _references(obj) if one.get("controller")), None)


def _references(obj: Object) -> list[Object]:
    found: list[Object] = obj["metadata"].get("ownerReferences") or []
    return found


def _selects(owner: Object, obj: Object) -> bool:
    return selects(owner["spec"]["selector"], obj["metadata"].get("labels") or {})


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]


def _without_zeros(obj: Object) -> Object:
    return {key: value for key, value in (obj.get("status") or {}).items() if value not in (0, None, "", [])}


def digest(value: Any) -> str:
    """A hash of 32 bits (FNV-1a) in letters that form no words. (A real controller hashes how Go prints the value.)"""
    found = 0x811C9DC5
    for byte in json.dumps(value, sort_keys=True).encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in str(found))


# -- pods and conditions


def phase_of(pod: Object) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "Pending")
    return phase


def has_ended(pod: Object) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    """Whether the pod runs, or will."""
    return not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")


def ready_since(pod: Object) -> str:
    """The instant from which the pod is ready, "" if it is not."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one["type"] == "Ready" and one["status"] == "True":
            since: str = one.get("lastTransitionTime") or ""
            return since
    return ""


def condition_of(obj: Object, type: str) -> Object | None:
    found = ((obj.get("status") or {}).get("conditions")) or ()
    return next((one for one in found if one["type"] == type), None)
