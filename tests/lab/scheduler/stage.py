"""A server on virtual time with a scheduler, nodes, devices and pods, and a list of the writes in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dds_lab.actors.claim_controller import ClaimController
from dds_lab.actors.objects import claim_names
from dds_lab.actors.scheduler import Latencies, Scheduler, SchedulerSettings
from dds_lab.client import Object, instants
from dds_lab.latency import Fixed
from dds_lab.scenario.parts import Profile
from tests.lab.actors.rooms import SECOND, Room

DRIVER = "gpu.example.com"
QUICK = Latencies(seen=Fixed(0.0005), cycle=Fixed(0.002), write=Fixed(0.004))
CONDITIONS = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Again", "Failed"]}
LABELS = {"fabric": "1"}


class Stage(Room):
    """Nodes come free of taints; the default class takes every device of the driver."""

    def __init__(self, *, nodes: int = 2, seed: int = 1, claims: bool = False, **more: Any) -> None:
        super().__init__(seed=seed, **more)
        self.user.create("deviceclasses", device_class("gpus"))
        for number in range(nodes):
            self.bare_node(f"node{number}")
        if claims:
            self.start(ClaimController(self.client("claims"), self.time))

    def scheduler(self, timeout: float = 30.0, **settings: Any) -> Scheduler:
        profiles = settings.pop("profiles", {"default-scheduler": Profile(binding_timeout=timeout)})
        latencies = settings.pop("latencies", QUICK)
        exited: Callable[[str], None] = settings.pop("exited", lambda why: None)
        chosen = SchedulerSettings(profiles=profiles, latencies=latencies, **settings)
        return self.start(Scheduler(self.client("kube-scheduler"), self.time, chosen, exited))

    # -- things to have

    def bare_node(
        self, name: str, *, cpu: str = "64", pods: str = "250", spec: Object | None = None, **labels: str
    ) -> None:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **LABELS, **labels}}
        node = self.user.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        node = self.user.update("nodes", {**node, "spec": spec or {}})
        room = {"cpu": cpu, "memory": "512Gi", "pods": pods}
        self.user.update("nodes", {**node, "status": {"capacity": room, "allocatable": room}}, "status")

    def change_node(self, name: str, **spec: Any) -> None:
        node = self.user.get("nodes", name)
        self.user.update("nodes", {**node, "spec": {**(node.get("spec") or {}), **spec}})

    def local(self, node: str, *devices: str) -> None:
        """The node's own devices, from now on exactly these."""
        self._slice(f"{node}-gpus", node, [{"name": name} for name in devices], {"nodeName": node})

    def pool(self, *devices: str, name: str = "pool", shared: bool = False, **more: Any) -> None:
        """Devices that every node reaches and that have to be made ready."""
        term = {"matchExpressions": [{"key": "fabric", "operator": "In", "values": ["1"]}]}
        kind = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}} if shared else {}
        waiting = [{"name": one, "bindsToNode": True, **CONDITIONS, **kind, **more} for one in devices]
        self._slice(name, name, waiting, {"nodeSelector": {"nodeSelectorTerms": [term]}})

    def _slice(self, name: str, pool: str, devices: list[Object], where: Object) -> None:
        found = self.user.find("resourceslices", name)
        generation = found["spec"]["pool"]["generation"] + 1 if found else 1
        spec = {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
            **where,
        }
        if found:
            self.user.update("resourceslices", {**found, "spec": spec})
        else:
            kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
            self.user.create("resourceslices", {**kind, "metadata": {"name": name}, "spec": spec})

    def job(self, name: str, *claims: str, cpu: str = "", priority: int = 0, **spec: Any) -> Object:
        """A pod that uses these claims, which must be there."""
        container: Object = {"name": "c", "image": "pause"}
        if cpu:
            container["resources"] = {"requests": {"cpu": cpu}}
        container |= spec.pop("container", {})
        given = [{"name": f"d{place}", "resourceClaimName": claim} for place, claim in enumerate(claims)]
        wanted = {"containers": [container], "priority": priority, "resourceClaims": given, **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": wanted}
        return self.user.create("pods", body, "default")

    def train(self, name: str, *, count: int = 1, **more: Any) -> None:
        """A claim and a pod for it, of one name."""
        self.claim(name, count=count)
        self.job(name, name, **more)

    def say(self, claim: str, condition: str, *, device: int = 0, reason: str = "Told", message: str = "") -> None:
        """Set a condition True on one of the claim's devices."""
        found = self.user.get("resourceclaims", claim, "default")
        result = found["status"]["allocation"]["devices"]["results"][device]
        told = {
            "type": condition,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": instants.written(self.time.now()),
        }
        named = {key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result}
        devices = [*(found["status"].get("devices") or ()), {**named, "conditions": [told]}]
        self.user.update("resourceclaims", {**found, "status": {**found["status"], "devices": devices}}, "status")

    def clear(self, claim: str) -> None:
        """Take allocation and reservations away, as the first write of an exchange does."""
        self._status(claim, {"allocation": None, "reservedFor": None})

    def give(self, claim: str, device: str, *, node: str = "node0", reserved: bool = True) -> None:
        """Allocate pool/device to a claim that has none, for the pod that uses it: the second write."""
        pool, _, name = device.partition("/")
        (request,) = self.user.get("resourceclaims", claim, "default")["spec"]["devices"]["requests"]
        result = {"request": request["name"], "driver": DRIVER, "pool": pool, "device": name}
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": instants.written(self.time.now()),
        }
        known = [
            {"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
            for one in self.user.list("pods", "default")
            if reserved and claim in claim_names(one)
        ]
        self._status(claim, {"allocation": allocation, "reservedFor": known or None})

    def exchange(self, claim: str, device: str) -> None:
        """Both writes."""
        self.clear(claim)
        self.give(claim, device)

    def _status(self, claim: str, status: Object) -> None:
        version = self.user.get("resourceclaims", claim, "default")["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "status": status}
        self.user.patch("resourceclaims", claim, body, "default", subresource="status")

    # -- things to look at

    def node_of(self, pod: str) -> str:
        """Where it was bound to, "" when it was not."""
        found: str = self.user.get("pods", pod, "default")["spec"].get("nodeName", "")
        return found

    def held(self, claim: str) -> list[str]:
        """The devices that a claim is allocated to, as pool/device."""
        allocation = self.state("resourceclaims", claim, "default").get("allocation") or {"devices": {"results": []}}
        return [f"{one['pool']}/{one['device']}" for one in allocation["devices"]["results"]]

    def reserved(self, claim: str) -> list[str]:
        return [one["name"] for one in self.state("resourceclaims", claim, "default").get("reservedFor") or ()]

    def condition(self, pod: str) -> tuple[str, str]:
        """Reason and message of PodScheduled."""
        found = [
            one for one in self.state("pods", pod, "default").get("conditions") or () if one["type"] == "PodScheduled"
        ]
        return (found[0].get("reason", ""), found[0].get("message", "")) if found else ("", "")

    def nominated(self, pod: str) -> str:
        found: str = self.state("pods", pod, "default").get("nominatedNodeName", "")
        return found

    def events(self, pod: str) -> list[str]:
        """The reasons of the Events about a pod, in the order in which they came."""
        found = [one for one in self.user.list("events.events.k8s.io") if one["regarding"]["name"] == pod]
        return [one["reason"] for one in sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))]

    def writes(self) -> list[tuple[float, str]]:
        """From now on: what the scheduler writes, with the seconds since now."""
        told: list[tuple[float, str]] = []
        begun = self.time.now()

        def note(resource: str, old: Object | None, new: Object | None) -> None:
            obj = new or old
            assert obj is not None
            text = f"{resource} {obj['metadata']['name']} {_said(old, new)}"
            told.append((round((self.time.now() - begun) / SECOND, 4), text))

        self.user.mirror("pods").on_change(lambda old, new: note("pod", old, new))
        self.user.mirror("resourceclaims").on_change(lambda old, new: note("claim", old, new))
        return told


