"""Creates the cluster's first objects through the API, as an administrator would: definitions, namespaces, configuration,
classes, nodes, and the scenario's own objects. It starts no actor.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from dds_adapters.kubernetes import guard
from dds_core.errors import InputError
from dds_lab.actors.models import NAMESPACE, config_map
from dds_lab.actors.objects import ready_condition
from dds_lab.api.kinds import Object, Resource
from dds_lab.client import ApiError, Client, instants
from dds_lab.crds import DEFINITIONS
from dds_lab.lab_settings import SCHEME, device_info
from dds_lab.scenario import Scenario
from dds_lab.scenario.cluster import Class, Model, Nodes


class BadObject(InputError):
    """The API server refuses an object of the scenario."""


def define(client: Client) -> None:
    """Create the operator's custom resource definitions."""
    for definition in DEFINITIONS:
        client.create("customresourcedefinitions", definition)


def fill(client: Client, scenario: Scenario) -> None:
    """Create all objects of the start. Raises BadObject, which names the object and the server's reason."""
    for place, obj in objects(client, scenario):
        create(client, obj, place)


def install_guard(client: Client, user: str) -> None:
    """Create the objects of an installation of dds that let this user exchange devices: the admission policy of the guard, its
    binding, the ConfigMap with the guarded devices, and the claim that probes the guard."""
    if client.find("namespaces", NAMESPACE) is None:
        client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for obj in (guard.policy(user), guard.binding(NAMESPACE), guard.config_map(NAMESPACE), guard.probe(NAMESPACE)):
        create(client, obj, "the guard")


def create(client: Client, obj: Object, place: str, *, patched: bool = False) -> None:
    """Create an object of any served kind, with its status if it has one: `patched` onto it where others write it too. Raises
    BadObject."""
    resource = resource_of(client, obj, place)
    metadata = obj.get("metadata") or {}
    namespace = metadata.get("namespace") or ("default" if resource.namespaced else "")
    try:
        made = client.create(reference(resource), obj, namespace)
        if patched and obj.get("status"):
            status = {"status": obj["status"]}
            client.patch(reference(resource), metadata["name"], status, namespace, subresource="status")
        elif obj.get("status") and "status" in resource.subresources:
            client.update(reference(resource), {**made, "status": obj["status"]}, subresource="status")
    except ApiError as error:
        message = str(error.status.get("message", error))
        raise BadObject(
            f"the API server refuses it: {error.code} {error.reason}: {message}", where=place, fix="correct it there"
        ) from None


def resource_of(client: Client, obj: Object, place: str) -> Resource:
    """The resource of an object, by its kind and apiVersion. Raises BadObject."""
    kind, version = obj.get("kind"), obj.get("apiVersion")
    for one in client.api.registry.resources():
        if (one.kind, one.api_version) == (kind, version):
            return one
    known = sorted({f"{one.kind} ({one.api_version})" for one in client.api.registry.resources() if one.kept})
    raise BadObject(f"{kind} of {version} is not served", where=place, fix=f"served: {', '.join(known)}")


def reference(resource: Resource) -> str:
    """The name with which a client addresses exactly this version of a resource."""
    return f"{resource.plural}.{resource.version}.{resource.group}" if resource.group else resource.plural


def objects(client: Client, scenario: Scenario) -> Iterator[tuple[str, Object]]:
    """What a cluster of the scenario has at the start besides the definitions: where it is written, and the object."""
    cluster = scenario.cluster
    for name in (NAMESPACE, *cluster.namespaces):
        if client.find("namespaces", name) is None:
            yield f"namespace {name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if cluster.config:
        yield "the ConfigMap", config_map(device_info(scenario))
    for one in cluster.classes if cluster.classes is not None else map(_class_of, cluster.models):
        yield f"class {one.name}", _class(one)
    now = instants.written(client.time.now())
    for group in cluster.nodes:
        for name in group.names():
            yield f"node {name}", _node(name, group, scenario, now)
    for place, obj in enumerate(cluster.objects):
        name = (obj.get("metadata") or {}).get("name", "")
        yield f"cluster.objects[{place}] ({obj.get('kind')} {name})", obj


def _class_of(model: Model) -> Class:
    """A model's default DeviceClass: its driver's devices with its product."""
    product = f'device.attributes["{model.driver}"].productName == "{model.product}"'
    return Class(name=model.device, selectors=(f'device.driver == "{model.driver}" && {product}',))


def _class(wanted: Class) -> Object:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": one}} for one in wanted.selectors]}
    if wanted.extended_resource is not None:
        spec["extendedResourceName"] = wanted.extended_resource
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": wanted.name},
        "spec": spec,
    }


def _node(name: str, group: Nodes, scenario: Scenario, now: str) -> Object:
    """A ready node with the labels that publisher and scaler would write."""
    prefix = scenario.cluster.prefix
    labels = {"kubernetes.io/hostname": name}
    if group.fabric is not None:
        reachable = next((one.devices for one in scenario.cluster.fabrics if one.id == group.fabric), {})
        labels[f"{prefix}/fabric"] = str(group.fabric)
        for model in scenario.cluster.models:
            if model.model in reachable:
                labels[f"{prefix}/{model.device}"] = "true"
            if (limit := group.limits.get(model.model)) is not None:
                labels[f"{prefix}/{model.device}-size-max"] = str(limit.max)
                labels[f"{prefix}/{model.device}-size-min"] = str(limit.min)
    ready = ready_condition("True", "KubeletReady", "kubelet is posting ready status", now)
    amounts = {"cpu": group.cpu, "memory": group.memory, "pods": str(group.pods)}
    spec: dict[str, Any] = {"providerID": f"{SCHEME}{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"}
    if group.taints:
        spec["taints"] = [one.model_dump(exclude_defaults=False) for one in group.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **group.labels}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }
