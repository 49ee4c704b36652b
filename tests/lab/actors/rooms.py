"""An API server on virtual time, for the actors that a test puts into it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, TypeVar

from dds_lab.actors.fabric import Fabric
from dds_lab.actors.models import DeviceInfo, Model, config_map
from dds_lab.actors.operator import Operator
from dds_lab.actors.vendor import VendorDriver
from dds_lab.api.gates import Gates
from dds_lab.api.server import ApiServer
from dds_lab.client import Client, Object
from dds_lab.crds import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from dds_lab.scenario import cluster
from dds_lab.scenario.parts import Fabrics, OperatorPart, VendorPart
from dds_lab.scenario.values import fixed
from dds_lab.time import VirtualTime

START = 1_795_219_200_000_000  # 2026-11-21T00:00:00Z
SECOND = 1_000_000
A100, H100 = "A100 40G", "H100 80G"
GPU = "gpu.nvidia.com"
PRODUCTS = (
    cluster.Model(model=A100, device="nvidia-a100-40", product="NVIDIA A100 40GB PCIe"),
    cluster.Model(model=H100, device="nvidia-h100-80", product="NVIDIA H100 80GB"),
)
MODELS = (
    Model(1, A100, "nvidia-a100-40", GPU, {"productName": "NVIDIA A100 40GB PCIe"}),
    Model(2, H100, "nvidia-h100-80", GPU, {"productName": "NVIDIA H100 80GB"}),
)


class Actor(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


QUICK = OperatorPart(kind="ideal", look=fixed(0.01))
SETTLED = VendorPart(start=fixed(0.5), first_start=fixed(0.0))

AnyActor = TypeVar("AnyActor", bound=Actor)


class Room:
    """The server, its clock, and a user who may do all. Every change of what is watched is written down."""

    def __init__(self, *, seed: int = 1, version: str = "1.36", served: Collection[str] = ()) -> None:
        self.time = VirtualTime(seed, START)
        gates = Gates.for_version(version, served=served)
        self.server = ApiServer(gates=gates, now=self.time.now, random=self.time.random("server"))
        self.user = self.client("test")
        for crd in (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES):
            self.user.create("customresourcedefinitions", crd)
        if self.user.find("namespaces", "default") is None:
            self.user.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
        self.running: list[Actor] = []

    def client(self, user: str) -> Client:
        return Client(self.server, self.time, user)

    def start(self, actor: AnyActor) -> AnyActor:
        actor.start()
        self.running.append(actor)
        return actor

    def run(self, seconds: float) -> None:
        self.time.run(self.time.now() + round(seconds * SECOND))

    def story(self, resource: str, *path: str) -> list[tuple[str, Any]]:
        """From now on: each new value at a path of the resource's objects, with the object's name, as a list that grows."""
        told: list[tuple[str, Any]] = []
        last: dict[str, Any] = {}

        def note(old: Object | None, new: Object | None) -> None:
            obj = new or old
            assert obj is not None
            name = obj["metadata"]["name"]
            value = "gone" if new is None else at(new, *path)
            if last.get(name, "") != value:
                last[name] = value
                told.append((name, value))

        self.user.mirror(resource).on_change(note)
        return told

    # -- things to have

    def node(self, name: str, **labels: str) -> Object:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        node = self.user.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        status = {
            "capacity": {"cpu": "64", "memory": "512Gi", "pods": "250"},
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "250"},
        }
        return self.user.update("nodes", {**node, "status": status}, subresource="status")

    def request(
        self, name: str = "wanted", node: str = "node0", size: int = 1, model: str = A100, **more: Any
    ) -> Object:
        wanted = {"type": "gpu", "model": model, "size": size, **({"target_node": node} if node else {}), **more}
        return self.user.create(
            "composabilityrequests",
            {
                "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
                "kind": "ComposabilityRequest",
                "metadata": {"name": name},
                "spec": {"resource": wanted},
            },
        )

    def resize(self, name: str, size: int) -> None:
        self.user.patch("composabilityrequests", name, {"spec": {"resource": {"size": size}}})

    def pod(self, name: str, *, claims: list[Object] | None = None, node: str = "", **more: Any) -> Object:
        spec: Object = {"containers": [{"name": "c", "image": "pause"}], "restartPolicy": "Never", **more}
        if claims:
            spec["resourceClaims"] = claims
        pod = self.user.create(
            "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, "default"
        )
        if node:
            self.user.bind(name, "default", node)
            pod = self.user.get("pods", name, "default")
        return pod

    def claim(self, name: str, *, count: int = 1, device_class: str = "gpus") -> Object:
        exactly = {"deviceClassName": device_class, "count": count}
        spec = {"devices": {"requests": [{"name": "r0", "exactly": exactly}]}}
        return self.user.create(
            "resourceclaims",
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec},
            "default",
        )

    def allocate(self, claim: str, pod: str, node: str, *devices: tuple[str, str], conditions: bool = False) -> Object:
        """Do what the scheduler does; `devices` are (pool, name)."""
        found = self.user.get("resourceclaims", claim, "default")
        finalizers = ["resource.kubernetes.io/delete-protection"]
        found = self.user.update(
            "resourceclaims", {**found, "metadata": {**found["metadata"], "finalizers": finalizers}}
        )
        waits = (
            {
                "bindingConditions": ["FabricDeviceReady"],
                "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"],
            }
            if conditions
            else {}
        )
        results = [{"request": "r0", "driver": GPU, "pool": pool, "device": name, **waits} for pool, name in devices]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        uid = self.user.get("pods", pod, "default")["metadata"]["uid"]
        status = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            },
            "reservedFor": [{"resource": "pods", "name": pod, "uid": uid}],
        }
        return self.user.update("resourceclaims", {**found, "status": status}, subresource="status")

    def state(self, resource: str, name: str, namespace: str = "") -> Object:
        found: Object = self.user.get(resource, name, namespace).get("status") or {}
        return found

    def devices(self, slice_name: str) -> list[str]:
        """The names of the devices in a slice."""
        return [one["name"] for one in self.user.get("resourceslices", slice_name)["spec"].get("devices") or ()]


def at(obj: Object, *path: str) -> Any:
    """What is at a path of an object, None when there is nothing."""
    found: Any = obj
    for part in path:
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found


class Hall(Room):
    """A room with hardware: two nodes on one fabric, the vendor's driver and, unless told otherwise, the operator."""

    def __init__(
        self,
        *,
        seed: int = 1,
        served: Collection[str] = (),
        count: int = 4,
        nodes: int = 2,
        operator: OperatorPart | None = QUICK,
        taint_version: str = "v1alpha3",
        vendor: VendorPart = SETTLED,
        models: Sequence[cluster.Model] = PRODUCTS,
    ) -> None:
        super().__init__(seed=seed, served=served)
        pools = {("1", A100): count, ("1", H100): 2}
        self.fabric = Fabric(self.time, pools, Fabrics(attach=fixed(2.0), detach=fixed(1.0)))
        for number in range(nodes):
            self.fabric.connect(f"node{number}", "1")
            self.node(f"node{number}", **{"cohdi.io/nvidia-a100-40": "true", "cohdi.io/nvidia-h100-80": "true"})
        self.vendor = self.start(VendorDriver(self.client("vendor"), self.time, vendor, models, self.fabric))
        self.operator: Operator | None = None
        if operator is not None:
            self.operator = self.start_operator(operator, taint_version)

    def start_operator(self, settings: OperatorPart, taint_version: str = "v1alpha3") -> Operator:
        return self.start(
            Operator(self.client("operator"), self.time, settings, self.fabric, self.vendor, taint_version)
        )

    def configure(self, *models: Model) -> None:
        """The ConfigMap that scaler and publisher read."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "composable-dra"}}
        self.user.create("namespaces", namespace)
        self.user.create("configmaps", config_map(DeviceInfo(models or MODELS, fabrics=(1,))))

    def resources(self) -> list[Object]:
        return self.user.list("composableresources")

    def states(self) -> list[str]:
        return [(one.get("status") or {}).get("state", "") for one in self.resources()]


def requested(seconds: float = 10, **request: Any) -> Hall:
    """A hall in which a request (`Hall.request`) was made so many seconds ago."""
    hall = Hall()
    hall.request(**request)
    hall.run(seconds)
    return hall