def waiting(nodes: int = 1, seed: int = 1, **job: Any) -> Stage:
    """A pod, `job`, that has waited for two seconds for the one device of the pool."""
    stage = Stage(nodes=nodes, seed=seed)
    stage.pool("p-0")
    stage.scheduler()
    stage.train("job", **job)
    stage.run(2)
    return stage


def device_class(name: str, **more: Any) -> Object:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**kind, "metadata": {"name": name}, "spec": {"selectors": [selector], **more}}


def _said(old: Object | None, new: Object | None) -> str:
    """What changed, in a word or two."""
    if new is None:
        return "gone"
    if old is None:
        return "new"
    before, after = old.get("status") or {}, new.get("status") or {}
    said = []
    if (old["metadata"].get("finalizers") or []) != (new["metadata"].get("finalizers") or []):
        said.append("finalizer")
    for field in (
        "allocation",
        "reservedFor",
        "devices",
        "nominatedNodeName",
        "extendedResourceClaimStatus",
        "conditions",
    ):
        if before.get(field) != after.get(field):
            said.append(f"{field}{'' if after.get(field) else ' removed'}")
    if not old["spec"].get("nodeName") and new["spec"].get("nodeName"):
        said.append(f"bound {new['spec']['nodeName']}")
    return " + ".join(said)
