"""Our client of the CDI managers against the lab's manager: each call's method, path, query, body and the fields that are read.

What is sent is checked where it arrives; the manager is stateful and shares its fabric with the test, on virtual time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dds_adapters.fabric import (
    Api,
    FabricDenied,
    FabricOdd,
    FabricRefused,
    FabricSettings,
    FabricUnreachable,
    Outside,
    Provider,
    open_provider,
)
from dds_adapters.fabric.survey import Answer, LimitsAnswer, NoAnswer, StockAnswer, survey
from dds_core.publisher.model import FreeDevice, Limit, Machine, PoolModel, Stock
from dds_lab.actors.fabric import Fabric
from dds_lab.manager.frontend import ServedManager, serving_manager
from dds_lab.manager.inventory import Limit as LimitOfLab
from dds_lab.manager.inventory import Login, ManagerSettings, NodeGroup
from dds_lab.manager.manager import Manager, Seen
from dds_lab.manager.transport import ManagerTransport
from dds_lab.scenario.parts import Fabrics
from dds_lab.scenario.trouble import ManagerCall, ManagerFault
from dds_lab.scenario.values import fixed
from dds_lab.time import MICROSECONDS, Time, VirtualTime

A100 = PoolModel(0, "NVIDIA A100", "nvidia-a100", "gpu.nvidia.com")
CXL = PoolModel(1, "Micron CXL", "micron-cxl", "cxl.example.com", type="cxlmemory")
LOGIN = Login("wörker & söhne", "p&ss=w%rd+ä \"'#", "the realm ü&1", "client&id=1", "s=cr&t+é")
POOLS = {("0", A100.model): 3, ("1", A100.model): 200, ("0", CXL.model): 5}


class Site:
    """A manager with its fabric, and a client of it."""

    def __init__(self, folder: Path, api: Api, login: Login = LOGIN, **settings: Any) -> None:
        self.time = VirtualTime(7, 1_800_000_000 * MICROSECONDS)
        self.fabric = Fabric(self.time, POOLS, Fabrics(attach=fixed(2.0), detach=fixed(1.0)))
        for node, fabric in (("w-1", "0"), ("w-2", "0"), ("w-3", "1"), ("w-4", "")):
            self.fabric.connect(node, fabric)
        chosen = ManagerSettings(
            api="fm" if api == "file" else api, login=login, types={CXL.model: "cxlmemory"}, **settings
        )
        self.manager = Manager(self.time, self.fabric, chosen)
        self.folder = folder
        for field in ("username", "password", "realm", "client_id", "client_secret"):
            (folder / field).write_text(getattr(LOGIN, field), encoding="utf-8")
        self.provider = self._opened(api, chosen)

    def _opened(self, api: Api, chosen: ManagerSettings) -> Provider:
        settings = FabricSettings(
            api,
            endpoint="http://manager.example:8080" if api == "nec" else "https://manager.example",
            tenant=chosen.tenant,
            cluster=chosen.cluster,
            credentials=self.folder,
        )
        outside = Outside(
            clock=lambda: self.time.now() / MICROSECONDS,
            wall=lambda: self.time.now() / MICROSECONDS,
            sleep=self.sleep,
            random=Random(1),
            transport=ManagerTransport(self.manager, step=self.time.step, sleep=self.sleep),
        )
        return open_provider(settings, outside)

    def sleep(self, seconds: float) -> None:
        self.time.run(self.time.now() + round(seconds * MICROSECONDS))

    def uuid(self, node: str) -> str:
        found = self.fabric.machine(node)
        assert found is not None
        return found.uuid

    def machine(self, node: str) -> Machine:
        return next(one for one in self.provider.machines() if one.uuid == self.uuid(node))

    def seen(self, name: str) -> list[Seen]:
        return [one for one in self.manager.seen if one.name == name]

    def survey(self, *models: PoolModel, round: int = 0) -> list[Answer]:
        answers: list[Answer] = []
        survey(self.provider, models, round, answers.append, lambda: False)
        return answers


@pytest.fixture
def fm(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, "fm")
    yield site
    site.provider.close()


@pytest.fixture
def cm(tmp_path: Path) -> Iterator[Site]:
    limits = (LimitOfLab(A100.model, 4, 1, frozenset({"w-1", "w-3"})), LimitOfLab(CXL.model, most=2))
    groups = (NodeGroup("left", ("w-1", "w-2")), NodeGroup("right", ("w-3",)))
    site = Site(tmp_path, "cm", limits=limits, groups=groups)
    yield site
    site.provider.close()


@pytest.fixture
def nec(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, "nec", scheme="nec://")
    yield site
    site.provider.close()


# -- id manager --------------------------------------------------------------------------------------------------------


def test_tokens_that_are_never_good_are_not_asked_for_again_and_again(fm: Site) -> None:
    fm.manager.faults.add(ManagerFault(kind="expired", calls=("machines",)))
    with pytest.raises(
        FabricDenied, match=r"^fm\.machines \(request .*\): a token fresh from a login is refused, too; "
    ):
        fm.provider.machines()
    for _ in range(5):
        with pytest.raises(FabricDenied):
            fm.provider.machines()
    assert len(fm.seen("token")) == 2
    fm.sleep(11)
    with pytest.raises(FabricDenied):
        fm.provider.machines()
    assert len(fm.seen("token")) == 3


def test_refused_credentials_are_not_sent_again_until_they_change_or_time_has_passed(fm: Site) -> None:
    (fm.folder / "password").write_text("wrong")
    with pytest.raises(
        FabricDenied, match=r"^im\.token \(request .*\): the login is refused \(401 invalid_grant\); check "
    ):
        fm.provider.machines()
    for _ in range(5):
        assert [type(one) for one in fm.survey(A100)] == [NoAnswer]
    assert len(fm.seen("token")) == 1
    fm.sleep(61)
    fm.survey(A100)
    fm.sleep(61)
    fm.survey(A100)
    assert len(fm.seen("token")) == 2  # the second refusal holds for two minutes
    (fm.folder / "password").write_text(LOGIN.password, encoding="utf-8")
    assert len(fm.provider.machines()) == 4


# -- fabric manager ----------------------------------------------------------------------------------------------------


def test_machines_with_their_fabrics(fm: Site) -> None:
    machines = fm.provider.machines()
    assert sorted(machines, key=lambda one: one.name) == [
        Machine(fm.uuid("w-1"), "w-1", "0"),
        Machine(fm.uuid("w-2"), "w-2", "0"),
        Machine(fm.uuid("w-3"), "w-3", "1"),
        Machine(fm.uuid("w-4"), "w-4", ""),
    ]
    [call] = fm.seen("machines")
    assert (call.method, call.path) == ("GET", "/fabric_manager/api/v1/machines")
    assert (dict(call.query), call.body) == ({"tenant_uuid": fm.manager.settings.tenant}, b"")
    assert call.headers["accept"] == "application/json"


def test_d11_free_devices_are_asked_for_by_model_and_its_own_resource_type(fm: Site) -> None:
    machine = fm.machine("w-1")
    assert fm.provider.stock(machine, A100) == Stock("0", A100.model, 3)
    assert fm.provider.stock(machine, CXL) == Stock("0", CXL.model, 5)
    gpu, memory = fm.seen("available")
    assert gpu.method == "GET"
    assert gpu.path == f"/fabric_manager/api/v1/machines/{machine.uuid}/available-reserved-resources"
    assert (set(gpu.query), gpu.body) == ({"tenant_uuid", "res_type", "condition"}, b"")
    assert gpu.query["tenant_uuid"] == fm.manager.settings.tenant
    assert (gpu.query["res_type"], memory.query["res_type"]) == ("gpu", "cxlmemory")  # D11
    assert json.loads(gpu.query["condition"]) == {"column": "model", "operator": "eq", "value": A100.model}


def test_each_try_has_a_request_id_of_its_own_which_errors_name(fm: Site) -> None:
    fm.manager.faults.add(ManagerFault(kind="error", calls=("machines",), code=500))
    with pytest.raises(FabricRefused) as caught:
        fm.provider.machines()
    ids = [one.headers["x-request-id"] for one in fm.seen("machines")]
    assert len(set(ids)) == 3
    assert f"fm.machines (request {ids[-1]})" in str(caught.value)
    assert "500: E99500 a fault was asked for" in str(caught.value)


# -- cluster manager ---------------------------------------------------------------------------------------------------


def test_limits_of_a_machine(cm: Site) -> None:
    machine = cm.machine("w-1")
    assert cm.provider.limits(machine, [A100, CXL]) == {A100.model: Limit(4, 1), CXL.model: Limit(2, None)}
    assert cm.provider.limits(cm.machine("w-2"), [A100, CXL]) == {CXL.model: Limit(2, None)}
    cluster = f"tenants/{cm.manager.settings.tenant}/clusters/{cm.manager.settings.cluster}"
    node = cm.seen("node")[0]
    assert (node.method, dict(node.query), node.body) == ("GET", {}, b"")
    assert node.path == f"/cluster_manager/cluster_autoscaler/v3/{cluster}/machines/{machine.uuid}"
    groups = cm.seen("nodegroups")[0]
    assert (groups.method, groups.path) == ("GET", f"/cluster_manager/cluster_autoscaler/v2/{cluster}/nodegroups")
    assert cm.seen("nodegroup")[0].path.startswith(f"{groups.path}/")


def test_a_machine_in_no_node_group_has_no_limits_and_is_not_asked_about(cm: Site) -> None:
    assert cm.provider.limits(cm.machine("w-4"), [A100]) == {}
    assert cm.seen("node") == []


def test_node_groups_are_asked_for_once_a_round(cm: Site) -> None:
    for _ in range(3):
        cm.survey(A100, CXL)
    assert (len(cm.seen("nodegroups")), len(cm.seen("nodegroup")), len(cm.seen("node"))) == (3, 6, 9)


def test_a_node_group_that_fails_is_the_error_of_its_own_machines(cm: Site) -> None:
    cm.manager.faults.add(ManagerFault(kind="error", calls=("nodegroup",), times=1, code=404))
    answers = cm.survey(A100)
    limited = {one.machine for one in answers if isinstance(one, LimitsAnswer)}
    failed = {one.of for one in answers if isinstance(one, NoAnswer)}
    assert limited == {cm.uuid("w-3")}
    assert failed == {f"limits/{cm.uuid(node)}" for node in ("w-1", "w-2")}


# -- CDIM --------------------------------------------------------------------------------------------------------------


def test_cdim_names_machines_and_free_devices(nec: Site) -> None:
    machine = nec.machine("w-1")
    assert machine == Machine(nec.uuid("w-1"), "w-1", "0")
    nodes = nec.seen("nodes")[0]
    assert (nodes.method, nodes.path, dict(nodes.query)) == ("GET", "/cdim/api/v1/nodes", {"detail": "true"})
    stock = nec.provider.stock(machine, CXL)
    ids = sorted(one.resource for one in nec.fabric.pool("0", CXL.model))
    assert stock == Stock("0", CXL.model, 5, tuple(FreeDevice(id) for id in ids))
    nec.provider.stock(machine, A100)
    [resources] = nec.seen("resources")  # one question serves all models of a round
    assert (resources.method, resources.path) == ("GET", "/cdim/api/v1/resources")
    assert dict(resources.query) == {"detail": "true"}
    assert "authorization" not in resources.headers


# -- rounds ------------------------------------------------------------------------------------------------------------


# -- troubles ----------------------------------------------------------------------------------------------------------


def test_a_busy_manager_is_asked_again_when_it_wishes(fm: Site) -> None:
    fm.provider.machines()
    fm.manager.faults.add(ManagerFault(kind="busy", calls=("machines",), times=2, wait=7))
    began = fm.time.now()
    assert len(fm.provider.machines()) == 4
    assert 14 <= (fm.time.now() - began) / MICROSECONDS < 16


def test_a_call_ends_in_its_time_whatever_the_manager_does(fm: Site) -> None:
    fm.provider.machines()
    fm.manager.faults.add(ManagerFault(kind="slow", calls=("machines",), wait=1000))
    began = fm.time.now()
    with pytest.raises(FabricUnreachable, match=r"no whole answer within 60 s; look the request up"):
        fm.provider.machines()
    assert (fm.time.now() - began) / MICROSECONDS <= 61
    fm.manager.faults.lift(fm.manager.faults.waiting()[0])
    fm.manager.faults.add(ManagerFault(kind="busy", calls=("machines",), wait=1000))
    began = fm.time.now()
    with pytest.raises(FabricRefused, match="503: E99503 the manager is busy"):
        fm.provider.machines()
    assert fm.time.now() == began  # nobody waits for what is too late


@pytest.mark.parametrize(
    ("api", "call", "seconds"),
    [
        ("fm", "token", 30),
        ("fm", "machines", 60),
        ("fm", "available", 60),
        ("cm", "nodegroups", 60),
        ("cm", "nodegroup", 60),
        ("cm", "node", 60),
        ("nec", "nodes", 30),
        ("nec", "resources", 30),
    ],
)
def test_each_call_has_the_time_of_its_api(tmp_path: Path, api: Api, call: ManagerCall, seconds: int) -> None:
    """With all its tries: as long as the reference driver waits for one."""
    site = Site(tmp_path, api)
    site.manager.faults.add(ManagerFault(kind="slow", calls=(call,), wait=1000))
    began = site.time.now()
    machine = Machine(site.uuid("w-1"), "w-1", "0")
    with pytest.raises(FabricUnreachable, match=rf"no whole answer within {seconds} s"):
        site.provider.machines()
        site.provider.stock(machine, A100)
        site.provider.limits(machine, [A100])
    assert site.time.now() - began == seconds * MICROSECONDS
    assert len(site.seen(call)) == 1
    site.provider.close()


@pytest.mark.parametrize("odd", ["types", "missing", "html", "truncated", "null", "list"])
@pytest.mark.parametrize(
    ("call", "field"),
    [("machines", "mach_uuid"), ("available", "reserved_res_num_per_fabric"), ("token", "access_token")],
)
def test_an_odd_answer_names_call_field_and_request(fm: Site, odd: Any, call: ManagerCall, field: str) -> None:
    machine = Machine(fm.uuid("w-1"), "w-1", "0")
    fm.manager.faults.add(ManagerFault(kind="odd", calls=(call,), odd=odd, field=field))
    with pytest.raises(FabricOdd) as caught:
        fm.provider.stock(machine, A100) if call == "available" else fm.provider.machines()
    text = str(caught.value)
    assert fm.seen(call)[-1].headers["x-request-id"] in text
    assert {"machines": "fm.machines", "available": "fm.available", "token": "im.token"}[call] in text
    assert (field in text) == (odd in ("types", "missing"))
    assert "<html>" not in text and "Gateway" not in text


def test_ten_thousand_node_groups_are_not_asked_for(cm: Site) -> None:
    cm.manager.faults.add(ManagerFault(kind="huge", calls=("nodegroups",)))
    with pytest.raises(FabricOdd, match="field nodegroups is not as expected"):
        cm.provider.limits(cm.machine("w-1"), [A100])
    assert cm.seen("nodegroup") == []


# -- over the wire -----------------------------------------------------------------------------------------------------


def made(api: Any) -> Callable[[Time], Manager]:
    """A manager on real time whose fabric answers at once."""

    def make(time: Time) -> Manager:
        fabric = Fabric(time, POOLS, Fabrics(attach=fixed(0.0)))
        fabric.connect("w-1", "0")
        fabric.connect("w-2", "1")
        limits = (LimitOfLab(A100.model, 4, 1),)
        return Manager(time, fabric, ManagerSettings(api=api, login=LOGIN, limits=limits))

    return make


def client_of(served: ServedManager, api: Api, folder: Path, **settings: Any) -> Provider:
    chosen = served.manager.settings
    credentials = served.credentials(folder) if api != "nec" else None
    return open_provider(FabricSettings(api, served.url, chosen.tenant, chosen.cluster, credentials, **settings))


@pytest.mark.parametrize("api", ["fm", "cm", "nec"])
def test_a_round_over_the_wire(tmp_path: Path, api: Api) -> None:
    with serving_manager(made(api), tls=api != "nec") as served:
        provider = client_of(served, api, tmp_path)
        answers: list[Answer] = []
        survey(provider, [A100, CXL], 0, answers.append, lambda: False)
        provider.close()
    assert not [one for one in answers if isinstance(one, NoAnswer)]
    counts = {(one.stock.fabric, one.stock.model): one.stock.free for one in answers if isinstance(one, StockAnswer)}
    limits = [one.limits for one in answers if isinstance(one, LimitsAnswer)]
    assert counts[("0", A100.model)] == (203 if api == "nec" else 3)
    assert limits == [{A100.model: Limit(4, 1)} if api == "cm" else None] * 2


def test_answers_that_come_late_or_not_at_all_over_the_wire(tmp_path: Path) -> None:
    with serving_manager(made("fm")) as served:
        provider = client_of(served, "fm", tmp_path, fm_seconds=0.3)
        provider.machines()
        served.run(lambda: served.manager.faults.add(ManagerFault(kind="slow", calls=("machines",), times=1, wait=1)))
        with pytest.raises(FabricUnreachable, match=r"no whole answer within 0\.3 s"):
            provider.machines()
        provider.close()
        patient = client_of(served, "fm", tmp_path)
        served.run(lambda: served.manager.faults.add(ManagerFault(kind="cut", calls=("machines",), times=1)))
        assert len(patient.machines()) == 2
        patient.close()
