"""A whole cluster with every actor, and what a recording and a run of it have in common: who went through which
states."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from dds_lab.actors.claim_controller import ClaimController
from dds_lab.actors.fabric import Fabric
from dds_lab.actors.kubelet import Kubelet
from dds_lab.actors.models import DeviceInfo, Model, config_map
from dds_lab.actors.node_lifecycle import NodeLifecycle
from dds_lab.actors.operator import Operator
from dds_lab.actors.publisher import ReferencePublisher
from dds_lab.actors.scaler import ReferenceScaler
from dds_lab.actors.scheduler import Scheduler, SchedulerSettings
from dds_lab.actors.vendor import VendorDriver
from dds_lab.actors.workloads import Workloads
from dds_lab.client import Object
from dds_lab.latency import Fixed
from dds_lab.scenario.parts import (
    ControllersPart,
    KubeletPart,
    OperatorPart,
    Profile,
    PublisherPart,
    ScalerPart,
    VendorPart,
)
from dds_lab.scenario.scenario import Run
from dds_lab.scenario.values import between, fixed
from tests.lab.actors.rooms import A100, GPU, PRODUCTS, Room

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"
ONLY_A100 = Model(1, A100, "nvidia-a100-40", GPU, {"productName": "NVIDIA A100 40GB PCIe"})


class Scripted:
    """Durations that come in the order in which they were recorded; the last one goes on."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = list(seconds)

    def draw(self, random: Random) -> float:
        return self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]


class Plant(Room):
    """As in the recordings: one model, nodes called node0000 …, parts that answer at once. `nodes` are chosen in
    this order where they are equal."""

    def __init__(self, *, count: int, nodes: int, attach: Sequence[float], choices: Sequence[str] = ()) -> None:
        super().__init__()
        self.fabric = Fabric(self.time, {("1", A100): count})
        self.fabric.takes["attach"] = ({}, Scripted(attach))
        self._choices = list(choices)
        self.user.create(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "composable-dra"}}
        )
        self.user.create("configmaps", config_map(DeviceInfo((ONLY_A100,), fabrics=(1,))))
        product = f'device.attributes["{GPU}"].productName == "{PRODUCTS[0].product}"'
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{GPU}" && {product}'}}]}
        metadata = {"name": "nvidia-a100-40"}
        device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}
        self.user.create("deviceclasses", device_class)
        for number in range(nodes):
            name = f"node{number:04d}"
            self.fabric.connect(name, "1")
            self.node(name, **{"cohdi.io/fabric": "1", "cohdi.io/nvidia-a100-40": "true"})
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
            self.user.patch("nodes", name, {"status": {"conditions": [ready]}}, subresource="status")
        self._start_all()

    def _start_all(self) -> None:
        def client(user: str) -> Any:
            return self.client(user)

        settings = VendorPart(start=between(0.01, 0.02))
        vendor = self.start(VendorDriver(client("vendor"), self.time, settings, PRODUCTS, self.fabric))
        operator = OperatorPart(kind="ideal", deletes_with_node=False)
        self.start(Operator(client("operator"), self.time, operator, self.fabric, vendor, ""))
        self.start(ReferencePublisher(client("publisher"), self.time, PublisherPart(interval=0.0), self.fabric))
        self.start(ReferenceScaler(client("peer-dds"), self.time, ScalerPart()))
        self.start(ClaimController(client("claims"), self.time))
        kubelet = KubeletPart(stop=fixed(0.003))
        self.start(Kubelet(client("kubelet"), self.time, kubelet, self.fabric, {GPU: vendor}, Fixed(0.003)))
        self.start(NodeLifecycle(client("nodes"), self.time, ControllersPart()))
        scheduler = SchedulerSettings(profiles={"default-scheduler": Profile(binding_timeout=45.0)}, tie=self._choose)
        self.start(Scheduler(client("kube-scheduler"), self.time, scheduler))
        self.work = self.start(Workloads(client("people"), self.time))

    def _choose(self, pod: str, nodes: Sequence[str]) -> str | None:
        if self._choices and self._choices[0] in nodes:
            return self._choices.pop(0)
        return None

    def pod_of(self, name: str, count: int = 1) -> None:
        self.work.run(Run(name=name, devices={"nvidia-a100-40": count}))

    def until(self, done: Callable[[], bool], within: float = 120.0) -> None:
        """Run until something is so."""
        end = self.time.now() + round(within * 1_000_000)
        while not done():
            assert self.time.now() < end, "it does not happen"
            self.run(0.01)

    def runs(self, name: str) -> bool:
        return self.state("pods", name, "default").get("phase") == "Running"


