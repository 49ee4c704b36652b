"""The recorded burst's pods on a lab whose devices are attached by a stand-in: who waits on a pool's device gets one on the node
within seconds and is sent back to the scheduler, as a scaler without steering does it. Counts where hand-overs land.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dds_lab.client import Client, instants
from dds_lab.time import VirtualTime
from tests.support.lab_recordings import Call, Player, say

Object = dict[str, Any]
ATTACH = (1.65, 2.4)
GPU = "gpu.nvidia.com"


@dataclass
class HandOvers:
    """Hand-overs that came back to the node that was made ready, and that went elsewhere."""

    stayed: int = 0
    moved: int = 0
    made_ready: dict[str, str] = field(default_factory=dict)

    def follow(self, old: Object | None, new: Object | None) -> None:
        """Told of every change of a claim."""
        if new is None:
            return
        uid = new["metadata"]["uid"]
        allocation = allocated(new)
        if allocation is not None and any(
            one["type"] == "FabricDeviceReschedule"
            for entry in new["status"].get("devices") or ()
            for one in entry["conditions"]
        ):
            self.made_ready[uid] = node_of(allocation)
        elif allocation is not None and allocated(old) is None and uid in self.made_ready:
            same = self.made_ready.pop(uid) == node_of(allocation)
            self.stayed += same
            self.moved += not same


@dataclass
class Attacher:
    """For every device of a pool that a claim waits for: one less in the pool, one more on the node, then the signal."""

    client: Client
    time: VirtualTime

    def __post_init__(self) -> None:
        self._random = self.time.random("attacher")
        self._seen: dict[str, str] = {}

    def follow(self, old: Object | None, new: Object | None) -> None:
        """Told of every change of a claim."""
        if new is None:
            return
        allocation, meta = allocated(new), new["metadata"]
        version = str((allocation or {}).get("allocationTimestamp", ""))
        if allocation is None or self._seen.get(meta["uid"]) == version:
            return
        self._seen[meta["uid"]] = version
        pools = [one["pool"] for one in allocation["devices"]["results"] if one.get("bindingConditions")]
        if pools:
            slowest = 0.0
            for pool in pools:
                took = self._random.uniform(*ATTACH)
                slowest = max(slowest, took)
                self.time.after(0.15, partial(self._shrink, pool))
                self.time.after(took, partial(self._attach, node_of(allocation), pool))
            self.time.after(slowest + 0.02, partial(self._signal, meta["name"], allocation))

    def _shrink(self, pool: str) -> None:
        self._slice(lambda one: one["spec"]["pool"]["name"] == pool, lambda devices: devices[:-1])

    def _attach(self, node: str, pool: str) -> None:
        product = "NVIDIA A100 40GB PCIe" if "a100" in pool else "NVIDIA H100 80GB PCIe"

        def grown(devices: list[Object]) -> list[Object]:
            device = {"name": f"gpu-{len(devices)}", "attributes": {"productName": {"string": product}}}
            return [*devices, device]

        self._slice(lambda one: one["spec"].get("nodeName") == node, grown)

    def _slice(self, which: Callable[[Object], bool], change: Callable[[list[Object]], list[Object]]) -> None:
        for found in self.client.list("resourceslices"):
            if which(found):
                spec = found["spec"]
                pool = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
                spec = {**spec, "pool": pool, "devices": change(spec.get("devices") or [])}
                self.client.update("resourceslices", {**found, "spec": spec})

    def _signal(self, name: str, allocation: Object) -> None:
        claim = self.client.find("resourceclaims", name, "default")
        if claim is None or allocated(claim) != allocation:
            return
        condition = {
            "type": "FabricDeviceReschedule",
            "status": "True",
            "reason": "Attached",
            "message": "",
            "lastTransitionTime": instants.written(self.time.now()),
        }
        devices = [
            {"driver": GPU, "pool": one["pool"], "device": one["device"], "conditions": [condition]}
            for one in allocation["devices"]["results"]
        ]
        self.client.update("resourceclaims", {**claim, "status": {**claim["status"], "devices": devices}}, "status")


class Burst(Player):
    """The recorded pods, nodes and first slices; everything else happens here."""

    def inputs(self) -> list[tuple[int, Call]]:
        """Without conditions, and without what happened to slices later."""
        self.recorded = [row for row in self.recorded if row.resource != "resourceslices" or row.type == "ADDED"]
        return [(at, call) for at, call in super().inputs() if getattr(call, "func", None) is not say]


def run(seed: int) -> HandOvers:
    """One burst without steering."""
    burst = Burst("burst", timeout=60.0, seed=seed, steered=False)
    attacher, counted = Attacher(burst.user, burst.time), HandOvers()
    claims = burst.user.mirror("resourceclaims")
    claims.on_change(counted.follow)
    claims.on_change(attacher.follow)
    burst.play()
    return counted


def allocated(claim: Object | None) -> Object | None:
    """status.allocation."""
    found: Object | None = ((claim or {}).get("status") or {}).get("allocation")
    return found


def node_of(allocation: Object) -> str:
    """The node that an allocation is for."""
    found: str = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return found
