"""An API server on virtual time, asked in process and (without sockets) over HTTP."""

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode

from dds_lab.api.gates import Gates
from dds_lab.api.kinds import Object
from dds_lab.api.requests import MASTERS, Request, Response, User
from dds_lab.api.server import ApiServer
from dds_lab.api.watches import Stream
from dds_lab.client import Client
from dds_lab.crds import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from dds_lab.time import VirtualTime

START = 1_795_219_200_000_000  # 2026-11-21T00:00:00Z
SECOND = 1_000_000
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ALL_CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
REQUESTS = "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composabilityrequests"
MERGE = "application/merge-patch+json"


class Room:
    """A server, its time, and an administrator. `http` asks as whoever a token stands for."""

    def __init__(self, history: int = 20_000, served: Collection[str] = (), version: str = "1.36") -> None:
        self.time = VirtualTime(1, START)
        gates = Gates.for_version(version, {"DRADeviceTaintRules": True}, served)
        random = self.time.random("server")
        self.server = ApiServer(gates=gates, now=self.time.now, random=random, history=history)
        self.admin = Client(self.server, self.time, "admin")
        self.server.access.register("admin", User("admin", (MASTERS,)))
        self.server.access.register("dds", User("ddsuser"))

    def with_definitions(self) -> "Room":
        for definition in (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES):
            self.admin.create("customresourcedefinitions", definition)
        return self

    def ask(
        self, method: str, path: str, body: Any = None, params: dict[str, str] | None = None, who: str = "admin",
        headers: dict[str, str] | None = None, type: str = "",
    ) -> Response | Stream:  # fmt: skip
        sent = {"user-agent": "tests/1", **(headers or {})}
        if who:
            sent["authorization"] = f"Bearer {who}"
        if body is not None or type:
            sent["content-type"] = type or (MERGE if method == "PATCH" else "application/json")
        packed = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.server.respond(Request(method, path, urlencode(params or {}), sent, packed))

    def http(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        """Code and decoded body (text where it is no JSON)."""
        answer = self.ask(method, path, body, **more)
        assert isinstance(answer, Response), "a stream came where an answer was expected"
        return answer.code, decoded(answer.body)

    def stream(self, path: str = CLAIMS, who: str = "admin", **params: str) -> Stream:
        answer = self.ask("GET", path, params={"watch": "1", **params}, who=who)
        assert isinstance(answer, Stream), answer
        return answer

    def claim(self, name: str, namespace: str = "default", **meta: Any) -> Object:
        return self.admin.create("resourceclaims", claim(name, **meta), namespace)

    def label(self, name: str, **labels: str | None) -> Object:
        return self.admin.patch("resourceclaims", name, {"metadata": {"labels": labels}}, "default")

    def allocate(self, name: str, device: str = "gpu-0", driver: str = "gpu.nvidia.com") -> Object:
        result = {"request": "r0", "driver": driver, "pool": "p", "device": device}
        status = {"allocation": {"devices": {"results": [result]}}}
        return self.admin.patch("resourceclaims", name, {"status": status}, "default", subresource="status")


def claim(name: str, **meta: Any) -> Object:
    request = {"name": "r0", "exactly": {"deviceClassName": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **meta},
        "spec": {"devices": {"requests": [request]}},
    }


def request(name: str, size: int = 1, **meta: Any) -> Object:
    return {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposabilityRequest",
        "metadata": {"name": name, **meta},
        "spec": {"resource": {"type": "gpu", "model": "A100", "size": size}},
    }


def pod(name: str, **spec: Any) -> Object:
    container = {"name": "c", "image": "i"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def events(stream: Stream) -> list[tuple[str, str]]:
    """What a stream has to tell, as (type, name); a bookmark by its version."""
    found = []
    for line in stream.take():
        assert line.endswith(b"\n")
        event = json.loads(line)
        meta = event["object"].get("metadata", {})
        found.append((event["type"], meta.get("name") or meta.get("resourceVersion") or event["object"].get("reason")))
    return found


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]
