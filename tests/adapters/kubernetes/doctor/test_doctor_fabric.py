"""What the doctor says of the fabric's manager, over the lab's simulated one: trust, login, machines, counts, limits, clocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.fabric import FabricDenied, FabricSettings, Outside
from dds_adapters.fabric.connections import trusting
from dds_adapters.kubernetes.doctor import Finding
from dds_adapters.kubernetes.doctor.fabric import Certificate, Login, Untrusted, certificate_of, fabric
from dds_commands.doctor import FabricManager, is_named
from dds_commands.live_options import OfFabric
from dds_core.errors import DdsError
from dds_core.publisher.model import FreeDevice, Limit, Machine, PoolModel, Stock
from dds_lab.manager import Limit as ManagerLimit
from dds_lab.manager import Manager, ManagerSettings
from dds_lab.manager.frontend import serving_manager, write_credentials
from dds_lab.manager.transport import ManagerTransport
from dds_lab.scenario.trouble import ManagerFault
from dds_lab.time import VirtualTime
from tests.support.doctor_lab import DoctorLab, levels, worst

DAY = 86_400 * 1_000_000
SECRETS = ManagerSettings().login


def ward(
    folder: Path, stack: ExitStack, settings: ManagerSettings | None = None, *, late: float = 0.0
) -> tuple[DoctorLab, FabricManager, Manager]:
    """The clinic's cluster and a manager over its fabric; our clock is `late` seconds behind theirs."""
    clinic, told = DoctorLab(), settings or ManagerSettings()
    lab = clinic.lab
    assert isinstance(lab.time, VirtualTime)
    manager = Manager(lab.time, lab.fabric, told)
    write_credentials(folder, told.login, None)

    def wall() -> float:
        return lab.time.now() / 1_000_000

    outside = Outside(
        clock=wall,
        wall=lambda: wall() - late,
        sleep=lambda seconds: None,
        transport=ManagerTransport(manager, step=lab.time.step),
    )
    api = FabricSettings(
        told.api,
        endpoint="https://cdi.example",
        tenant=told.tenant,
        cluster=told.cluster,
        credentials=folder if told.api != "nec" else None,
    )
    return clinic, FabricManager(api, stack, outside), manager


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def look(clinic: DoctorLab, manager: Any) -> list[Finding]:
    return list(fabric(clinic.context(), manager, clinic.lab.time.now))


def topics(found: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(one.check, one.level) for one in found]


# -- a manager that is well --------------------------------------------------------------------------------------------


