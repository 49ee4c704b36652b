"""Pods that ask for devices as extended resources (KEP-5004): the claim that the scheduler makes for them.

A node that has the resource as a plain one serves it as such; for every other node the pod's containers become the requests of
one special claim. It is written in PreBind, deleted when that fails, and made anew under another name at the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dds_lab.actors.scheduler.pods import Pod, units

Object = dict[str, Any]

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
NATIVE = ("cpu", "memory", "ephemeral-storage", "pods")


class ExtendedResources:
    """Which device class stands for which extended resource: of several with one name the newest, then the first by name."""

    def __init__(self) -> None:
        self._classes: dict[str, Object] = {}
        self._by_resource: dict[str, str] = {}

    def put(self, obj: Object) -> None:
        self._classes[obj["metadata"]["name"]] = obj
        self._index()

    def drop(self, name: str) -> None:
        self._classes.pop(name, None)
        self._index()

    def class_of(self, resource: str) -> str | None:
        """The class for the resource, None when no device can serve it."""
        if resource.startswith(IMPLICIT):
            name = resource.removeprefix(IMPLICIT)
            return name if name in self._classes else None
        return self._by_resource.get(resource)

    def wanted(self, pod: Pod) -> tuple[str, ...]:
        """The resources of the pod that devices may serve."""
        return tuple(name for name in pod.requests if is_extended(name) and self.class_of(name) is not None)

    def _index(self) -> None:
        self._by_resource = {}
        newest: dict[str, str] = {}
        for name, obj in sorted(self._classes.items()):
            resource = (obj.get("spec") or {}).get("extendedResourceName")
            created = obj["metadata"].get("creationTimestamp", "")
            if resource and (resource not in newest or created > newest[resource]):
                newest[resource] = created
                self._by_resource[resource] = name


def is_extended(resource: str) -> bool:
    """Whether it is neither the node's own nor huge pages."""
    return resource not in NATIVE and not resource.startswith(("hugepages-", "attachable-volumes-", "requests."))


def special_claim(pod: Pod, resources: Iterable[str], known: ExtendedResources) -> tuple[Object, list[Object]]:
    """The claim for these resources of the pod, and which of its requests stands for what of which container."""
    requests: list[Object] = []
    mappings: list[Object] = []
    wanted = sorted(resources)
    spec = pod.obj["spec"]
    for place, container in enumerate([*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]):
        asked = (
            (container.get("resources") or {}).get("requests") or (container.get("resources") or {}).get("limits") or {}
        )
        for number, resource in enumerate(name for name in wanted if asked.get(name)):
            name = f"container-{place}-request-{number}"
            exactly = {
                "deviceClassName": known.class_of(resource),
                "allocationMode": "ExactCount",
                "count": units(resource, asked[resource]),
            }
            requests.append({"name": name, "exactly": exactly})
            mappings.append({"containerName": container["name"], "resourceName": resource, "requestName": name})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }
    return claim, mappings


def is_special(claim: Object, pod: Pod) -> bool:
    """Whether it is such a claim of this pod."""
    meta = claim["metadata"]
    owners = meta.get("ownerReferences") or ()
    return (meta.get("annotations") or {}).get(ANNOTATION) == "true" and any(
        one.get("controller") and one["uid"] == pod.uid for one in owners
    )
