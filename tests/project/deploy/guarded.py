"""A lab with the guard as it is shipped, asked by dds's account with its own roles or by others. Whole exchanges by these roles:
test_role.py."""

from __future__ import annotations

import json
from typing import Any

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.cluster import path_of
from dds_lab.api.requests import MASTERS
from dds_lab.driver import Direct
from tests.project.deploy.admission import ACCOUNT
from tests.project.deploy.permitted import GROUPS, give_roles
from tests.support.served import client_of, new_server

Object = dict[str, Any]
SPACE = "composable-dra"
DRY = {"dryRun": "All"}
GUARDS = path_of("configmaps", "v1", SPACE, guard.CONFIG_MAP)
PROBE = path_of("resourceclaims", "resource.k8s.io/v1", SPACE, guard.PROBE)
DEVICE = ("gpu.nvidia.com", "node1", "gpu-0")
EXPIRY = "2026-11-21T00:01:00Z"
BEFORE, AFTER = "2026-11-21T00:00:59Z", "2026-11-21T00:01:01Z"
NODE: Object = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]}]
}


def allocation(
    request: str = "gpu", device: tuple[str, str, str] = DEVICE, timestamp: str = BEFORE, **more: Any
) -> Object:
    """Of one device, usable on a node."""
    result = {"request": request, **dict(zip(("driver", "pool", "device"), device, strict=True)), **more}
    found: Object = {"devices": {"results": [result]}, "nodeSelector": NODE}
    return found | ({"allocationTimestamp": timestamp} if timestamp else {})


class Room:
    """A server with what is shipped. `ask` gives code and answer."""

    def __init__(self) -> None:
        self.server = new_server()
        self.admin = client_of(self.server)
        give_roles(self.admin)

    def claim(self, name: str, status: Object | None = None) -> None:
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
        self.admin.create("resourceclaims", {"metadata": {"name": name}, "spec": spec}, "default")
        if status is not None:
            self.admin.patch("resourceclaims", name, {"status": status}, "default", subresource="status")

    def ask(
        self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None, user: str = ACCOUNT
    ) -> tuple[int, Object]:
        groups = GROUPS if user == ACCOUNT else (MASTERS,)
        raw = json.dumps(body).encode() if body is not None else None
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = Direct(self.server, user, groups).ask(method, path, query=query, body=raw, content_type=kind)
        return answer.code, json.loads(answer.body)

    def guard(self, expiry: str | None = EXPIRY, device: tuple[str, str, str] = DEVICE) -> None:
        code, answer = self.ask("PATCH", GUARDS, {"data": {guard.key(*device): expiry}})
        assert code == 200, answer

    def probe(self, device: tuple[str, str, str] = DEVICE) -> tuple[int, Object]:
        body = {"status": {"allocation": allocation("device", device)}}
        return self.ask("PATCH", f"{PROBE}/status", body, DRY)
