"""An API server of the lab with a few objects on it, and writers who are let at them.

    stage = Stage()
    claim = stage.allocated("train")
    stage.carry_out(write)                       # as a writer that may do everything
    stage.carry_out(write, stage.as_user("x"))   # or as somebody else
    stage.meanwhile("PATCH", change)            # `change` happens before the writer's next request of that kind

Objects are as the API server has them; the writer's requests are counted in `writer.requests`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.kubernetes.write.tasks import Result, Write
from dds_lab.api.gates import OPTIONAL_VERSIONS, Gates
from dds_lab.api.requests import MASTERS
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.crds import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from dds_lab.driver import Direct
from dds_lab.time import VirtualTime
from tests.support.fed_engine import START

Object = dict[str, Any]

GPU = "gpu.nvidia.com"
POOL = "nvidia-a100-40-fabric1"
READY, RESCHEDULE, FAILED = "FabricDeviceReady", "FabricDeviceReschedule", "FabricDeviceFailed"
REQUEST, RESOURCE = "composabilityrequests", "composableresources"


class WrittenObjects:
    """The server (of a release, with some gates otherwise; DeviceTaintRules served), an administrator `admin`, and `writer`, who
    may do everything."""

    def __init__(self, release: str = "1.36", **gates: bool) -> None:
        self.at = START
        on = Gates.for_version(release, gates, dict.fromkeys(OPTIONAL_VERSIONS, True))
        self.server = ApiServer(gates=on, now=self._now, random=Random(1), history=1_000)
        self.admin = Client(self.server, VirtualTime(0, 0), "admin")
        for definition in (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES):
            self.admin.create("customresourcedefinitions", definition)
        self.writer = self.as_user("writer", MASTERS)
        self.served = {resource: versions[0] for resource, versions in VERSIONS.items()}

    def _now(self) -> int:
        self.at += 1_000
        return self.at

    def as_user(self, name: str, *groups: str) -> Direct:
        """Somebody with the permissions of these groups only."""
        return Direct(self.server, name, groups)

    def grant(self, user: str, role: Object) -> Direct:
        """Somebody with the permissions of this ClusterRole."""
        rbac = "rbac.authorization.k8s.io"
        self.admin.create("clusterroles", role)
        granted = {"apiGroup": rbac, "kind": "ClusterRole", "name": role["metadata"]["name"]}
        subject = {"kind": "User", "name": user, "apiGroup": rbac}
        binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user}}
        self.admin.create("clusterrolebindings", {**binding, "subjects": [subject], "roleRef": granted})
        return self.as_user(user)

    def versions(self, resource: str) -> str:
        return self.served.get(resource, "")

    def carry_out(self, write: Write, writer: Direct | None = None) -> Result:
        return write.carry_out(writer or self.writer, self.versions)

    def meanwhile(self, method: str, change: Callable[[], object], times: int = 1) -> None:
        """Let something happen just before the writer's next requests of this method."""
        left = [times]

        def before(asked: str, path: str) -> None:
            if asked == method and left[0]:
                left[0] -= 1
                change()

        self.writer.before = before

    @property
    def writes(self) -> int:
        """Requests of the writer that were no reading."""
        return sum(count for method, count in self.writer.requests.items() if method != "GET")

    # --- objects -----------------------------------------------------------------------------------------------------

    def get(self, resource: str, name: str, namespace: str = "") -> Object:
        return self.admin.get(resource, name, namespace)

    def edit(self, resource: str, name: str, patch: Object, namespace: str = "", subresource: str = "") -> Object:
        """Somebody else's change (a merge patch)."""
        return self.admin.patch(resource, name, patch, namespace, subresource=subresource)

    def leaving(self, resource: str, name: str, namespace: str = "") -> None:
        """Deleted, and kept by somebody's finalizer."""
        self.edit(resource, name, {"metadata": {"finalizers": ["example.com/wait"]}}, namespace)
        self.admin.delete(resource, name, namespace)

    def node(self, name: str, **labels: str) -> Object:
        given = {f"cohdi.io/{key.replace('_', '-')}": value for key, value in labels.items()}
        return self.admin.create(
            "nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": given}}
        )

    def pod(self, name: str, waiting: str = "", **status: Any) -> Object:
        """A pending pod; `waiting` is the reason of PodScheduled=False."""
        spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "default-scheduler"}
        meta = {"name": name, "namespace": "default"}
        self.admin.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        told = {"type": "PodScheduled", "status": "False", "reason": waiting, "message": ""}
        body = {"status": {"phase": "Pending", **({"conditions": [told]} if waiting else {}), **status}}
        return self.edit("pods", name, body, "default", "status")

    def claim(self, name: str) -> Object:
        request = {"name": "r0", "exactly": {"deviceClassName": "gpu"}}
        meta = {"name": name, "namespace": "default"}
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta}
        return self.admin.create("resourceclaims", {**body, "spec": {"devices": {"requests": [request]}}})

    def allocated(self, name: str, *devices: str, node: str = "node0", pod: str = "") -> Object:
        """A claim that waits for these devices of the pool."""
        if self.admin.find("resourceclaims", name, "default") is None:
            self.claim(name)
        return self.allocate(name, *(devices or ("dev-0",)), node=node, pod=pod)

    def allocate(self, name: str, *devices: str, node: str = "node0", pod: str = "", share: str = "") -> Object:
        """The same for a claim that is there; `share` is the shareID of its results."""
        results = [
            {
                "request": "r0",
                "driver": GPU,
                "pool": POOL,
                "device": device,
                "bindingConditions": [READY],
                "bindingFailureConditions": [RESCHEDULE, FAILED],
                **({"shareID": share} if share else {}),
            }
            for device in devices
        ]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        allocation = {"devices": {"results": results}, "nodeSelector": selector}
        reserved = {"reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]} if pod else {}
        return self.edit(
            "resourceclaims", name, {"status": {"allocation": allocation, **reserved}}, "default", "status"
        )

    def deallocate(self, name: str) -> Object:
        cleared = {"status": {"allocation": None, "reservedFor": None}}
        return self.edit("resourceclaims", name, cleared, "default", "status")

    def conditions(self, name: str) -> dict[tuple[str, str], str]:
        """By device and type the reason of each condition of the claim that is True."""
        devices = self.get("resourceclaims", name, "default")["status"].get("devices") or []
        return {
            (device["device"], one["type"]): one["reason"]
            for device in devices
            for one in device.get("conditions") or []
            if one["status"] == "True"
        }

    def request(
        self, name: str, size: int = 1, *, node: str = "node0", state: str = "Running", **labels: str
    ) -> Object:
        """A ComposabilityRequest that the operator is done with, unless `state` says otherwise."""
        wanted = {
            "type": "gpu",
            "model": "A100 40G",
            "size": size,
            "target_node": node,
            "allocation_policy": "samenode",
        }
        meta = {"name": name, "labels": labels}
        body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest", "metadata": meta}
        made = self.admin.create(REQUEST, {**body, "spec": {"resource": wanted}})
        made = {**made, "status": {"state": state, "scalarResource": wanted}}
        return self.admin.update(REQUEST, made, "status")

    def resource(self, name: str, request: str = "", *, state: str = "Online", mark: bool = False) -> Object:
        """A ComposableResource with the device GPU-<name>."""
        meta: Object = {"name": name, "labels": {"app.kubernetes.io/managed-by": request}}
        if mark:
            meta["annotations"] = {"cohdi.io/delete-device": "true"}
        body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "metadata": meta}
        spec = {"type": "gpu", "model": "A100 40G", "target_node": "node0"}
        made = self.admin.create(RESOURCE, {**body, "spec": spec})
        status = {"state": state, "device_id": f"GPU-{name}" if state == "Online" else ""}
        return self.admin.update(RESOURCE, {**made, "status": status}, "status")

    def size(self, name: str) -> int:
        return int(self.get(REQUEST, name)["spec"]["resource"]["size"])


def uid_of(obj: Object) -> str:
    return str(obj["metadata"]["uid"])
