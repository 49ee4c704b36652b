"""A simulated manager over a small fabric on virtual time, and a client that asks it as real clients do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from dds_lab.actors.fabric import Answer, Fabric
from dds_lab.manager import Manager, ManagerSettings
from dds_lab.manager.transport import ManagerTransport
from dds_lab.scenario.parts import Fabrics
from dds_lab.scenario.values import fixed
from dds_lab.time import VirtualTime

A100, H100, NIC = "A100 40G", "H100 80G", "NIC 100G"
ENDPOINT = "https://cdi.example"
SECOND = 1_000_000
TOKEN = "/id_manager/realms/{}/protocol/openid-connect/token"
MACHINES = "/fabric_manager/api/v1/machines"
START = 1_795_219_200 * SECOND
Pools = Mapping[tuple[str, str], int]
POOLS = {("1", A100): 4, ("1", H100): 2, ("1", NIC): 1, ("2", A100): 3}


class ManagerRoom:
    """node0 and node1 are in fabric 1, node2 in fabric 2, node3 in none. An attach takes 2 s, a detach 1 s."""

    def __init__(self, settings: ManagerSettings | None = None, *, pools: Pools = POOLS) -> None:
        self.time = VirtualTime(1, START)
        self.fabric = Fabric(self.time, pools, Fabrics(attach=fixed(2.0), detach=fixed(1.0)))
        self.nodes = [self.fabric.connect(f"node{at}", fabric) for at, fabric in enumerate(("1", "1", "2", ""))]
        self.manager = Manager(self.time, self.fabric, settings or ManagerSettings(types={NIC: "nic"}))
        self.transport = ManagerTransport(self.manager, step=self.time.step)
        self.client = httpx.Client(transport=self.transport, base_url=ENDPOINT)
        self.tenant, self.cluster = self.manager.settings.tenant, self.manager.settings.cluster

    # -- what passes

    def run(self, seconds: float) -> None:
        self.time.run(self.time.now() + round(seconds * SECOND))

    def operator_attaches(self, node: str = "node0", model: str = A100) -> str:
        """What the lab's operator does, beside the manager's APIs; gives the device's serial."""
        answers: list[Answer] = []
        self.fabric.attach(node, model, answers.append)
        self.run(3)
        (answer,) = answers
        assert answer.device is not None
        return answer.device.serial

    # -- what is asked

    def form(self, **other: str) -> dict[str, str]:
        """A login's form."""
        login = self.manager.settings.login
        return {
            "client_id": login.client_id,
            "client_secret": login.client_secret,
            "username": login.username,
            "password": login.password,
            "scope": "openid",
            "response_type": "id_token token",
            "grant_type": "password",
            **other,
        }

    def login(self, **other: str) -> httpx.Response:
        """Log in; further calls carry the token."""
        answer = self.client.post(TOKEN.format(self.manager.settings.login.realm), data=self.form(**other))
        if answer.status_code == 200:
            self.client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return answer

    def get(self, path: str, **query: str) -> httpx.Response:
        return self.client.get(path, params=query)

    def machines(self) -> Any:
        return self.get(MACHINES, tenant_uuid=self.tenant).json()["data"]["machines"]

    def machine(self, node: int = 0) -> Any:
        answer = self.get(f"{MACHINES}/{self.nodes[node].uuid}", tenant_uuid=self.tenant)
        return answer.json()["data"]["machines"][0]

    def available(self, node: int = 0, model: str = A100, type: str = "gpu") -> httpx.Response:
        condition = json.dumps({"column": "model", "operator": "eq", "value": model})
        path = f"{MACHINES}/{self.nodes[node].uuid}/available-reserved-resources"
        return self.get(path, tenant_uuid=self.tenant, res_type=type, condition=condition)

    def free(self, node: int = 0, model: str = A100, type: str = "gpu") -> int:
        return int(self.available(node, model, type).json()["reserved_res_num_per_fabric"])

    def update(self, method: str, spec: Mapping[str, Any], node: int = 0) -> httpx.Response:
        machine = {"mach_uuid": self.nodes[node].uuid, "resources": [{"res_specs": [spec]}]}
        body = {"tenants": {"tenant_uuid": self.tenant, "machines": [machine]}}
        path = f"{MACHINES}/{self.nodes[node].uuid}/update"
        return self.client.request(method, path, params={"tenant_uuid": self.tenant}, json=body, timeout=180.0)

    def attach(self, node: int = 0, model: str = A100, number: int = 1, type: str = "gpu") -> httpx.Response:
        condition = {"column": "model", "operator": "eq", "value": model}
        spec = {"res_type": type, "res_spec": {"condition": [condition]}, "res_num": number}
        return self.update("PATCH", spec, node)

    def detach(self, resource: str, node: int = 0, type: str = "gpu") -> httpx.Response:
        return self.update("DELETE", {"res_type": type, "res_uuid": resource, "res_num": 1}, node)

    # -- the cluster manager

    def cm(self, version: str, rest: str) -> str:
        base = f"/cluster_manager/cluster_autoscaler/{version}/tenants/{self.tenant}/clusters/{self.cluster}"
        return f"{base}/{rest}"

    def node_detail(self, node: int = 0) -> Any:
        return self.get(self.cm("v3", f"machines/{self.nodes[node].uuid}")).json()

    def spec(self, node: int = 0, model: str = A100) -> Any:
        """The spec of a model in a machine's detail."""
        specs = self.node_detail(node)["data"]["cluster"]["machine"]["resspecs"]
        (found,) = [one for one in specs if one["selector"]["expression"]["conditions"][0]["value"] == model]
        return found

    def resize(self, body: Mapping[str, Any], node: int = 0) -> httpx.Response:
        return self.client.post(self.cm("v3", f"machines/{self.nodes[node].uuid}/actions/resize"), json=body)

    def grow(self, count: int, node: int = 0, model: str = A100) -> httpx.Response:
        order = {"spec_uuid": self.spec(node, model)["spec_uuid"], "device_count": count}
        return self.resize({"increase_resource_count": order}, node)

    def shrink(self, count: int, devices: list[str], node: int = 0, model: str = A100) -> httpx.Response:
        order = {"spec_uuid": self.spec(node, model)["spec_uuid"], "device_count": count, "devices": devices}
        return self.resize({"remove_resources": order}, node)


def logged_in(settings: ManagerSettings | None = None, *, pools: Pools = POOLS) -> ManagerRoom:
    """A room whose client has a token."""
    room = ManagerRoom(settings, pools=pools)
    assert room.login().status_code == 200
    return room


def errors(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The detail of an error body, which is checked to be of its form."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"status", "detail"}
    assert body["status"] == status
    assert set(body["detail"]) == {"code", "message", "data"}
    assert body["detail"]["code"] == code
    detail: dict[str, Any] = body["detail"]
    return detail
