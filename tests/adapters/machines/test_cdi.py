"""Servers of a CDI manager: what is sent, what other clients do meanwhile, and what is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from dds_adapters.fabric.provider import FabricAway, FabricOdd, FabricRefused, FabricUnreachable
from dds_adapters.machines import Machines, ServersPartly, open_machines, read_settings
from dds_core.autoscaler.records import FULL
from dds_lab.actors.fabric import Fabric
from dds_lab.contracts.machines import of
from dds_lab.latency import Fixed
from dds_lab.manager import Manager, ManagerSettings, Stock
from dds_lab.manager.frontend import serving_manager
from dds_lab.scenario.trouble import ManagerFault
from dds_lab.time import Time
from tests.adapters.machines.rig import BIG, CdiWorld


@pytest.fixture
def world(tmp_path: Path) -> CdiWorld:
    return CdiWorld(tmp_path)


def sent(world: CdiWorld) -> list[dict[str, object]]:
    return [json.loads(one.body) for one in world.manager.seen if one.name == "resize_group"]


def before_each_resize(world: CdiWorld, does: Callable[[], object]) -> Machines:
    """A client for which something happens between what it has read and what it asks for."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/actions/resize"):
            does()
        return world.transport.handle_request(request)

    return world.open(httpx.MockTransport(answer))


def orders(world: CdiWorld) -> set[str]:
    return {one.order for one in world.open().servers() if one.order}


def test_what_is_sent(world: CdiWorld) -> None:
    machines = world.open()
    machines.compose("a", BIG)
    assert world.manager.counts["node"] == 2  # each machine is read once
    world.settle()
    server = of(machines, "a")
    uuid = server.provider_id.removeprefix("metal://")
    machines.decompose(server.uid)
    assert sent(world) == [
        {"increase_machine_count": {"machine_count": 2, "machines": [{"name": "dds-a"}]}},
        {"remove_machines": {"machine_count": 1, "machines": [uuid]}},
    ]
    chosen = world.manager.settings
    [first, _] = [one for one in world.manager.seen if one.name == "resize_group"]
    root = f"/cluster_manager/cluster_autoscaler/v3/tenants/{chosen.tenant}/clusters/{chosen.cluster}/nodegroups/"
    assert first.method == "POST"
    assert first.path.startswith(root)
    assert first.path.endswith("/actions/resize")


def test_an_order_is_removed_by_its_own_id(world: CdiWorld) -> None:
    machines = world.open()
    machines.compose("a", BIG)
    machines.compose("b", BIG)
    machines.decompose(f"{BIG}/+a")
    world.settle()
    assert orders(world) == {"b"}


def test_no_server_is_left_at_once(tmp_path: Path) -> None:
    """The core takes this code for a lack of servers. The order was not accepted, so that it may be asked for again."""
    world = CdiWorld(tmp_path, late=False)
    world.scarce()
    with pytest.raises(FabricRefused, match="no server of group big is left; free a server") as refused:
        world.open().compose("a", BIG)
    assert refused.value.code == FULL
    world.manager.servers.restock(BIG)
    world.open().compose("a", BIG)
    assert orders(world) == {"a"}


@pytest.mark.parametrize("times", [1, 2])
def test_other_clients_order_at_the_same_moment(world: CdiWorld, times: int) -> None:
    """The number is taken by another order: the manager accepts the request and orders nothing for it."""
    others = iter([f"b{number}" for number in range(times)])

    def other() -> None:
        order = next(others, None)
        if order is not None:
            world.open().compose(order, BIG)

    before_each_resize(world, other).compose("a", BIG)
    assert orders(world) == {"a", *(f"b{number}" for number in range(times))}


def test_another_client_orders_the_same_at_the_same_moment(world: CdiWorld) -> None:
    before_each_resize(world, lambda: world.open().compose("a", BIG)).compose("a", BIG)
    assert (orders(world), world.manager.servers.composed["dds-a"]) == ({"a"}, 1)


def test_another_client_removes_at_the_same_moment(world: CdiWorld) -> None:
    machines = world.open()
    for order in "abc":
        machines.compose(order, BIG)
    world.settle()
    a, b = of(machines, "a"), of(machines, "b")

    def other() -> None:
        world.open().decompose(b.uid)
        world.sleep(31)

    before_each_resize(world, other).decompose(a.uid)
    world.settle()
    assert orders(world) == {"c"}


def test_a_number_that_others_change_all_the_time_is_given_up(world: CdiWorld) -> None:
    names = iter(range(99))
    client = before_each_resize(world, lambda: world.manager.servers.compose(BIG, f"other-{next(names)}"))
    with pytest.raises(FabricRefused, match="it has no machine for order a, for other clients resize") as refused:
        client.compose("a", BIG)
    assert refused.value.code == 409
    assert orders(world) == set()
    world.settle()
    [first, *_] = world.open().servers()
    with pytest.raises(FabricRefused, match="was not removed, for other clients resize"):
        client.decompose(first.uid)


def test_a_request_is_sent_once(world: CdiWorld) -> None:
    """Unlike a question: the manager may have carried it out."""
    with world.lost(), pytest.raises(FabricUnreachable):
        world.open().compose("a", BIG)
    assert len(sent(world)) == 1


