"""cluster-api in an API server of the lab: its kinds, and a stand-in for its controllers that does one round when it is told to.

A stand-in that is as unkind as it may be: when it chooses, it takes the oldest healthy Machine.
"""

from __future__ import annotations

from typing import Any

from dds_lab.client import Client
from dds_lab.face import Served
from tests.support.served import client_of

GROUP = "cluster.x-k8s.io"
NAMESPACE = "metal"
CLUSTER = "rack"
MARK = f"{GROUP}/delete-machine"
FINALIZER = f"machine.{GROUP}/lab"
KINDS = {"MachineDeployment": "machinedeployments", "MachineSet": "machinesets", "Machine": "machines"}


def definition(kind: str, version: str) -> dict[str, Any]:
    """A kind whose fields are nobody's business here."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    shape = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{KINDS[kind]}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": KINDS[kind], "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [shape | {"subresources": {}}],
        },
    }


class ClusterApi:
    """One cluster's Machines. `stock`: how many servers there are; `broken`: orders of failures for Machines to come."""

    def __init__(self, lab: Served, version: str = "v1beta2") -> None:
        self._lab = lab
        self._version = version
        self.stock = 100
        self.broken = 0
        self._count = 0
        self._do(lambda client: [client.create("customresourcedefinitions", definition(one, version)) for one in KINDS])
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._do(lambda client: client.create("namespaces", space))

    def _do(self, what: Any) -> Any:
        return self._lab.run(lambda: what(client_of(self._lab.server)))

    def _object(self, kind: str, name: str, owner: dict[str, Any] | None, spec: dict[str, Any]) -> dict[str, Any]:
        meta: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "labels": {f"{GROUP}/cluster-name": CLUSTER}}
        if owner is not None:
            named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
            meta["ownerReferences"] = [{**named, "uid": owner["metadata"]["uid"], "controller": True}]
        if kind == "Machine":
            meta["finalizers"] = [FINALIZER]
        return {"apiVersion": f"{GROUP}/{self._version}", "kind": kind, "metadata": meta, "spec": spec}

    def make(self, kind: str, name: str, replicas: int, owner: dict[str, Any] | None = None) -> dict[str, Any]:
        spec = {"replicas": replicas, "clusterName": CLUSTER}
        obj = self._object(kind, name, owner, spec)
        made: dict[str, Any] = self._do(lambda client: client.create(KINDS[kind], obj, NAMESPACE))
        return made

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._do(lambda client: client.get(KINDS[kind], name, NAMESPACE))
        return found

    def edit(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        self._do(lambda client: client.patch(KINDS[kind], name, patch, NAMESPACE))

    def delete(self, kind: str, name: str) -> None:
        self._do(lambda client: client.delete(KINDS[kind], name, NAMESPACE))

    def machines(self) -> dict[str, dict[str, Any]]:
        found = self._do(lambda client: client.list("machines", NAMESPACE))
        return {one["metadata"]["name"]: one for one in found}

    def settle(self) -> None:
        """Rounds until nothing is left to do."""
        for _ in range(3):
            self.scale()
            self.work()

    def scale(self) -> None:
        """The controllers of MachineDeployments and MachineSets."""
        self._do(self._scale)

    def work(self) -> None:
        """Machines become servers, or end."""
        self._do(self._work)

    def _scale(self, client: Client) -> None:
        for deployment in client.list("machinedeployments", NAMESPACE):
            name, replicas = deployment["metadata"]["name"], deployment["spec"]["replicas"]
            if client.find("machinesets", f"{name}-1", NAMESPACE) is None:
                spec = {"replicas": replicas, "clusterName": CLUSTER}
                client.create("machinesets", self._object("MachineSet", f"{name}-1", deployment, spec), NAMESPACE)
            client.patch("machinesets", f"{name}-1", {"spec": {"replicas": replicas}}, NAMESPACE)
        for one in client.list("machinesets", NAMESPACE):
            owned = [
                machine for machine in client.list("machines", NAMESPACE) if _owner(machine) == one["metadata"]["uid"]
            ]
            wanted = one["spec"]["replicas"]
            for _ in range(wanted - len(owned)):
                self._count += 1
                name = f"{one['metadata']['name']}-{self._count:03}"
                client.create("machines", self._object("Machine", name, one, {"clusterName": CLUSTER}), NAMESPACE)
            for machine in sorted(owned, key=_priority)[: max(0, len(owned) - wanted)]:
                client.delete("machines", machine["metadata"]["name"], NAMESPACE)

    def _work(self, client: Client) -> None:
        for used, machine in enumerate(client.list("machines", NAMESPACE)):
            name = machine["metadata"]["name"]
            if machine["metadata"].get("deletionTimestamp"):
                client.patch("machines", name, {"metadata": {"finalizers": None}}, NAMESPACE)
            elif not machine.get("status"):
                client.patch("machines", name, self._became(name, used), NAMESPACE)

    def _became(self, name: str, used: int) -> dict[str, Any]:
        reason = "InsufficientResources" if used >= self.stock else "CreateError" if self.broken else ""
        if not reason:
            return {"spec": {"providerID": f"metal://{name}"}, "status": {"phase": "Running"}}
        if reason == "CreateError":
            self.broken -= 1
        failure = {"failureReason": reason, "failureMessage": "it cannot be made"}
        old = failure if self._version == "v1beta1" else {"deprecated": {"v1beta1": failure}}
        return {"status": {"phase": "Failed", **old}}


def _owner(machine: dict[str, Any]) -> str:
    return next((str(one["uid"]) for one in machine["metadata"].get("ownerReferences", ())), "")


def _priority(machine: dict[str, Any]) -> tuple[int, str]:
    """cluster-api's: those that go already, those that are marked, those in trouble, then any."""
    meta = machine["metadata"]
    if meta.get("deletionTimestamp"):
        return 0, meta["name"]
    if MARK in meta.get("annotations", {}):
        return 1, meta["name"]
    return (3 if machine.get("status", {}).get("phase") == "Running" else 2), meta["name"]
