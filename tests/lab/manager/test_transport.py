"""The manager behind httpx: whose time passes, what a time-out means, and what needs the fabric's time."""

from __future__ import annotations

import httpx
import pytest

from dds_lab.latency import Fixed
from dds_lab.manager import Call, ManagerSettings
from dds_lab.manager.transport import ManagerTransport
from dds_lab.scenario.trouble import ManagerFault
from tests.support.managers import ENDPOINT, MACHINES, SECOND, ManagerRoom, logged_in


def test_a_late_answer_lets_no_time_pass_and_is_noted() -> None:
    room = logged_in(ManagerSettings(answer=Fixed(0.25)))
    began = room.time.now()
    assert room.free() == 4
    assert room.time.now() == began
    assert room.transport.delays == [0.25, 0.25]


def test_an_answer_later_than_the_time_out_does_not_come() -> None:
    room = logged_in()
    room.manager.faults.add(ManagerFault(kind="slow", calls=("machines",), wait=6.0))
    with pytest.raises(httpx.ReadTimeout):
        room.client.get(MACHINES, params={"tenant_uuid": room.tenant}, timeout=5.0)
    assert room.client.get(MACHINES, params={"tenant_uuid": room.tenant}, timeout=7.0).status_code == 200
    assert room.client.get(MACHINES, params={"tenant_uuid": room.tenant}, timeout=None).status_code == 200


def test_who_gives_a_sleep_waits() -> None:
    room = logged_in()
    slept: list[float] = []
    transport = ManagerTransport(room.manager, sleep=slept.append)
    client = httpx.Client(transport=transport, base_url=ENDPOINT, headers=room.client.headers)
    room.manager.faults.add(ManagerFault(kind="slow", wait=6.0))
    query = {"tenant_uuid": room.tenant}
    assert client.get(MACHINES, params=query, timeout=10).status_code == 200
    with pytest.raises(httpx.ReadTimeout):
        client.get(MACHINES, params=query, timeout=5)
    assert slept == [6.0, 5.0]


def test_an_attach_takes_the_fabrics_time() -> None:
    room = logged_in()
    began = room.time.now()
    assert room.attach().status_code == 200
    assert room.time.now() - began == 2 * SECOND
    assert room.transport.delays[-1] == 2.0


def test_an_attach_that_takes_longer_than_the_time_out_is_done_all_the_same() -> None:
    room = logged_in()
    room.client.timeout = httpx.Timeout(1.0)
    condition = {"column": "model", "operator": "eq", "value": "A100 40G"}
    spec = {"res_type": "gpu", "res_spec": {"condition": [condition]}, "res_num": 1}
    body = {"mach_uuid": room.nodes[0].uuid, "resources": [{"res_specs": [spec]}]}
    with pytest.raises(httpx.ReadTimeout):
        room.client.patch(
            f"{MACHINES}/{room.nodes[0].uuid}/update",
            params={"tenant_uuid": room.tenant},
            json={"tenants": {"tenant_uuid": room.tenant, "machines": [body]}},
        )
    room.run(3)
    assert len(room.fabric.attached("node0")) == 1


def test_without_a_step_what_takes_the_fabric_time_is_not_answered() -> None:
    room = logged_in()
    client = httpx.Client(transport=ManagerTransport(room.manager), base_url=ENDPOINT, headers=room.client.headers)
    room.client = client
    with pytest.raises(httpx.ReadTimeout):
        room.attach()
    assert room.free() == 3  # it is on its way
    room.run(3)
    assert len(room.machine()["resources"]) == 1


def test_what_is_answered_at_once_can_be_asked_without_a_client() -> None:
    room = ManagerRoom(ManagerSettings(api="nec"))
    assert room.manager.answer(Call("GET", "/cdim/api/v1/nodes")).json()["count"] == 4
    room = logged_in()
    headers = {"authorization": room.client.headers["Authorization"]}
    call = Call("GET", MACHINES, {"tenant_uuid": room.tenant}, headers)
    assert len(room.manager.answer(call).json()["data"]["machines"]) == 4
    order = room.manager.seen
    room.attach()
    attach = Call("PATCH", order[-1].path, order[-1].query, headers, order[-1].body)
    with pytest.raises(TypeError, match="use ask"):
        room.manager.answer(attach)


def test_a_body_that_is_nested_too_deep_is_no_json() -> None:
    room = logged_in()
    path = f"{MACHINES}/{room.nodes[0].uuid}/update"
    answer = room.client.patch(path, params={"tenant_uuid": room.tenant}, content=b"[" * 200_000)
    assert answer.status_code == 400
    query = {"tenant_uuid": room.tenant, "res_type": "gpu", "condition": "[" * 50_000}
    path = f"{MACHINES}/{room.nodes[0].uuid}/available-reserved-resources"
    headers = {"authorization": room.client.headers["Authorization"]}
    assert room.manager.answer(Call("GET", path, query, headers)).status == 400