def test_a_manager_that_is_well(tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, _ = ward(tmp_path, stack)
    found = look(clinic, manager)
    assert topics(found) == [
        ("fabric login", "ok"), ("fabric login", "ok"), ("fabric machines", "ok"), ("fabric nodes", "ok"),
        ("fabric stock", "ok"), ("fabric stock", "ok"), ("fabric limits", "note"),
    ]  # fmt: skip
    said = [one.what for one in found]
    assert "2 machines in 1 fabric (1)" in said
    assert "A100 40G: 4 free in fabric 1" in said


def test_limits_of_the_cluster_manager(tmp_path: Path, stack: ExitStack) -> None:
    limits = (ManagerLimit("A100 40G", most=2),)
    clinic, manager, _ = ward(tmp_path, stack, ManagerSettings(api="cm", limits=limits))
    (found,) = [one for one in look(clinic, manager) if one.check == "fabric limits"]
    assert (found.level, found.what) == ("ok", "fabric 1: limits of A100 40G are told")


def test_nobody_logs_in_to_cdim(tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, _ = ward(tmp_path, stack, ManagerSettings(api="nec"))
    assert next(one.check for one in look(clinic, manager)) == "fabric machines"


def test_without_a_cluster_the_manager_is_looked_at_all_the_same(tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, _ = ward(tmp_path, stack)
    found = list(fabric(None, manager, clinic.lab.time.now))
    assert [one.check for one in found] == ["fabric login", "fabric login", "fabric machines"]


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "level"), [(0.0, "ok"), (5.0, "warning"), (120.0, "error"), (-120.0, "error")])
def test_clocks_that_differ(late: float, level: str, tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, _ = ward(tmp_path, stack, late=late)
    found = [one for one in look(clinic, manager) if one.check == "fabric login"][1]
    assert found.level == level
    if late:
        assert ("behind" if late > 0 else "ahead of") in found.what


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_wrong_credentials_are_tried_once(tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, asked = ward(tmp_path, stack)
    (tmp_path / "password").write_text("another-password")
    found = look(clinic, manager)
    assert topics(found) == [("fabric login", "error"), ("fabric", "unknown")]
    assert "the login is refused" in found[0].what
    assert len(asked.seen) == 1


def test_credentials_that_are_missing(tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, _ = ward(tmp_path, stack)
    (tmp_path / "client_secret").unlink()
    (what,) = worst(look(clinic, manager), "error")
    assert "client_secret" in what and "is missing" in what


def test_credentials_that_are_missing_are_the_logins_matter(tmp_path: Path, stack: ExitStack) -> None:
    settings = FabricSettings("fm", "https://127.0.0.1:1", ManagerSettings().tenant, credentials=tmp_path)
    found = list(fabric(None, FabricManager(settings, stack), lambda: 0))
    assert topics(found) == [("fabric login", "error"), ("fabric", "unknown")]
    assert "the file username in" in found[0].what


class Told:
    """A manager that answers as it is told; an exception is raised."""

    where = "cdi.example:443"

    def __init__(self, **answers: Any) -> None:
        self._answers: dict[str, Any] = {
            "certificate": Certificate(10**16, "somebody"),
            "login": None,
            "machines": (),
            "stock": lambda machine, model: Stock(machine.fabric, model.model, 1),
            "limits": lambda machine: None,
            "counted": None,
            "left_out": "",
        } | answers

    def _said(self, name: str, *asked: Any) -> Any:
        found = self._answers[name]
        found = found(*asked) if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return found

    def certificate(self) -> Certificate | None:
        return self._said("certificate")  # type: ignore[no-any-return]

    def login(self) -> Login | None:
        return self._said("login")  # type: ignore[no-any-return]

    def machines(self) -> Sequence[Machine]:
        return self._said("machines")  # type: ignore[no-any-return]

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        return self._said("stock", machine, model)  # type: ignore[no-any-return]

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Mapping[str, Limit] | None:
        return self._said("limits", machine)  # type: ignore[no-any-return]

    def left_out(self) -> str | None:
        return self._said("left_out")  # type: ignore[no-any-return]

    def counted(self) -> frozenset[str] | None:
        return self._said("counted")  # type: ignore[no-any-return]


LOST = DdsError("gives no answer", where="fm.machines (request 1)", fix="ask again")
THREE = tuple(Machine(f"m{number}", fabric="1") for number in range(3))


@pytest.fixture(scope="module")
def clinic() -> DoctorLab:
    return DoctorLab()


@pytest.mark.parametrize("question", ["certificate", "login"])
def test_without_trust_nothing_else_is_asked(question: str, clinic: DoctorLab) -> None:
    found = look(clinic, Told(**{question: LOST, "machines": AssertionError("was asked")}))
    assert topics(found)[-2:] == [(f"fabric {question}", "error"), ("fabric", "unknown")]


def test_a_certificate_that_ends_soon(clinic: DoctorLab) -> None:
    now = clinic.lab.time.now()
    found = look(clinic, Told(certificate=Certificate(now + 3 * DAY, "the system's roots")))
    assert (found[0].level, "3 d 00 h are left" in found[0].what) == ("warning", True)
    assert look(clinic, Told(certificate=Certificate(now + 300 * DAY, "x")))[0].level == "ok"


def test_a_token_that_does_not_say_when_it_was_made(clinic: DoctorLab) -> None:
    found = look(clinic, Told(login=Login(1, 2)))
    assert topics(found)[1:3] == [("fabric login", "ok"), ("fabric login", "unknown")]


@pytest.mark.parametrize(
    ("machines", "words"),
    [((), "there are no machines"), ((Machine("a"),), "none of 1 machines is in a fabric"), (LOST, "gives no answer")],
)
def test_machines_that_are_not_there(machines: Any, words: str, clinic: DoctorLab) -> None:
    found = [one for one in look(clinic, Told(machines=machines)) if one.check == "fabric machines"]
    assert (found[0].level, words in found[0].what) == ("error", True)


def test_machines_in_no_fabric_are_told(clinic: DoctorLab) -> None:
    found = look(clinic, Told(machines=(*THREE, Machine("alone", "server-9"))))
    assert "1 machine in no fabric: server-9" in worst(found, "note")


def test_entries_that_could_not_be_read_are_told(clinic: DoctorLab) -> None:
    found = look(clinic, Told(machines=THREE, left_out="nec.resources: field resources.3.device.deviceID is odd"))
    assert (found[-1].check, found[-1].level) == ("fabric entries", "warning")
    assert not [one for one in look(clinic, Told(machines=THREE)) if one.check == "fabric entries"]


def test_nodes_that_are_no_machines(clinic: DoctorLab) -> None:
    found = [one for one in look(clinic, Told(machines=THREE)) if one.check == "fabric nodes"]
    assert levels(found) == ["error", "warning"]
    assert "none of 2 nodes is a machine of the fabric" in found[0].what
    assert "2 nodes with the label cohdi.io/fabric" in found[1].what


def test_an_inventory_may_name_a_node_that_has_a_provider_id(clinic: DoctorLab) -> None:
    found = look(clinic, Told(machines=(Machine("node:node0000", fabric="1"),)))
    (first, *_) = [one for one in found if one.check == "fabric nodes"]
    assert (first.level, first.what) == ("ok", "1 of 2 nodes are machines of the fabric")


def test_an_inventory_that_has_a_node_twice(clinic: DoctorLab) -> None:
    uuid = _of_provider(clinic, "node0000")
    found = look(clinic, Told(machines=(Machine("node:node0000", fabric="1"), Machine(uuid, fabric="1"))))
    (told,) = [one for one in found if "by uuid and by name" in one.what]
    assert (told.level, told.mend) == ("warning", "take one of the two entries out")
    assert told.what == "the inventory has 1 node by uuid and by name: node0000; the uuid counts"


def test_nodes_without_a_provider_id() -> None:
    bare = DoctorLab()
    bare.admin.create("nodes", {"metadata": {"name": "bare"}})
    found = look(bare, Told(machines=(*THREE, Machine("node:node0001", fabric="1"))))
    assert any(what.startswith("no machine is named by 1 node: bare") for what in worst(found, "note"))


def test_one_machine_that_cannot_be_asked_does_not_hide_its_fabric(clinic: DoctorLab) -> None:
    def stock(machine: Machine, model: PoolModel) -> Any:
        return LOST if machine.uuid == "m0" else Stock("1", model.model, 7)

    found = [one for one in look(clinic, Told(machines=THREE, stock=stock)) if one.check == "fabric stock"]
    assert [one.what for one in found] == ["A100 40G: 7 free in fabric 1", "H100 80G: 7 free in fabric 1"]


def test_one_model_that_is_not_answered_is_that_models_error(clinic: DoctorLab) -> None:
    def stock(machine: Machine, model: PoolModel) -> Any:
        return LOST if model.model == "H100 80G" else Stock("1", model.model, 7)

    found = [one for one in look(clinic, Told(machines=THREE, stock=stock)) if one.check == "fabric stock"]
    assert levels(found) == ["ok", "error"]
    assert found[1].what == "H100 80G in fabric 1: fm.machines (request 1): gives no answer"


def test_devices_that_are_not_well_do_not_count(clinic: DoctorLab) -> None:
    devices = (FreeDevice("a"), FreeDevice("b", healthy=False))

    def stock(machine: Machine, model: PoolModel) -> Stock:
        return Stock("1", model.model, 2, devices)

    found = [one for one in look(clinic, Told(machines=THREE, stock=stock)) if one.check == "fabric stock"]
    assert found[0].what == "A100 40G: 1 free in fabric 1"


def test_limits_that_are_not_answered_are_no_error(clinic: DoctorLab) -> None:
    found = [
        one for one in look(clinic, Told(machines=THREE, limits=lambda machine: LOST)) if one.check == "fabric limits"
    ]
    assert levels(found) == ["warning"]


@pytest.mark.parametrize(
    "fault",
    [ManagerFault(kind="error"), ManagerFault(kind="odd"), ManagerFault(kind="away"), ManagerFault(kind="empty")],
    ids=lambda one: one.kind,
)
def test_faults_of_the_manager_are_findings(fault: ManagerFault, tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, simulated = ward(tmp_path, stack)
    simulated.faults.add(fault)
    found = look(clinic, manager)
    assert worst(found, "error")
    text = " ".join(f"{one.what} {one.mend}" for one in found)
    assert not any(secret in text for secret in (SECRETS.password, SECRETS.client_secret))


def test_a_manager_that_hangs_is_not_waited_for_by_every_question(tmp_path: Path, stack: ExitStack) -> None:
    clinic, manager, simulated = ward(tmp_path, stack)
    simulated.faults.add(ManagerFault(kind="slow", calls=("available",), wait=100))
    found = look(clinic, manager)
    assert levels([one for one in found if one.check == "fabric stock"]) == ["error", "error"]
    assert len([one for one in simulated.seen if one.name == "available"]) == 9, "three questions of three tries"


# -- certificates ------------------------------------------------------------------------------------------------------


def _seen(certificate: Any, folder: Path, *, given: bool = True) -> Certificate:
    clinic = DoctorLab(seconds=0)
    with serving_manager(lambda time: Manager(time, clinic.lab.fabric), certificate=certificate) as served:
        served.credentials(folder)
        port = int(served.url.rpartition(":")[2])
        pem = (folder / "certificate").read_text() if given else ""
        return certificate_of("127.0.0.1", port, trusting(pem), given=given)


def test_a_certificate_that_is_good(tmp_path: Path) -> None:
    found = _seen("good", tmp_path)
    assert found.trusted_by == "the certificate that was given"
    assert found.ends > 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("certificate", "words", "mend"),
    [
        ("expired", "expired", "renew it"),
        ("other_name", "IP address mismatch", "by the name that is in the certificate"),
        ("unknown_authority", "", "the authority that signed it"),
    ],
)
def test_certificates_that_do_not_count(certificate: str, words: str, mend: str, tmp_path: Path) -> None:
    with pytest.raises(Untrusted) as caught:
        _seen(certificate, tmp_path)
    assert "the certificate is not trusted" in caught.value.what
    assert words in caught.value.what
    assert mend in caught.value.fix


def test_a_certificate_that_the_system_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(Untrusted, match="not trusted") as caught:
        _seen("good", tmp_path, given=False)
    assert "the system does not know it" in caught.value.fix


def test_an_endpoint_without_tls_and_one_that_is_not_there(tmp_path: Path) -> None:
    clinic = DoctorLab(seconds=0)
    with serving_manager(lambda time: Manager(time, clinic.lab.fabric), tls=False) as served:
        port = int(served.url.rpartition(":")[2])
        with pytest.raises(Untrusted, match="no TLS connection"):
            certificate_of("127.0.0.1", port, trusting(""), given=False, seconds=2)
    with pytest.raises(Untrusted, match="cannot be reached"):
        certificate_of("127.0.0.1", port, trusting(""), given=False, seconds=2)


@pytest.mark.parametrize("text", ["nonsense", "ü", "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----"])
def test_a_certificate_that_is_none(text: str, tmp_path: Path, stack: ExitStack) -> None:
    write_credentials(tmp_path, SECRETS, None)
    (tmp_path / "certificate").write_text(text)
    settings = FabricSettings("fm", "https://127.0.0.1", ManagerSettings().tenant, credentials=tmp_path)
    with pytest.raises(FabricDenied, match="no certificate in PEM form"):
        FabricManager(settings, stack).certificate()


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "environment", "named"),
    [
        ({}, {}, False),
        ({}, {"TENANT_ID": "t"}, False),
        ({}, {"CDI_ENDPOINT": "https://cdi"}, True),
        ({"fabric": "fm"}, {}, True),
        ({"inventory": "a.yaml"}, {}, True),
    ],
)
def test_a_fabric_is_named_or_not(given: dict[str, str], environment: dict[str, str], named: bool) -> None:
    assert is_named(OfFabric(**given), environment) is named


def test_an_inventory_is_its_own_manager(tmp_path: Path, stack: ExitStack, clinic: DoctorLab) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text('machines: [{node: node0001, fabric: "1"}]\nfabrics: {"1": {"A100 40G": 3}}\n', encoding="utf-8")
    manager = FabricManager(FabricSettings("file", inventory=path), stack)
    assert (manager.where, manager.certificate(), manager.login()) == (str(path), None, None)
    found = look(clinic, manager)
    assert "A100 40G: 3 free or attached in fabric 1" in [one.what for one in found]
    assert "fabric stock" not in [one.check for one in found if one.level == "warning"]


def test_names_that_an_inventory_has_and_the_cluster_does_not(
    tmp_path: Path, stack: ExitStack, clinic: DoctorLab
) -> None:
    path = tmp_path / "inventory.yaml"
    machines = 'machines: [{node: node0001, fabric: "1"}, {node: nod0002, fabric: "1"}]\n'
    path.write_text(f'{machines}fabrics: {{"1": {{"A100-40G": 3}}}}\n', encoding="utf-8")
    found = look(clinic, FabricManager(FabricSettings("file", inventory=path), stack))
    assert worst(found, "warning") == [
        "the inventory names 1 node that the cluster does not have: nod0002",
        "the fabric does not know the machine of 1 node with the label cohdi.io/fabric: node0000",
        "the inventory counts A100-40G, which device-info does not know: nothing is published of it",
    ]


# -- nodes whose BareMetalHost says their machine ----------------------------------------------------------------------


def test_nodes_by_their_bare_metal_hosts() -> None:
    clinic = DoctorLab()
    names = ("node0000", "node0001")
    uids = [_of_provider(clinic, name) for name in names]
    context = clinic.context(bare_metal_hosts=True)
    found = [_bare_metal_host(uid, f"M{number}") for number, uid in enumerate(uids)]
    context.once("all baremetalhosts", lambda: found)
    said = [
        one.what for one in fabric(context, Told(machines=THREE), clinic.lab.time.now) if one.check == "fabric nodes"
    ]
    assert said == ["2 of 2 nodes are machines of the fabric"]


def _of_provider(clinic: DoctorLab, name: str) -> str:
    return str(clinic.admin.get("nodes", name)["spec"]["providerID"]).rpartition("/")[2]


def _bare_metal_host(uid: str, machine: str) -> bytes:
    annotations = {"cluster-manager.cdi.io/machine": machine}
    return json.dumps({"metadata": {"uid": uid, "annotations": annotations}}).encode()
