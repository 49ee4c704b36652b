"""The other side of the bench of the live scaler: an API server over HTTP, in a process of its own, and who else is there.

`python -m benchmarks.serve_cluster NODES CLAIMS PODS DEMANDS WAITING KUBECONFIG` serves until its input ends. It tells `ready`
when it answers, and when the last of the claims that wait from the start has its ComposabilityRequest; a line `PACE COUNT` lets
so many claims be allocated at so many a second. What it then tells, as JSON, are the milliseconds from each allocation to the
ComposabilityRequest that came of it: both are instants of this process's clock, taken where the store is written.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time as wall
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks import serve_world as world
from benchmarks.serve_world import Size
from dds_lab.actors.models import Model
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import Object
from dds_lab.api.requests import User
from dds_lab.api.server import ApiServer
from dds_lab.api.store import ADDED, DELETED, Change
from dds_lab.client import Client
from dds_lab.crds import DEFINITIONS
from dds_lab.http_frontend.credentials import ADMIN, Credentials
from dds_lab.http_frontend.serving import HttpFrontend, calm_collector, run
from dds_lab.time import RealTime

OURS = "dds"
ATTACH_SECONDS, SCHEDULE_SECONDS, NOTICE_SECONDS = 0.5, 0.05, 0.5
LATE_SECONDS = 20.0


class Others:
    """Users, scheduler, operator, fabric and the vendor's driver, reduced to what one claim after the other needs of them: a
    pod comes, its claim is allocated a device of a pool, the request for it is answered by an attach, the signal by an
    allocation on the node and the binding of the pod."""

    def __init__(self, client: Client, time: RealTime, size: Size, waiting: int) -> None:
        self._client = client
        self._first = waiting
        self._time = time
        self._size = size
        self._devices: Counter[str] = Counter(
            {world.node_name(n): size.claims // size.nodes for n in range(size.nodes)}
        )
        self._asked: dict[tuple[str, str], int] = {}
        self._waiting: dict[str, tuple[str, str]] = {}
        self._given = 0
        self.delays: list[float] = []
        self.bound = 0
        for plural, noted in ((world.REQUESTS, self._request), ("resourceclaims", self._claim)):
            client.server.store.subscribe(client.resource(plural).key, noted)

    def demand(self, notice: float = NOTICE_SECONDS) -> None:
        """One more pod, on the next node in turn, whose claim is allocated so many seconds later; each round of the nodes asks
        for another model."""
        at, self._given = self._given, self._given + 1
        node, model = world.node_name(at % self._size.nodes), self._size.wanted[at // self._size.nodes]
        name = f"demand-{at}"
        pod, claim = world.new_pod(self._client, name), world.new_claim(self._client, name, model)
        place = at % self._size.nodes % world.NODES_A_FABRIC
        result = {
            "request": "r0",
            "driver": world.DRIVER,
            "pool": world.pool_name(model, world.fabric_of(at % self._size.nodes)),
            "device": f"{model.device}-{place}",
            **world.CONDITIONS,
        }
        self._time.after(notice, lambda: self._allocate(claim, pod, node, model, result))

    def _allocate(self, claim: Object, pod: Object, node: str, model: Model, result: Object) -> None:
        self._waiting[claim["metadata"]["name"]] = (node, model.model)
        self._asked[(node, model.model)] = wall.monotonic_ns()
        world.allocate(self._client, claim, pod, node, result)

    def _request(self, change: Change) -> None:
        """Of a write to a request; the store is only written later."""
        wanted = change.new.object["spec"]["resource"]
        cell = (wanted["target_node"], wanted["model"])
        asked = self._asked.pop(cell, None) if change.type == ADDED else None
        if asked is not None:
            now = wall.monotonic_ns()
            self.delays.append((now - asked) / 1e6)
            if len(self.delays) == self._first:
                self._first = 0
                _say({"requested": now / 1e9})
            name = change.new.object["metadata"]["name"]
            self._time.after(ATTACH_SECONDS, lambda: self._attach(name, *cell))

    def _attach(self, request: str, node: str, model: str) -> None:
        number = self._devices[node]
        self._devices[node] += 1
        found = next(one for one in self._size.wanted if one.model == model)
        device = world.local_device(found, number, f"{node}-{number}")
        world.attached(self._client, request, node, found, device["attributes"]["uuid"]["string"])
        world.settle_request(self._client, self._client.get(world.REQUESTS, request))
        slice_ = self._client.get("resourceslices", f"{node}-gpu-nvidia-com")
        spec = slice_["spec"]
        pool = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
        devices = [*spec.get("devices", ()), device]
        self._client.update("resourceslices", {**slice_, "spec": {**spec, "pool": pool, "devices": devices}})

    def _claim(self, change: Change) -> None:
        name = change.new.object["metadata"]["name"]
        if change.type != DELETED and name in self._waiting and _signalled(change.new.object):
            node, _ = self._waiting.pop(name)
            self._time.after(SCHEDULE_SECONDS, lambda: self._clear(name, node))

    def _clear(self, name: str, node: str) -> None:
        claim = self._client.get("resourceclaims", name, world.TEAM)
        self._client.update("resourceclaims", {**claim, "status": {}}, "status")
        self._time.after(SCHEDULE_SECONDS, lambda: self._bind(name, node))

    def _bind(self, name: str, node: str) -> None:
        claim, pod = (self._client.get(kind, name, world.TEAM) for kind in ("resourceclaims", "pods"))
        devices = self._client.get("resourceslices", f"{node}-gpu-nvidia-com")["spec"]["devices"]
        result = {"request": "r0", "driver": world.DRIVER, "pool": node, "device": devices[-1]["name"]}
        world.allocate(self._client, claim, pod, node, result)
        self._client.bind(name, world.TEAM, node)
        self.bound += 1


def _signalled(claim: Object) -> bool:
    entries: list[dict[str, Any]] = (claim.get("status") or {}).get("devices") or []
    return any(one["status"] == "True" for entry in entries for one in entry.get("conditions") or ())


async def _allocations(others: Others, pace: float, count: int) -> dict[str, Any]:
    """Let so many claims be allocated, and wait for what comes of them."""
    others.delays.clear()
    before = others.bound
    begun = wall.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, begun + number / pace - wall.monotonic()))
        others.demand()
    until = wall.monotonic() + LATE_SECONDS
    while (len(others.delays) < count or others.bound - before < count) and wall.monotonic() < until:
        await asyncio.sleep(0.1)
    return {"delays": others.delays, "bound": others.bound - before}


def _counted(face: HttpFrontend) -> Counter[str]:
    """Counts requests by HTTP method."""
    counts: Counter[str] = Counter()
    respond: Callable[[Any], Any] = face.server.respond

    def counting(request: Any) -> Any:
        counts[request.method] += 1
        return respond(request)

    face.server.respond = counting  # type: ignore[method-assign]
    return counts


def serve(size: Size, waiting: int, kubeconfig: str) -> None:
    """Until the input ends."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = RealTime(loop, lambda: wall.time_ns() // 1000, 0)
        server = ApiServer(gates=Gates.for_version("1.36"), now=clock.now, random=Random(1))
        client = Client(server, clock, "others")
        for definition in DEFINITIONS:
            client.create("customresourcedefinitions", definition)
        world.fill(client, size)
        others = Others(client, clock, size, waiting)
        for _ in range(waiting):  # who waits already when a scaler starts
            others.demand(0.0)
        face = HttpFrontend(server, clock, Credentials({OURS: User(OURS, ADMIN.groups)}))
        counts = _counted(face)
        await face.listen(tls=False)
        face.kubeconfig(kubeconfig)
        calm_collector()
        _say("ready")
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            pace, count = line.split()
            before = Counter(counts)
            told = await _allocations(others, float(pace), int(count))
            _say({**told, "requests": counts - before})
        await face.stop(0)

    run(main)


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    *_numbers, _waiting, _path = sys.argv[1:]
    serve(Size(*map(int, _numbers)), int(_waiting), _path)
