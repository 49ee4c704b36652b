"""The simulated manager composes servers: how a node group grows and shrinks, how long it takes, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dds_lab.actors.node_lifecycle import NodeLifecycle
from dds_lab.latency import Fixed
from dds_lab.manager import Composed, ManagerSettings, NodeGroup, Stock
from dds_lab.scenario.parts import ControllersPart
from dds_lab.scenario.trouble import FabricFault
from tests.lab.actors.rooms import Room
from tests.support.managers import ManagerRoom

GROUPS = "/cluster_manager/cluster_autoscaler/{}/tenants/{}/clusters/{}/nodegroups"


class Rack(ManagerRoom):
    """A group "large" of node0, with two servers in stock. Composing takes 100 s, taking apart 30 s."""

    def __init__(self) -> None:
        stock = Stock("large", 2, "1", Fixed(100.0), Fixed(30.0))
        super().__init__(ManagerSettings("cm", groups=(NodeGroup("large", ("node0",)),), stocks=(stock,)))
        self.login()
        self.changes: list[tuple[str, bool]] = []
        self.manager.servers.on_change(lambda server, on: self.changes.append((server.name, on)))
        [group] = self.get(self.groups("v2")).json()["nodegroups"]
        self.group = group["uuid"]

    def groups(self, version: str) -> str:
        return GROUPS.format(version, self.tenant, self.cluster)

    def members(self) -> list[str]:
        found: list[str] = self.get(f"{self.groups('v2')}/{self.group}").json()["mach_ids"]
        return found

    def server(self, uuid: str) -> Any:
        path = self.groups("v3").replace("/nodegroups", f"/machines/{uuid}")
        return self.get(path).json()["data"]["cluster"]["machine"]

    def resized(self, **body: Any) -> httpx.Response:
        return self.client.post(f"{self.groups('v3')}/{self.group}/actions/resize", json=body)

    def more(self, count: int, name: str) -> httpx.Response:
        return self.resized(increase_machine_count={"machine_count": count, "machines": [{"name": name}]})

    def fewer(self, count: int, uuid: str) -> httpx.Response:
        return self.resized(remove_machines={"machine_count": count, "machines": [uuid]})


@pytest.fixture
def rack() -> Iterator[Rack]:
    yield Rack()


def test_a_server_is_a_member_at_once_and_a_machine_when_it_is_on(rack: Rack) -> None:
    assert rack.more(2, "dds-a").status_code == 202
    _, uuid = rack.members()
    assert rack.server(uuid)["status"] == "ADD_IN_PROGRESS"
    assert (rack.fabric.machine("dds-a"), rack.changes) == (None, [])
    rack.run(101)
    machine = rack.fabric.machine("dds-a")
    assert machine is not None and (machine.uuid, machine.fabric) == (uuid, "1")
    assert (rack.server(uuid)["name"], rack.server(uuid)["status"]) == ("dds-a", "ACTIVE")
    assert rack.changes == [("dds-a", True)]


def test_a_number_that_is_there_orders_nothing_and_one_too_high_is_refused(rack: Rack) -> None:
    rack.more(2, "dds-a")
    assert rack.more(2, "dds-b").status_code == 202
    assert rack.more(4, "dds-b").json()["detail"]["code"] == "E020409"
    assert rack.more(3, "dds-a").json()["detail"]["code"] == "E020508"
    assert len(rack.members()) == 2


def test_the_stock_is_used_up_and_comes_back(rack: Rack) -> None:
    rack.more(2, "dds-a")
    rack.more(3, "dds-b")
    assert rack.more(4, "dds-c").json()["detail"]["code"] == "E020507"
    rack.run(101)
    uuid = rack.members()[1]
    assert rack.fewer(1, uuid).json()["detail"]["code"] == "E020409"
    assert rack.fewer(2, uuid).status_code == 202
    assert rack.server(uuid)["status"] == "REMOVE_IN_PROGRESS"
    rack.run(31)
    assert (len(rack.members()), rack.fabric.machine("dds-a"), rack.manager.servers.left("large")) == (2, None, 1)
    assert rack.more(3, "dds-a").json()["detail"]["code"] == "E020508"
    assert rack.changes[-1] == ("dds-a", False)


def test_a_server_that_is_taken_apart_before_it_is_on_was_never_on(rack: Rack) -> None:
    rack.more(2, "dds-a")
    rack.fewer(1, rack.members()[1])
    rack.run(200)
    assert (len(rack.members()), rack.changes, rack.manager.servers.left("large")) == (1, [], 2)


def test_what_was_there_before_can_be_taken_apart(rack: Rack) -> None:
    rack.fewer(0, rack.members()[0])
    rack.run(31)
    assert (rack.members(), rack.changes) == ([], [("node0", False)])


@pytest.mark.parametrize("operation", ["attach", "detach"])
@pytest.mark.parametrize("kind", ["refuse", "hang"])
def test_faults_of_composing_and_taking_apart(rack: Rack, operation: Any, kind: Any) -> None:
    rack.manager.servers.faults.add(FabricFault(kind=kind, operation=operation, models=("large",), times=1))
    rack.more(2, "dds-a")
    rack.run(101)
    uuid = rack.members()[1]
    words = {("attach", "refuse"): "ADD_FAILED", ("attach", "hang"): "ADD_IN_PROGRESS"}
    assert rack.server(uuid)["status"] == words.get((operation, kind), "ACTIVE")
    rack.fewer(1, uuid)
    rack.run(31)
    words = {("detach", "refuse"): "REMOVE_FAILED", ("detach", "hang"): "REMOVE_IN_PROGRESS"}
    assert [rack.server(one)["status"] for one in rack.members()[1:]] == (
        [words[operation, kind]] if operation == "detach" else []
    )
    assert rack.manager.servers.left("large") == (1 if operation == "detach" else 2)


def test_a_composed_server_becomes_a_node() -> None:
    room, rack = Room(), Rack()
    nodes = NodeLifecycle(room.client("nodes"), room.time, ControllersPart())
    nodes.start()

    def changed(server: Composed, on: bool) -> None:
        if on:
            nodes.join(server.name, f"fsas-cdi://{server.uuid}", {"cpu": "64", "memory": "512Gi", "pods": "250"}, {})
        else:
            nodes.silent(server.name)

    rack.manager.servers.on_change(changed)
    rack.more(2, "dds-a")
    rack.run(101)
    uuid = rack.members()[1]
    node = room.user.get("nodes", "dds-a")
    assert (node["spec"]["providerID"], node["status"]["allocatable"]["cpu"]) == (f"fsas-cdi://{uuid}", "64")
    rack.fewer(1, uuid)
    rack.run(31)
    room.run(60)
    [ready] = [one for one in room.user.get("nodes", "dds-a")["status"]["conditions"] if one["type"] == "Ready"]
    assert ready["status"] == "Unknown"
