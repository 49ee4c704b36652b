"""A lab with a manager of its hardware: one fabric for both, told in a scenario, away and back, wrong by plan."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from dds_lab.lab import Lab
from dds_lab.manager.transport import ManagerTransport
from dds_lab.scenario import ScenarioError, parse

A100 = "A100 40G"
CLUSTER = """\
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
    - {model: NIC 100G, device: nic-100, product: NIC, driver: nic.example.com, type: nic}
  fabrics:
    - {id: 3, devices: {A100 40G: 4, NIC 100G: 2}}
  nodes:
    - {count: 2, fabric: 3, limits: {A100 40G: {max: 3, min: 1}}}
    - {count: 1, name: plain, fabric: null}
"""


class Asked:
    """A lab with a manager, and a client of it that has logged in."""

    def __init__(self, stack: ExitStack, text: str, cluster: str = CLUSTER) -> None:
        self.lab: Lab = stack.enter_context(Lab.virtual(parse(cluster + text, "test")))
        assert self.lab.manager is not None
        self.manager = self.lab.manager
        self.client = httpx.Client(transport=ManagerTransport(self.manager), base_url="https://manager.example")

    def login(self) -> httpx.Response:
        login = self.manager.settings.login
        form = {name: getattr(login, name) for name in ("client_id", "client_secret", "username", "password")}
        path = f"/id_manager/realms/{login.realm}/protocol/openid-connect/token"
        answer = self.client.post(path, data={**form, "scope": "openid", "grant_type": "password"})
        if answer.status_code == 200:
            self.client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return answer

    def machines(self) -> httpx.Response:
        return self.client.get("/fabric_manager/api/v1/machines", params={"tenant_uuid": self.manager.settings.tenant})

    def free(self, model: str = A100, type: str = "gpu") -> Any:
        uuid = self.machines().json()["data"]["machines"][0]["mach_uuid"]
        path = f"/fabric_manager/api/v1/machines/{uuid}/available-reserved-resources"
        condition = json.dumps({"column": "model", "operator": "eq", "value": model})
        query = {"tenant_uuid": self.manager.settings.tenant, "res_type": type, "condition": condition}
        return self.client.get(path, params=query).json()

    def cm(self, version: str, rest: str) -> Any:
        settings = self.manager.settings
        base = f"/cluster_manager/cluster_autoscaler/{version}/tenants/{settings.tenant}/clusters/{settings.cluster}"
        return self.client.get(f"{base}/{rest}").json()


def asked(stack: ExitStack, text: str, cluster: str = CLUSTER) -> Asked:
    found = Asked(stack, text, cluster)
    assert found.login().status_code == 200
    return found


def test_without_a_word_of_it_there_is_none() -> None:
    with Lab.virtual(parse(CLUSTER, "test")) as lab:
        assert lab.manager is None


def test_nodes_are_found_by_their_machines_uuids() -> None:
    with ExitStack() as stack:
        room = asked(stack, "parts: {manager: {}}\n")
        machines = {one["mach_name"]: one["mach_uuid"] for one in room.machines().json()["data"]["machines"]}
        for node in room.lab.client("test").list("nodes"):
            assert node["spec"]["providerID"] == f"lab://{machines[node['metadata']['name']]}"


def test_what_the_operator_attaches_is_gone_from_the_count_and_comes_back() -> None:
    story = "steps: [{run: {name: p, devices: {nvidia-a100-40: 1}, delete_after: 2m}}]\n"
    with ExitStack() as stack:
        parts = "parts: {manager: {token_life: 1h}, vendor: {start: 10ms}}\n"
        room = asked(stack, parts + story, CLUSTER.replace("min: 1", "min: 0"))
        assert room.free() == {"fabric_id": 3, "reserved_res_num_per_fabric": 4}
        assert room.free("NIC 100G", "nic")["reserved_res_num_per_fabric"] == 2
        attached = []
        for _ in range(12):
            room.lab.run(seconds=30)
            attached.append(len(room.lab.ledger.attached()))
            assert room.free()["reserved_res_num_per_fabric"] == 4 - attached[-1]
        assert max(attached) > attached[-1] == 0


def test_limits_and_groups_are_those_of_the_scenario() -> None:
    with ExitStack() as stack:
        room = asked(stack, "parts: {manager: {api: cm}}\n")
        groups = room.cm("v2", "nodegroups")["nodegroups"]
        assert [one["name"] for one in groups] == ["node", "plain"]
        assert len(room.cm("v2", f"nodegroups/{groups[0]['uuid']}")["mach_ids"]) == 2
        uuid = room.lab.fabric.machines()[0].uuid
        specs = room.cm("v3", f"machines/{uuid}")["data"]["cluster"]["machine"]["resspecs"]
        assert {one["type"]: (one["min_resspec_count"], one["max_resspec_count"]) for one in specs} == {
            "gpu": (1, 3),
            "nic": (None, None),
        }


def test_a_quota_is_the_scenarios() -> None:
    with ExitStack() as stack:
        assert asked(stack, "parts: {manager: {quotas: {A100 40G: 1}}}\n").free()["reserved_res_num_per_fabric"] == 1


def test_cdims_nodes_are_called_as_their_provider_ids() -> None:
    with ExitStack() as stack:
        room = Asked(stack, "parts: {manager: {api: nec}}\n")
        nodes = room.client.get("/cdim/api/v1/nodes", params={"detail": "true"}).json()["nodes"]
        ids = {one["spec"]["providerID"].lower() for one in room.lab.client("test").list("nodes")}
        assert {one["id"].lower() for one in nodes} == ids


def test_a_kind_that_is_no_gpu_is_told_in_the_config_map() -> None:
    with Lab.virtual(parse(CLUSTER, "test")) as lab:
        data = lab.client("test").get("configmaps", "composable-dra-dds", "composable-dra")["data"]
        gpu, nic = json.loads(data["device-info"])
        assert ("res-type" in gpu, nic["res-type"]) == (False, "nic")


def test_a_restart_forgets_every_token_and_is_an_outage_meanwhile() -> None:
    with ExitStack() as stack:
        room = asked(stack, "parts: {manager: {}}\nsteps: [{at: 10s, restart: {part: manager, down: 20s}}]\n")
        room.lab.run(seconds=9)
        assert room.machines().status_code == 200
        room.lab.run(seconds=2)
        with pytest.raises(httpx.ConnectError):
            room.machines()
        room.lab.run(seconds=20)
        assert room.machines().status_code == 401
        assert room.login().status_code == 200
        assert room.machines().status_code == 200


def test_faults_come_and_go_by_plan() -> None:
    faults = "faults: {manager: [{since: 10s, until: 20s, kind: error, code: 502, calls: [machines]}]}\n"
    with ExitStack() as stack:
        room = asked(stack, "parts: {manager: {}}\n" + faults)
        found = []
        for _ in range(3):
            found.append(room.machines().status_code)
            room.lab.run(seconds=12)
        assert found == [200, 502, 200]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parts: {manager: {api: other}}", "parts.manager.api"),
        ("parts: {manager: {tenant: mine}}", "parts.manager.tenant"),
        ("parts: {manager: {quotas: {A10: 1}}}", "no model 'A10' is known here"),
        ("faults: {manager: [{kind: slow}]}", "there is no manager"),
        ("parts: {manager: {}}\nfaults: {manager: [{kind: slow, calls: [other]}]}", "calls"),
        ("parts: {manager: {}}\nfaults: {manager: [{kind: error, code: 200}]}", "code"),
        ("parts: {manager: {}}\nfaults: {manager: [{kind: slow, nodes: [node7]}]}", "no node 'node7' is known here"),
        ("parts: {manager: {}}\nfaults: {manager: [{kind: slow, models: [A10]}]}", "no model 'A10' is known here"),
        ("steps: [{restart: {part: manager}}]", "no running part 'manager' is known here"),
    ],
)
def test_what_is_wrong_with_it_is_said(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(CLUSTER + text + "\n", "f.yaml")
    assert words in str(caught.value)


def test_cdim_knows_one_fabric_alone() -> None:
    text = CLUSTER.replace("  nodes:\n", "    - {id: 4}\n  nodes:\n") + "parts: {manager: {api: nec}}\n"
    with pytest.raises(ScenarioError, match="one fabric alone"):
        parse(text, "f.yaml")


def test_a_manager_changes_nothing_of_the_rest() -> None:
    """The same seed gives the same story with it and without."""
    story = "steps: [{run: {name: p, devices: {nvidia-a100-40: 1}, delete_after: 1m}}]\n"
    ledgers = []
    for parts in ("", "parts: {manager: {api: cm}}\n"):
        with Lab.virtual(parse(CLUSTER + parts + story, "test")) as lab:
            lab.run(seconds=200)
            ledgers.append(list(lab.ledger))
    assert ledgers[0] == ledgers[1]
    assert ledgers[0]
