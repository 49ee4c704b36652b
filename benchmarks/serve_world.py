"""A cluster in which much is in use, for a scaler to run against: made in the lab's API server, no actor in it.

On every node run claims on devices of one model, each attached by the fabric; around them are pods that nobody has to hear
of. Other models are free in the pools: who asks for one waits for an attach.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dds_lab.actors.models import NAMESPACE, DeviceInfo, Model, config_map
from dds_lab.api.kinds import Object
from dds_lab.client import Client

DRIVER = "gpu.nvidia.com"
TEAM = "team-a"
HELD = Model(1, "A100 40G", "nvidia-a100-40", DRIVER, {"productName": "NVIDIA A100 40GB PCIe"})
NODES_A_FABRIC, FREE_A_POOL = 40, 64
CONDITIONS = {
    "bindingConditions": ["FabricDeviceReady"],
    "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"],
}
REQUESTS, RESOURCES = "composabilityrequests", "composableresources"


@dataclass(frozen=True)
class Size:
    """How large a cluster is: bound claims are spread evenly over its nodes, and `pods` counts all that are bound."""

    nodes: int
    claims: int
    pods: int
    demands: int
    """Allocations that are to come: each is the first of its model on its node."""

    @property
    def wanted(self) -> tuple[Model, ...]:
        """The models that are free in the pools."""
        count = -(-self.demands // self.nodes)
        return tuple(_model(number) for number in range(2, count + 2))

    @property
    def fabrics(self) -> tuple[int, ...]:
        return tuple(range(1, -(-self.nodes // NODES_A_FABRIC) + 1))


def node_name(number: int) -> str:
    return f"node{number:04}"


def fabric_of(number: int) -> int:
    return number // NODES_A_FABRIC + 1


def fill(client: Client, size: Size) -> None:
    """Make it all."""
    for name in (NAMESPACE, TEAM):
        client.create("namespaces", {"metadata": {"name": name}})
    models = (HELD, *size.wanted)
    client.create("configmaps", config_map(DeviceInfo(models, fabrics=size.fabrics)), NAMESPACE)
    for model in models:
        client.create("deviceclasses", _class(model))
        for fabric in size.fabrics:
            client.create("resourceslices", _pool(model, fabric))
    each = size.claims // size.nodes
    for number in range(size.nodes):
        _node(client, number, models, each)
    _others(client, size, size.pods - size.claims)


def _model(number: int) -> Model:
    return Model(
        number, f"H{number}00 80G", f"nvidia-h{number}00-80", DRIVER, {"productName": f"NVIDIA H{number}00 80GB"}
    )


def _class(model: Model) -> Object:
    product = f'device.attributes["{DRIVER}"].productName == "{model.attributes["productName"]}"'
    expression = f'device.driver == "{DRIVER}" && {product}'
    return {"metadata": {"name": model.device}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def pool_name(model: Model, fabric: int) -> str:
    return f"{model.device}-fabric{fabric}"


def _pool(model: Model, fabric: int) -> Object:
    terms = [
        {"key": f"cohdi.io/{model.device}", "operator": "In", "values": ["true"]},
        {"key": "cohdi.io/fabric", "operator": "In", "values": [str(fabric)]},
    ]
    product = {"productName": {"string": model.attributes["productName"]}}
    devices = [
        {"name": f"{model.device}-{n}", "attributes": product, "bindsToNode": True, **CONDITIONS}
        for n in range(FREE_A_POOL)
    ]
    name = pool_name(model, fabric)
    return {
        "metadata": {"name": f"{name}-gpu-nvidia-com-0"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": terms}]},
            "devices": devices,
        },
    }


# -- nodes and what runs there ---------------------------------------------------------------------------------------


def _node(client: Client, number: int, models: tuple[Model, ...], each: int) -> None:
    name = node_name(number)
    labels = {f"cohdi.io/{model.device}": "true" for model in models}
    labels |= {"cohdi.io/fabric": str(fabric_of(number)), "kubernetes.io/hostname": name}
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "250"}
    made = client.create(
        "nodes", {"metadata": {"name": name, "labels": labels}, "spec": {"providerID": f"lab://{name}"}}
    )
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    client.update("nodes", {**made, "status": status}, "status")
    client.patch("nodes", name, {"spec": {"taints": None}})  # every node comes with the taint not-ready
    devices = [local_device(HELD, n, str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}-{n}"))) for n in range(each)]
    client.create("resourceslices", local_slice(name, devices))
    request = client.create(REQUESTS, _request(name, each))
    settle_request(client, request)
    for n, device in enumerate(devices):
        attached(client, request["metadata"]["name"], name, HELD, device["attributes"]["uuid"]["string"])
        held = f"{name}-{n}"
        result = {"request": "r0", "driver": DRIVER, "pool": name, "device": device["name"]}
        pod = new_pod(client, held)
        claim = new_claim(client, held, HELD)
        allocate(client, claim, pod, name, result)
        client.bind(held, TEAM, name)


def local_device(model: Model, number: int, serial: str) -> Object:
    """A device as the vendor's driver tells of it on its node."""
    attributes = {"productName": {"string": model.attributes["productName"]}, "type": {"string": "gpu"}}
    attributes["uuid"] = {"string": f"GPU-{serial}"}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "40Gi"}}}


