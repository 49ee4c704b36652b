"""The inventory's own: what its two files may hold, and what becomes of servers that others change."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import yaml

from dds_adapters.fabric.provider import FabricUnreachable, InventoryFault
from dds_adapters.machines import open_machines
from dds_adapters.machines.machine_settings import InventorySettings
from dds_lab.contracts.machines import of
from tests.adapters.machines.rig import BIG, FileWorld

HEAD = "{id: a, group: big, state: stopped"


@pytest.fixture
def world(tmp_path: Path) -> FileWorld:
    return FileWorld(tmp_path)


def requests(world: FileWorld) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(world.settings.requests.read_text())
    return found


def test_the_requests_as_a_script_reads_them(world: FileWorld) -> None:
    machines = world.open()
    machines.compose("a", BIG)
    assert requests(world)["servers"] == {"r1": "running"}
    world.settle()
    machines.decompose(of(machines, "a").uid)
    assert requests(world)["servers"] == {"r1": "stopped"}
    assert list(world.settings.requests.parent.glob("*.part")) == []


def test_a_server_that_is_slow_to_tell_is_stopped_all_the_same(world: FileWorld) -> None:
    machines = world.open()
    machines.compose("a", BIG)
    machines.decompose(of(machines, "a").uid)
    machines.compose("b", BIG)  # the inventory still shows the server of a as stopped, as it does all others
    assert "r1" in requests(world)["servers"]  # type: ignore[operator]
    world.settle()
    assert len(world.there()) == 2


def test_a_group_without_a_server(world: FileWorld) -> None:
    machines = world.open()
    machines.compose("a", "small")
    server = of(machines, "a")
    assert (server.group, server.state, server.out_of_resources) == ("small", "failed", True)
    assert "group small" in server.message


def test_an_order_whose_server_left_the_inventory(world: FileWorld) -> None:
    machines = world.open()
    machines.compose("a", BIG)
    world.entries = [one for one in world.entries if one["id"] != "r1"]
    world.settle()
    server = of(machines, "a")
    assert (server.state, server.code, server.out_of_resources) == ("failed", "NotInInventory", False)
    machines.decompose(server.uid)
    assert len(machines.servers()) == 1
    assert requests(world)["servers"] == {"r1": "stopped"}


def test_what_somebody_else_powers_is_not_ordered_and_a_broken_one_at_rest_is_nothing(world: FileWorld) -> None:
    world.entries[1]["state"], world.entries[2]["state"], world.entries[3]["state"] = "creating", "deleting", "failed"
    world.settle()
    shown = {one.uid: (one.order, one.state) for one in world.open().servers()}
    assert shown == {"big/r0": ("", "running"), "big/r1": ("", "creating"), "big/r2": ("", "deleting")}
    world.open().compose("a", BIG)
    assert of(world.open(), "a").uid == "big/r4"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty; write servers: [] if there is none"),
        ("servers: 3", "servers: is not a list"),
        (f"servers: [{HEAD}, power: on}}]", "servers.0.power: is no field that is known here"),
        ("servers: [{id: a, group: big, state: off}]", "servers.0.state: Input should be 'stopped'"),
        ("servers: [{group: big, state: stopped}]", "servers.0.id: is missing"),
        (f"servers: [{HEAD}}}, {HEAD}}}]", "servers.1: another one has its id"),
        ("servers: [{id: +a, group: big, state: stopped}]", "servers.0.id: is not at most 128 letters"),
    ],
)
def test_an_inventory_with_faults(world: FileWorld, text: str, what: str) -> None:
    world.settings.servers.write_text(text)
    with pytest.raises(InventoryFault) as raised:
        world.open().compose("a", BIG)
    assert what in str(raised.value)
    assert str(world.settings.servers) in raised.value.where


@pytest.mark.parametrize("text", [None, "", "[]", "servers: {r1: on}", "orders: {a: {}}", "more: 1"])
def test_requests_that_are_lost_are_not_taken_for_none(world: FileWorld, text: str | None) -> None:
    world.settings.requests.unlink()
    if text is not None:
        world.settings.requests.write_text(text)
    machines = world.open()
    for call in (machines.servers, lambda: machines.compose("a", BIG)):
        with pytest.raises(InventoryFault, match="put it back"):
            call()


def test_a_folder_that_is_not_there(tmp_path: Path, world: FileWorld) -> None:
    settings = world.settings.model_copy(update={"requests": tmp_path / "none" / "requests.yaml"})
    with pytest.raises(FabricUnreachable, match="cannot be written: No such file or directory"):
        open_machines(settings).compose("a", BIG)


def _orders(servers: Path, requests: Path, name: str) -> None:
    machines = open_machines(InventorySettings(kind="inventory", servers=servers, requests=requests))
    for n in range(3):
        machines.compose(f"{name}{n}", BIG)
        machines.compose(f"both{n}", BIG)


def test_two_processes_at_once(world: FileWorld) -> None:
    context = multiprocessing.get_context("spawn")
    given = (world.settings.servers, world.settings.requests)
    processes = [context.Process(target=_orders, args=(*given, name)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    world.settle()
    ordered = [one.order for one in world.open().servers()]
    assert sorted(ordered) == ["", "a0", "a1", "a2", "b0", "b1", "b2", "both0", "both1", "both2"]
    assert len(world.there()) == 10
