"""Machines of cluster-api: what others do to them meanwhile, where a process can end, and what cannot be read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from dds_adapters.fabric.provider import FabricDenied, FabricOdd, FabricRefused, FabricUnreachable
from dds_adapters.kubernetes.cluster import Answer, Cluster
from dds_adapters.machines import ClusterApiSettings, Machines, ServersPartly, open_machines
from dds_adapters.machines.capi import ORDER
from dds_adapters.machines.clusterapi import ANNOTATION, ClusterApi, Ledger
from dds_lab.contracts.machines import of
from dds_lab.http_frontend import Served
from tests.adapters.machines.rig import BIG, CapiWorld
from tests.support.cluster_api import MARK
from tests.support.served import served


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def lab() -> Iterator[Served]:
    with served() as lab:
        yield lab


@pytest.fixture
def world(lab: Served, tmp_path: Path) -> CapiWorld:
    return CapiWorld(lab, tmp_path)


def settled(world: CapiWorld, *orders: str) -> Machines:
    machines = world.open()
    for order in orders:
        machines.compose(order, BIG)
        world.settle()
        machines.servers()
    return machines


@contextmanager
def killed(world: CapiWorld, at: int, answered: bool) -> Iterator[None]:
    """The process ends at its request of this number: before it is sent, or once it was carried out."""
    sent = itertools.count()
    carried_out = itertools.count()

    def before(_: str) -> None:
        if next(sent) == at and not answered:
            raise Killed

    def after(_: str, answer: Answer) -> Answer:
        if next(carried_out) == at and answered:
            raise Killed
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.wire, "before", before)
        patch.setattr(world.wire, "after", after)
        yield


# --- wherever a process ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("answered", [False, True])
def test_ended_while_it_orders(world: CapiWorld, at: int, answered: bool) -> None:
    with killed(world, at, answered), pytest.raises(Killed):
        world.open().compose("a", BIG)
    world.settle()
    world.open().compose("a", BIG)
    world.settle()
    assert len(world.there()) == 2
    assert of(world.open(), "a").state == "running"


@pytest.mark.parametrize("at", range(0, 19, 2))
@pytest.mark.parametrize("answered", [False, True])
def test_ended_while_it_removes_and_another_goes_first(world: CapiWorld, at: int, answered: bool) -> None:
    """The controllers act in between, and whoever comes next wants another server removed."""
    machines = settled(world, "a", "b")
    a, b, before = of(machines, "a"), of(machines, "b"), world.there()
    with killed(world, at, answered), suppress(Killed):
        machines.decompose(b.uid)
    world.settle()
    world.open().decompose(a.uid)
    world.settle()
    gone = {f"{BIG}/{name}" for name in before - world.there()}
    assert a.uid in gone <= {a.uid, b.uid}
    world.open().decompose(b.uid)
    world.settle()
    assert {f"{BIG}/{name}" for name in before - world.there()} == {a.uid, b.uid}


# --- others who change what is there ----------------------------------------------------------------------------------------


def test_nothing_is_removed_while_a_mark_of_somebody_else_would_take_the_replica(world: CapiWorld) -> None:
    machines = settled(world, "a", "b")
    a, b = of(machines, "a"), of(machines, "b")
    name = b.uid.removeprefix(f"{BIG}/")
    world.capi.edit("Machine", name, {"metadata": {"annotations": {MARK: "yes"}}})
    with pytest.raises(FabricRefused, match=f"Machine {name} is marked by another client") as raised:
        machines.decompose(a.uid)
    assert raised.value.code == 409
    world.settle()
    assert len(world.there()) == 3
    world.capi.edit("Machine", name, {"metadata": {"annotations": {MARK: None}}})
    machines.decompose(a.uid)
    world.settle()
    assert {one.order for one in machines.servers()} == {"", "b"}


def test_a_machine_that_others_marked_keeps_its_order_to_the_end(world: CapiWorld) -> None:
    machines = settled(world, "a")
    a = of(machines, "a")
    marks = {MARK: "yes", ORDER: "of-another-time"}
    world.capi.edit("Machine", a.uid.removeprefix(f"{BIG}/"), {"metadata": {"annotations": marks}})
    machines.decompose(a.uid)
    assert of(machines, "a").state == "deleting"
    world.settle()
    assert [one.order for one in machines.servers()] == [""]


def test_an_annotation_that_was_deleted_leaves_servers_without_orders(world: CapiWorld) -> None:
    machines = settled(world, "a")
    server = of(machines, "a")
    world.capi.edit("MachineDeployment", BIG, {"metadata": {"annotations": {ANNOTATION: None}}})
    name = server.uid.removeprefix(f"{BIG}/")
    world.capi.edit("Machine", name, {"metadata": {"annotations": {MARK: "dds", ORDER: "a"}}})
    machines.decompose(server.uid)
    world.settle()
    assert [one.order for one in machines.servers()] == [""]


def test_a_removal_while_somebody_else_deletes_another(world: CapiWorld) -> None:
    """The Machine that is being deleted counts for replicas, so that cluster-api alone would delete no second one."""
    machines = settled(world, "a", "b")
    a, b = of(machines, "a"), of(machines, "b")
    world.capi.delete("Machine", b.uid.removeprefix(f"{BIG}/"))
    machines.decompose(a.uid)
    world.capi.scale()
    assert world.capi.deleting() == {b.uid.removeprefix(f"{BIG}/")}
    machines.servers()
    assert world.capi.deleting() == {one.uid.removeprefix(f"{BIG}/") for one in (a, b)}
    world.settle()
    assert [(one.order, one.state) for one in machines.servers()] == [("", "running"), ("b", "running")]


def test_a_removed_machine_is_cluster_apis_to_delete(world: CapiWorld) -> None:
    """Deleted by dds before its MachineSet has the lower number, it would be replaced, and some Machine go for that."""
    machines = settled(world, "a", "b")
    a = of(machines, "a")
    world.capi.delete("Machine", of(machines, "b").uid.removeprefix(f"{BIG}/"))
    world.capi.end()
    machines.decompose(a.uid)
    machines.servers()
    assert not world.capi.deleting()
    world.capi.deploy()
    machines.servers()
    assert world.capi.deleting() == {a.uid.removeprefix(f"{BIG}/")}


def test_an_order_keeps_the_machine_that_replaced_its_own(world: CapiWorld) -> None:
    machines = settled(world, "a")
    old = of(machines, "a")
    world.capi.delete("Machine", old.uid.removeprefix(f"{BIG}/"))
    assert of(machines, "a").state == "deleting"
    world.settle()
    new = of(machines, "a")
    assert (new.state, new.uid != old.uid, len(machines.servers())) == ("running", True, 2)


def test_an_order_without_a_machine_is_not_called_off(world: CapiWorld) -> None:
    machines = settled(world, "a")
    machines.compose("b", BIG)
    with pytest.raises(FabricRefused, match="is not made yet") as raised:
        machines.decompose(of(machines, "b").uid)
    assert raised.value.code == 409
    world.settle()
    machines.decompose(f"{BIG}/+b")
    world.settle()
    assert {one.order for one in machines.servers()} == {"", "a"}


def test_a_removal_while_a_machine_is_still_to_be_made(world: CapiWorld) -> None:
    machines = settled(world, "a")
    a = of(machines, "a")
    machines.compose("b", BIG)
    machines.decompose(a.uid)
    world.settle()
    machines.servers()
    world.settle()
    assert [(one.order, one.state) for one in machines.servers()] == [("", "running"), ("b", "running")]


def test_an_order_whose_replica_was_taken_back(world: CapiWorld) -> None:
    machines = world.open()
    machines.compose("a", BIG)
    world.capi.edit("MachineDeployment", BIG, {"spec": {"replicas": 0}})
    world.settle()
    server = of(machines, "a")
    assert (server.state, server.code, len(machines.servers())) == ("failed", "ScaledDown", 1)
    machines.decompose(server.uid)
    assert not machines.servers()
    assert world.capi.get("MachineDeployment", BIG)["spec"]["replicas"] == 0


def test_a_removal_that_has_not_begun_is_not_undone_by_an_order(world: CapiWorld) -> None:
    machines = settled(world, "a")
    machines.decompose(of(machines, "a").uid)
    machines.compose("b", BIG)
    world.settle()
    assert {one.order for one in machines.servers()} == {"", "b"}


def test_nothing_is_removed_during_a_rollout(world: CapiWorld) -> None:
    """From the moment at which there is a second MachineSet, which has no Machine yet, until the first has none any more."""
    machines = settled(world, "a")
    world.capi.roll(BIG)
    world.capi.deploy()
    refused = 0
    while len(world.capi.active(BIG)) > 1:
        with pytest.raises(FabricRefused, match="it is being rolled out") as raised:
            machines.decompose(of(machines, "a").uid)
        assert raised.value.code == 409
        refused += 1
        world.capi.replicate()
        world.capi.work()
        world.capi.deploy()
    assert refused > 2
    world.settle()
    machines.decompose(of(machines, "a").uid)
    world.settle()
    assert [one.order for one in machines.servers()] == [""]


def test_a_removal_in_whose_place_another_goes_is_repeated(world: CapiWorld) -> None:
    """Somebody else deletes a Machine after replicas was lowered, and before the controller has seen that."""
    machines = settled(world, "a", "b")
    a, b = of(machines, "a"), of(machines, "b")
    machines.decompose(a.uid)
    world.capi.delete("Machine", b.uid.removeprefix(f"{BIG}/"))
    for _ in range(4):
        machines.servers()
        world.settle()
    assert [(one.order, one.state) for one in machines.servers()] == [("", "running"), ("b", "running")]
    assert world.capi.get("MachineDeployment", BIG)["spec"]["replicas"] == 2
    assert not any(MARK in one["metadata"].get("annotations", {}) for one in world.capi.machines().values())


def test_a_removal_that_a_number_of_somebody_else_undid_is_repeated(world: CapiWorld) -> None:
    machines = settled(world, "a", "b")
    a, b = of(machines, "a"), of(machines, "b")
    machines.decompose(a.uid)
    machines.decompose(b.uid)
    world.capi.edit("MachineDeployment", BIG, {"spec": {"replicas": 3}})
    for _ in range(4):
        machines.servers()
        world.settle()
    assert {a.uid, b.uid}.isdisjoint(one.uid for one in machines.servers())
    assert [(one.order, one.state) for one in machines.servers()] == [("", "running")] * 3
    machines.compose("c", BIG)
    world.settle()
    assert of(machines, "c").state == "running"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rolled", [False, True])
def test_whatever_the_controllers_have_seen_when_it_is_asked(world: CapiWorld, seed: int, rolled: bool) -> None:
    """Orders and removals between single rounds of the controllers, while another client deletes Machines or starts rollouts: in
    the end there is what was asked for, and without a rollout no other Machine is ever deleted."""
    random, machines, number, wanted, gone = Random(seed), world.open(), 0, set[str](), set[str]()
    rounds = [world.capi.deploy, world.capi.replicate, world.capi.start, world.capi.end]
    for _ in range(60):
        match random.randrange(8):
            case 0 if rolled and random.random() < 0.3:
                world.capi.roll(BIG)
            case 0 | 1 if len(wanted) < 5:
                number += 1
                with suppress(FabricRefused):
                    machines.compose(f"o{number}", BIG)
                    wanted.add(f"o{number}")
            case 2 | 3 if wanted:
                server = of(machines, random.choice(sorted(wanted)))
                wanted.discard(server.order)
                gone.add(server.uid)
                with suppress(FabricRefused):
                    machines.decompose(server.uid)
            case 4 if world.there():
                name = random.choice(sorted(world.there()))
                gone.add(f"{BIG}/{name}")
                world.capi.delete("Machine", name)
            case 5:
                machines.servers()
            case _:
                random.choice(rounds)()
        assert rolled or {f"{BIG}/{name}" for name in world.capi.deleting()} <= gone
    expected = [(order, "running") for order in ["", *sorted(wanted)]]
    for _ in range(40):
        world.settle()
        there = machines.servers()
        if sorted((one.order, one.state) for one in there) == expected:
            break
        for server in there:
            if server.state != "deleting" and server.order not in wanted | {""}:
                with suppress(FabricRefused):
                    machines.decompose(server.uid)
    assert sorted((one.order, one.state) for one in machines.servers()) == expected
    assert len(world.there()) == 1 + len(wanted)


def test_machines_of_others_are_not_ours(world: CapiWorld) -> None:
    world.capi.make("MachineDeployment", "other", 2)
    machines = settled(world, "a")
    assert len(machines.servers()) == 2
    machines.decompose(f"{BIG}/other-1-002")
    world.settle()
    assert len(world.there()) == 4


def test_the_annotation_stays_small(world: CapiWorld) -> None:
    machines = world.open()
    for n in range(4):
        machines.compose(f"o{n}", BIG)
        world.settle()
        machines.decompose(of(machines, f"o{n}").uid)
        world.settle()
    machines.servers()
    text = world.capi.get("MachineDeployment", BIG)["metadata"]["annotations"][ANNOTATION]
    assert json.loads(text) == {"past": ["o0", "o1", "o2", "o3"]}
    ledger = Ledger()
    for n in range(1000):
        ledger = ledger.ordered(f"o{n}").ended(f"o{n}")
    assert (len(ledger.past), ledger.knows("o999")) == (256, True)


# --- forms --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_machine_set_in_both_versions(lab: Served, tmp_path: Path, version: str) -> None:
    world = CapiWorld(lab, tmp_path, "MachineSet", version)
    group = world.groups[BIG]
    machines = open_machines(
        ClusterApiSettings(kind="cluster-api", kubeconfig=tmp_path / "kubeconfig", groups={BIG: group})
    )
    machines.compose("a", BIG)
    world.settle()
    world.broken()
    machines.compose("b", BIG)
    world.settle()
    assert (of(machines, "a").state, of(machines, "b").code) == ("running", "CreateError")
    machines.decompose(of(machines, "a").uid)
    world.settle()
    assert {one.order for one in machines.servers()} == {"", "b"}
    machines.close()


def test_a_condition_with_severity_error_is_a_failure_while_it_is_made(world: CapiWorld) -> None:
    machines = settled(world, "a")
    name = of(machines, "a").uid.removeprefix(f"{BIG}/")
    bad = {
        "type": "InfrastructureReady",
        "status": "False",
        "severity": "Error",
        "reason": "QuotaExceeded",
        "message": "x\ny",
    }
    world.capi.edit("Machine", name, {"status": {"phase": "Provisioning", "conditions": [bad]}})
    server = of(machines, "a")
    assert (server.state, server.code, server.out_of_resources, "\n" in server.message) == (
        "failed",
        "QuotaExceeded",
        True,
        False,
    )
    world.capi.edit("Machine", name, {"status": {"phase": "Running"}})
    assert of(machines, "a").state == "running"


# --- what cannot be read ------------------------------------------------------------------------------------------------------


def test_a_machine_that_cannot_be_read_hides_no_other(world: CapiWorld) -> None:
    machines = settled(world, "a", "b")
    name = of(machines, "a").uid.removeprefix(f"{BIG}/")
    b = of(machines, "b")
    world.capi.edit("Machine", name, {"spec": {"providerID": 7}})
    with pytest.raises(ServersPartly, match=r"machines\.\d\.spec\.providerID") as raised:
        machines.servers()
    assert [one.order for one in raised.value.servers] == ["", "b"]
    assert raised.value.groups == {BIG}
    with pytest.raises(FabricOdd):
        machines.decompose(b.uid)
    world.capi.edit("Machine", name, {"spec": {"providerID": "metal://again"}})
    assert of(machines, "a").provider_id == "metal://again"


def test_a_group_that_is_gone_hides_no_other(world: CapiWorld) -> None:
    gone = world.groups[BIG].model_copy(update={"name": "gone"})
    machines = ClusterApi({"gone": gone, **world.groups}, world.wire)
    with pytest.raises(ServersPartly, match="MachineDeployment metal/gone: there is no such object") as raised:
        machines.servers()
    assert raised.value.groups == {"gone"}
    assert len(raised.value.servers) == 1
    for group, what in (("gone", "no such object"), ("none", "no group 'none'; known: big, gone")):
        with pytest.raises(FabricRefused, match=what) as refused:
            machines.compose("a", group)
        assert refused.value.code == 404


@pytest.mark.parametrize("text", ["{", "[]", '{"orders": 1}', '{"other": {}}'])
def test_an_annotation_that_is_not_ours_stops_the_group(world: CapiWorld, text: str) -> None:
    world.capi.edit("MachineDeployment", BIG, {"metadata": {"annotations": {ANNOTATION: text}}})
    machines = world.open()
    for call, given in ((machines.compose, ("a", BIG)), (machines.decompose, (f"{BIG}/big-1-001",))):
        with pytest.raises(FabricOdd, match=f"the annotation {ANNOTATION} is not one of ours"):
            call(*given)
    world.settle()
    assert len(world.there()) == 1


def test_cluster_api_is_not_there(tmp_path: Path, world: CapiWorld) -> None:
    with served() as bare:
        settings = {"kind": "cluster-api", "kubeconfig": bare.kubeconfig(tmp_path / "bare"), "groups": world.groups}
        machines = open_machines(ClusterApiSettings.model_validate(settings))
        with pytest.raises(FabricRefused, match="cluster-api is not served"):
            machines.compose("a", BIG)
    with pytest.raises(FabricUnreachable, match="does not answer"):
        machines.compose("a", BIG)
    machines.close()


def test_a_user_who_may_not(lab: Served, world: CapiWorld) -> None:
    settings = {"kind": "cluster-api", "kubeconfig": world.kubeconfig, "context": "dds", "groups": world.groups}
    machines = open_machines(ClusterApiSettings.model_validate(settings))
    with pytest.raises(FabricDenied, match="let this user get, list and patch"):
        machines.compose("a", BIG)
    with pytest.raises(ServersPartly, match="Forbidden"):
        machines.servers()
    machines.close()


@pytest.mark.parametrize("at", range(6))
def test_a_removal_that_another_one_crosses_takes_its_mark_for_no_others(world: CapiWorld, at: int) -> None:
    """The other call is carried out whole after the first one has sent so many requests."""
    machines = settled(world, "a", "b")
    first, second = of(machines, "a"), of(machines, "b")
    sent = itertools.count()
    other = ClusterApi(world.groups, Cluster(world.kubeconfig))

    def cross(_: str) -> None:
        if next(sent) == at:
            other.decompose(second.uid)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.wire, "before", cross)
        machines.decompose(first.uid)
    world.settle()
    assert len(world.there()) == 1