class Told:
    """What a recording, or a run, tells of states and devices, without times and names that chance made."""

    def __init__(self) -> None:
        self.resources: dict[str, list[str]] = {}  # name → node, states
        self.requests: dict[str, list[Any]] = {}  # node → sizes and states
        self.slices: dict[str, list[tuple[str, ...]]] = {}
        self.claims: dict[str, list[str]] = {}

    def note(self, resource: str, obj: Object, gone: bool) -> None:
        name, status = obj["metadata"]["name"], obj.get("status") or {}
        if resource == "composableresources":
            states = self.resources.setdefault(name, [obj["spec"]["target_node"]])
            _add(states, "gone" if gone else status.get("state", ""))
        elif resource == "composabilityrequests":
            wanted = obj["spec"]["resource"]
            states = self.requests.setdefault(wanted["target_node"], [])
            if status.get("state", "") != "NodeAllocating":
                _add(states, "gone" if gone else status.get("state", ""))
        elif resource == "resourceslices":
            devices = tuple(one["name"] for one in obj["spec"].get("devices") or ())
            _add(self.slices.setdefault(name, []), ("gone",) if gone else devices)
        elif resource == "resourceclaims":
            _add(self.claims.setdefault(name, []), "gone" if gone else _of_claim(obj))


def _add(story: list[Any], value: Any) -> None:
    if not story or story[-1] != value:
        story.append(value)


def _of_claim(claim: Object) -> str:
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    if not allocation:
        return "free"
    devices = ",".join(f"{one['pool']}/{one['device']}" for one in allocation["devices"]["results"])
    conditions = sorted({each["type"] for one in status.get("devices") or () for each in one.get("conditions") or ()})
    return f"{devices} {' '.join(conditions)} {'reserved' if status.get('reservedFor') else ''}".strip()


def events(name: str) -> Iterator[tuple[float, str, str, Object]]:
    """(seconds, resource, type, object) of a recording."""
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz", "rt") as lines:
        for line in lines:
            found = json.loads(line)
            if found["type"] != "BOOKMARK":
                at = datetime.fromisoformat(found["ts"]).timestamp()
                yield at, found["resource"], found["type"], found["object"]


def recorded(name: str) -> Told:
    told = Told()
    for _, resource, type, obj in events(name):
        told.note(resource, obj, type == "DELETED")
    return told


def attach_times(name: str) -> list[float]:
    """How long each attach took, in the order in which they were begun."""
    begun: dict[str, float] = {}
    took: dict[str, float] = {}
    for at, resource, _, obj in events(name):
        if resource == "composableresources":
            status, key = obj.get("status") or {}, obj["metadata"]["name"]
            if status.get("state") == "Attaching":
                begun.setdefault(key, at)
            if status.get("device_id") and key in begun:
                took.setdefault(key, at - begun[key])
    return [took[key] for key in begun if key in took]


def followed(plant: Plant) -> Told:
    """From now on: the same of a run."""
    told = Told()

    def follow(resource: str) -> None:
        def note(old: Object | None, new: Object | None) -> None:
            obj = new or old
            assert obj is not None
            told.note(resource, obj, new is None)

        mirror = plant.user.mirror(resource)
        mirror.on_change(note)
        for obj in mirror.values():
            note(None, obj)

    for resource in ("composableresources", "composabilityrequests", "resourceslices", "resourceclaims"):
        follow(resource)
    return told
