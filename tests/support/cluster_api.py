"""cluster-api in an API server of the lab: its kinds, and simulated controllers that do one round when they are told to.

It follows the source of the controllers (cluster-api, internal/controllers/machinedeployment and machineset). A Machine that is
being deleted counts until it is gone. A set with too many Machines takes first those that are being deleted, then those with the
mark, then those that do not run. A deployment is rolled out with maxSurge 1 and maxUnavailable 0. Among healthy Machines the
simulation takes the oldest, where cluster-api goes by a random name.
"""

from __future__ import annotations

from typing import Any

from dds_lab.client import Client
from dds_lab.http_frontend import Served
from tests.support.served import client_of

GROUP = "cluster.x-k8s.io"
NAMESPACE = "metal"
CLUSTER = "rack"
MARK = f"{GROUP}/delete-machine"
SURGE = 1
"""Of a rolling update."""
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

    def deleting(self) -> set[str]:
        """Names of the Machines that are being deleted."""
        return {name for name, one in self.machines().items() if one["metadata"].get("deletionTimestamp")}

    def active(self, name: str) -> list[str]:
        """Names of the MachineSets of a MachineDeployment that have Machines, or are to have some."""
        sets = _owned(
            self._do(lambda client: client.list("machinesets", NAMESPACE)), self.get("MachineDeployment", name)
        )
        machines = list(self.machines().values())
        return [one["metadata"]["name"] for one in sets if one["spec"]["replicas"] or _owned(machines, one)]

    def settle(self) -> None:
        """Rounds until nothing is left to do."""
        for _ in range(3):
            self.scale()
            self.work()

    def scale(self) -> None:
        """The controllers of MachineDeployments and MachineSets."""
        self.deploy()
        self.replicate()

    def deploy(self) -> None:
        """The controller of MachineDeployments."""
        self._do(self._deploy)

    def replicate(self) -> None:
        """The controller of MachineSets."""
        self._do(self._replicate)

    def work(self) -> None:
        """Machines become servers, or end."""
        self.start()
        self.end()

    def start(self) -> None:
        """Machines that are new become servers, or fail."""
        self._do(self._start)

    def end(self) -> None:
        """Machines that are being deleted are gone."""
        self._do(self._end)

    def roll(self, name: str) -> None:
        """A MachineDeployment gets another template."""
        template = self.get("MachineDeployment", name)["spec"].get("template", 1)
        self.edit("MachineDeployment", name, {"spec": {"template": template + 1}})

    def _deploy(self, client: Client) -> None:
        for deployment in client.list("machinedeployments", NAMESPACE):
            self._roll_out(client, deployment)

    def _roll_out(self, client: Client, deployment: dict[str, Any]) -> None:
        wanted, name = deployment["spec"]["replicas"], deployment["metadata"]["name"]
        sets = _owned(client.list("machinesets", NAMESPACE), deployment)
        replicas = {one["metadata"]["name"]: one["spec"]["replicas"] for one in sets}
        newest = f"{name}-{deployment['spec'].get('template', 1)}"
        if newest not in replicas:
            spec = {"replicas": 0, "clusterName": CLUSTER}
            sets.append(client.create("machinesets", self._object("MachineSet", newest, deployment, spec), NAMESPACE))
            replicas[newest] = 0
        machines = client.list("machines", NAMESPACE)
        available = {one["metadata"]["name"]: sum(map(_is_healthy, _owned(machines, one))) for one in sets}
        before = dict(replicas)
        room = max(0, wanted + SURGE - sum(replicas.values()))
        replicas[newest] = min(wanted, replicas[newest] + room)
        spare = sum(replicas.values()) - wanted - (replicas[newest] - available[newest])
        old = sorted(replicas.keys() - {newest})
        if spare > 0:
            for one in old:
                fewer = min(spare, max(0, replicas[one] - available[one]))
                replicas[one] -= fewer
                spare -= fewer
            spare = sum(available.values()) - wanted
            for one in old:
                fewer = min(max(0, spare), replicas[one])
                replicas[one] -= fewer
                spare -= fewer
        for one in replicas.keys() - {key for key, count in before.items() if count == replicas[key]}:
            client.patch("machinesets", one, {"spec": {"replicas": replicas[one]}}, NAMESPACE)

    def _replicate(self, client: Client) -> None:
        for one in client.list("machinesets", NAMESPACE):
            owned = _owned(client.list("machines", NAMESPACE), one)
            wanted = one["spec"]["replicas"]
            for _ in range(wanted - len(owned)):
                self._count += 1
                name = f"{one['metadata']['name']}-{self._count:03}"
                client.create("machines", self._object("Machine", name, one, {"clusterName": CLUSTER}), NAMESPACE)
            for machine in sorted(owned, key=_priority)[: max(0, len(owned) - wanted)]:
                if not machine["metadata"].get("deletionTimestamp"):
                    client.delete("machines", machine["metadata"]["name"], NAMESPACE)

    def _end(self, client: Client) -> None:
        for machine in client.list("machines", NAMESPACE):
            if machine["metadata"].get("deletionTimestamp"):
                client.patch("machines", machine["metadata"]["name"], {"metadata": {"finalizers": None}}, NAMESPACE)

    def _start(self, client: Client) -> None:
        for used, machine in enumerate(client.list("machines", NAMESPACE)):
            name = machine["metadata"]["name"]
            if not (machine.get("status") or machine["metadata"].get("deletionTimestamp")):
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


def _owned(objects: list[dict[str, Any]], owner: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that this one made."""
    uid = owner["metadata"]["uid"]
    return [one for one in objects if uid in (ref["uid"] for ref in one["metadata"].get("ownerReferences", ()))]


def _is_healthy(machine: dict[str, Any]) -> bool:
    return machine.get("status", {}).get("phase") == "Running" and not machine["metadata"].get("deletionTimestamp")


def _priority(machine: dict[str, Any]) -> tuple[int, str]:
    """cluster-api's: those that go already, those that are marked, those in trouble, then any."""
    meta = machine["metadata"]
    if meta.get("deletionTimestamp"):
        return 0, meta["name"]
    if MARK in meta.get("annotations", {}):
        return 1, meta["name"]
    return (3 if _is_healthy(machine) else 2), meta["name"]
