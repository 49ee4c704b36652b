"""The manager over real sockets: HTTPS with its own certificate, what a client refuses, and answers that do not come."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from dds_lab.actors.fabric import Fabric
from dds_lab.http_frontend import Exposed
from dds_lab.manager import Login, Manager, ManagerSettings
from dds_lab.manager.frontend import Certificate, ManagerFrontend, ServedManager, serving_manager
from dds_lab.scenario.parts import Fabrics
from dds_lab.scenario.trouble import ManagerFault
from dds_lab.scenario.values import fixed
from dds_lab.time import RealTime, Time

A100 = "A100 40G"
LOGIN = Login("jürgen", "a&b=c+d %ü", "CDI", "client", "s=e&c")
SETTINGS = ManagerSettings(login=LOGIN)
MACHINES = "/fabric_manager/api/v1/machines"


def made(time: Time) -> Manager:
    fabric = Fabric(time, {("1", A100): 4}, Fabrics(attach=fixed(0.1)))
    fabric.connect("node0", "1")
    return Manager(time, fabric, SETTINGS)


@pytest.fixture
def served() -> Iterator[ServedManager]:
    with serving_manager(made) as served:
        yield served


@contextmanager
def client_of(served: ServedManager) -> Iterator[httpx.Client]:
    """A client that trusts what it was given, and has logged in."""
    assert served.ca is not None
    context = ssl.create_default_context(cadata=served.ca.decode())
    form = {
        "client_id": LOGIN.client_id,
        "client_secret": LOGIN.client_secret,
        "username": LOGIN.username,
        "password": LOGIN.password,
        "scope": "openid",
        "grant_type": "password",
    }
    with httpx.Client(base_url=served.url, verify=context, trust_env=False) as client:
        answer = client.post("/id_manager/realms/CDI/protocol/openid-connect/token", data=form)
        assert answer.status_code == 200, answer.text
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        yield client


def machines(client: httpx.Client) -> httpx.Response:
    return client.get(MACHINES, params={"tenant_uuid": SETTINGS.tenant})


def attach(client: httpx.Client, served: ServedManager) -> httpx.Response:
    uuid = served.run(lambda: served.manager.fabric.machines()[0].uuid)
    spec: Any = {"res_type": "gpu", "res_num": 1}
    spec["res_spec"] = {"condition": [{"column": "model", "operator": "eq", "value": A100}]}
    machine = {"mach_uuid": uuid, "resources": [{"res_specs": [spec]}]}
    body = {"tenants": {"tenant_uuid": SETTINGS.tenant, "machines": [machine]}}
    return client.patch(f"{MACHINES}/{uuid}/update", params={"tenant_uuid": SETTINGS.tenant}, json=body)


def attached(served: ServedManager) -> int:
    return served.run(lambda: len(served.manager.fabric.attached("node0")))


def test_a_whole_story_over_https(served: ServedManager) -> None:
    with client_of(served) as client:
        assert [one["mach_name"] for one in machines(client).json()["data"]["machines"]] == ["node0"]
        answer = attach(client, served)
        assert answer.status_code == 200
        assert len(answer.json()["data"]["machines"][0]["resources"]) == attached(served) == 1
        condition = json.dumps({"column": "model", "operator": "eq", "value": A100})
        uuid = answer.json()["data"]["machines"][0]["mach_uuid"]
        query = {"tenant_uuid": SETTINGS.tenant, "res_type": "gpu", "condition": condition}
        free = client.get(f"{MACHINES}/{uuid}/available-reserved-resources", params=query).json()
        assert free == {"fabric_id": 1, "reserved_res_num_per_fabric": 3}


def test_an_attach_holds_up_nobody_else(served: ServedManager) -> None:
    with client_of(served) as client, client_of(served) as other:
        answers: list[int] = []
        thread = threading.Thread(target=lambda: answers.append(attach(client, served).status_code))
        thread.start()
        assert machines(other).status_code == 200
        thread.join(10)
        assert answers == [200]


@pytest.mark.parametrize("certificate", ["expired", "other_name", "unknown_authority"])
def test_a_bad_certificate_is_refused_by_a_client_that_looks(certificate: Certificate) -> None:
    with serving_manager(made, certificate=certificate) as served:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"), client_of(served):
            pass
        assert served.run(lambda: len(served.manager.seen)) == 0


def test_without_tls_it_speaks_http() -> None:
    with serving_manager(made, tls=False) as served:
        assert (served.url.partition(":")[0], served.ca) == ("http", None)
        assert httpx.get(served.url + MACHINES, trust_env=False).status_code == 401


def test_http_to_a_port_of_https_gets_no_answer(served: ServedManager) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(served.url.replace("https", "http") + MACHINES, trust_env=False)


def test_a_lost_answer_is_a_connection_that_ends_after_it_was_done(served: ServedManager) -> None:
    with client_of(served) as client:
        served.run(lambda: served.manager.faults.add(ManagerFault(kind="cut", calls=("attach",), times=1)))
        with pytest.raises(httpx.TransportError):
            attach(client, served)
        assert attached(served) == 1
        assert attach(client, served).status_code == 200


def test_a_slow_answer_comes_late(served: ServedManager) -> None:
    with client_of(served) as client:
        served.run(lambda: served.manager.faults.add(ManagerFault(kind="slow", times=2, wait=0.3)))
        with pytest.raises(httpx.ReadTimeout):
            client.get(MACHINES, params={"tenant_uuid": SETTINGS.tenant}, timeout=0.1)
        began = time.monotonic()
        assert machines(client).status_code == 200
        assert time.monotonic() - began >= 0.3


def test_a_failure_of_its_own_is_a_500_and_told(
    served: ServedManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(call: object, done: object) -> None:
        raise RuntimeError("a bug")

    with client_of(served) as client:
        monkeypatch.setattr(served.manager, "ask", broken)
        assert machines(client).status_code == 500
    assert "the simulated manager failed at GET" in caplog.text


def test_credentials_are_the_files_of_a_secret_and_for_this_user_alone(served: ServedManager, tmp_path: Path) -> None:
    folder = served.credentials(tmp_path / "secret")
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert found == {
        "username": LOGIN.username.encode(),
        "password": LOGIN.password.encode(),
        "realm": LOGIN.realm.encode(),
        "client_id": LOGIN.client_id.encode(),
        "client_secret": LOGIN.client_secret.encode(),
        "certificate": served.ca,
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_listens_on_loopback_alone() -> None:
    async def listen() -> None:
        loop = asyncio.get_running_loop()
        clock = RealTime(loop, lambda: 0, 1)
        await ManagerFrontend(made(clock), clock).listen("0.0.0.0")

    with pytest.raises(Exposed, match="this machine alone"):
        asyncio.run(listen())