def local_slice(node: str, devices: list[Object]) -> Object:
    return {
        "metadata": {"name": f"{node}-gpu-nvidia-com"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": devices,
        },
    }


def _request(node: str, size: int) -> Object:
    wanted = {"allocation_policy": "samenode", "model": HELD.model, "size": size, "target_node": node, "type": "gpu"}
    return {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposabilityRequest",
        "metadata": {"name": f"composability-{node}", "generateName": "composability-"},
        "spec": {"resource": wanted},
    }


def settle_request(client: Client, request: Object) -> None:
    """The operator is done with it."""
    status = {"scalarResource": request["spec"]["resource"], "state": "Running"}
    client.update(REQUESTS, {**request, "status": status}, "status")


def attached(client: Client, request: str, node: str, model: Model, serial: str) -> None:
    """A device that a request brought."""
    made = client.create(
        RESOURCES,
        {
            "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
            "kind": "ComposableResource",
            "metadata": {
                "name": f"gpu-{uuid.uuid5(uuid.NAMESPACE_DNS, serial)}",
                "labels": {"app.kubernetes.io/managed-by": request},
                "finalizers": ["com.ie.ibm.hpsys/finalizer"],
            },
            "spec": {"force_detach": False, "model": model.model, "target_node": node, "type": "gpu"},
        },
    )
    status = {"state": "Online", "device_id": serial, "cdi_device_id": serial.removeprefix("GPU-"), "error": ""}
    client.update(RESOURCES, {**made, "status": status}, "status")


# -- who uses devices ------------------------------------------------------------------------------------------------


def new_claim(client: Client, name: str, model: Model) -> Object:
    request = {"name": "r0", "exactly": {"deviceClassName": model.device, "allocationMode": "ExactCount", "count": 1}}
    return client.create(
        "resourceclaims", {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}, TEAM
    )


def new_pod(client: Client, name: str) -> Object:
    spec = {
        "containers": [{"name": "c", "image": "pause", "resources": {"claims": [{"name": "d0"}]}}],
        "resourceClaims": [{"name": "d0", "resourceClaimName": name}],
        "terminationGracePeriodSeconds": 0,
    }
    return client.create("pods", {"metadata": {"name": name}, "spec": spec}, TEAM)


def allocate(client: Client, claim: Object, pod: Object, node: str, result: Object) -> Object:
    """What the scheduler writes when it has found a device for a pod."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    status = {"allocation": allocation, "reservedFor": [user]}
    return client.update("resourceclaims", {**claim, "status": status}, "status")


def _others(client: Client, size: Size, count: int) -> None:
    """Pods that ask for no device, put into the store as copies of one: the API would take a minute."""
    if count <= 0:
        return
    first = client.create(
        "pods", {"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}, TEAM
    )
    client.bind("web-0", TEAM, node_name(0))
    store, key = client.server.store, client.resource("pods").key
    record = store.get(key, f"{TEAM}/{first['metadata']['name']}")
    assert record is not None
    for number, name in enumerate(_names(count - 1), 1):
        pod: dict[str, Any] = copy.copy(record.object)
        pod["metadata"] = {**pod["metadata"], "name": name, "uid": str(uuid.UUID(int=number))}
        pod["spec"] = {**pod["spec"], "nodeName": node_name(number % size.nodes)}
        store.put(key, f"{TEAM}/{name}", pod)


def _names(count: int) -> Iterator[str]:
    """In the order in which the store keeps them: to put one among others costs more."""
    return (f"web-{number:06}" for number in range(1, count + 1))