@pytest.mark.parametrize("code", [400, 403, 500])
def test_another_refusal_is_told_and_not_repeated(world: CdiWorld, code: int) -> None:
    world.manager.faults.add(ManagerFault(kind="error", calls=("resize_group",), code=code))
    [first] = world.open().servers()
    for call, given in ((world.open().compose, ("a", BIG)), (world.open().decompose, (first.uid,))):
        with pytest.raises(FabricRefused) as refused:
            call(*given)
        assert refused.value.code == code
    assert len(sent(world)) == 2


def test_a_manager_that_goes_away_is_not_asked_about_every_machine(world: CdiWorld) -> None:
    machines = world.open()
    for order in "abcdef":
        machines.compose(order, BIG)
    world.manager.faults.add(ManagerFault(kind="away", calls=("node",)))
    for call, given in ((machines.servers, ()), (machines.compose, ("g", BIG)), (machines.decompose, (f"{BIG}/+a",))):
        before = world.manager.counts["node"]
        with pytest.raises(FabricAway):
            call(*given)
        assert world.manager.counts["node"] - before <= 3


def test_an_unknown_status_hides_no_other_server(world: CdiWorld) -> None:
    world.open().compose("a", BIG)
    [made] = world.manager.servers.of(BIG)
    made.status = "SLEEPING"  # type: ignore[assignment]
    with pytest.raises(ServersPartly, match=r"field data\.cluster\.machine\.status is no status that") as raised:
        world.open().servers()
    assert ([one.order for one in raised.value.servers], set(raised.value.groups)) == ([""], {BIG})
    for call, given in ((world.open().compose, ("a", BIG)), (world.open().decompose, (f"{BIG}/{made.uuid}",))):
        with pytest.raises(ServersPartly):
            call(*given)
    assert len(sent(world)) == 1


def test_a_machine_that_could_not_be_removed_is_tried_again(world: CdiWorld) -> None:
    machines = world.open()
    machines.compose("a", BIG)
    world.settle()
    [made] = world.manager.servers.of(BIG)
    made.status, made.reason = "REMOVE_FAILED", "E02XXXX password=canary\nsecond line"
    stuck = of(machines, "a")
    assert (stuck.state, stuck.code, stuck.out_of_resources) == ("failed", "REMOVE_FAILED", False)
    assert "E02XXXX" in stuck.message
    assert "canary" not in stuck.message
    machines.decompose(stuck.uid)
    world.settle()
    assert orders(world) == set()


def test_groups_without_a_node_group_of_their_own(world: CdiWorld) -> None:
    world.settings = world.settings.model_copy(update={"groups": {BIG: BIG, "gone": "elsewhere"}})
    machines = world.open()
    machines.compose("a", BIG)
    with pytest.raises(ServersPartly, match="'elsewhere' is not one node group of the cluster") as raised:
        machines.servers()
    assert ({one.order for one in raised.value.servers}, set(raised.value.groups)) == ({"", "a"}, {"gone"})
    for group, what in (("gone", "'elsewhere' is not one"), ("none", "no group 'none'; known: big, gone")):
        with pytest.raises(FabricRefused, match=what) as refused:
            machines.compose("b", group)
        assert refused.value.code == 404


def test_one_node_group_for_two_groups_is_shown_once(world: CdiWorld) -> None:
    """By name in one, by UUID in the other, which the settings cannot see."""
    world.open().servers()
    [uuid] = [one.path.rpartition("/")[2] for one in world.manager.seen if one.name == "nodegroup"]
    world.settings = world.settings.model_copy(update={"groups": {BIG: BIG, "other": uuid.upper()}})
    with pytest.raises(ServersPartly, match="is not one node group of the cluster, for this group alone") as raised:
        world.open().servers()
    assert ([one.group for one in raised.value.servers], set(raised.value.groups)) == ([BIG], {"other"})


@pytest.mark.parametrize("call", ["nodegroups", "nodegroup", "node"])
@pytest.mark.parametrize("kind", ["null", "html", "truncated", "list"])
def test_answers_of_another_form(world: CdiWorld, call: str, kind: str) -> None:
    world.manager.faults.add(ManagerFault(kind="odd", calls=(call,), odd=kind))  # type: ignore[arg-type]
    with pytest.raises(FabricOdd):
        world.open().servers()
    with pytest.raises(FabricOdd):
        world.open().compose("a", BIG)
    assert not sent(world)


def made(time: Time) -> Manager:
    stock = Stock("workers", 4, "0", Fixed(0.05), Fixed(0.05))
    return Manager(time, Fabric(time), ManagerSettings("cm", stocks=(stock,)))


def test_over_a_socket_from_a_settings_file(tmp_path: Path) -> None:
    with serving_manager(made) as served:
        chosen = served.manager.settings
        section: dict[str, object] = {
            "kind": "cdi",
            "endpoint": served.url,
            "tenant": chosen.tenant,
            "cluster": chosen.cluster,
        }
        section |= {"credentials": served.credentials(tmp_path / "credentials").name, "groups": {BIG: "workers"}}
        (tmp_path / "machines.yaml").write_text(json.dumps({"machines": section}))
        machines = open_machines(read_settings(tmp_path / "machines.yaml"))
        machines.compose("a", BIG)
        [server] = machines.servers()
        machines.decompose(server.uid)
        machines.decompose(server.uid)
        machines.close()
        with pytest.raises(FabricAway):
            machines.servers()
    assert (server.order, server.provider_id) == ("a", f"fsas-cdi://{server.uid.removeprefix(f'{BIG}/')}")
    assert served.manager.counts["resize_group"] == 2
