"""Faults of calls: which calls they befall, what a client sees of them, and what was done all the same."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from dds_lab.actors.faults import CallFaults
from dds_lab.manager import ManagerSettings
from dds_lab.manager.faults import Odd
from dds_lab.scenario.trouble import ManagerCall, ManagerFault
from dds_lab.time import VirtualTime
from tests.support.managers import A100, H100, MACHINES, ManagerRoom, logged_in

CM = ManagerSettings(api="cm")


def hit(room: ManagerRoom, fault: ManagerFault) -> None:
    room.manager.faults.add(fault)


# -- which calls a fault befalls -----------------------------------------------------------------------------------------


def test_a_fault_befalls_its_calls_so_many_times() -> None:
    faults = CallFaults(VirtualTime(1, 0), "faults")
    two = ManagerFault(kind="error", calls=("machines",), times=2)
    faults.add(two)
    assert [faults.take(call) for call in ("token", "machines", "available", "machines", "machines")] == [
        (),
        (two,),
        (),
        (two,),
        (),
    ]
    assert faults.waiting() == ()


def test_several_faults_befall_one_call() -> None:
    faults = CallFaults(VirtualTime(1, 0), "faults")
    both = ManagerFault(kind="slow"), ManagerFault(kind="cut", times=1)
    for one in both:
        faults.add(one)
    assert faults.take("machines") == both
    assert faults.take("machines") == both[:1]
    faults.lift(both[0])
    assert faults.take("machines") == ()


def test_a_fault_befalls_its_nodes_and_models() -> None:
    faults = CallFaults(VirtualTime(1, 0), "faults")
    one = ManagerFault(kind="error", nodes=("node0",), models=(A100,))
    faults.add(one)
    assert faults.take("available", "node0", A100) == (one,)
    assert faults.take("available", "node1", A100) == faults.take("available", "node0", "other") == ()
    assert faults.take("machines") == ()


def test_chance_is_seeded() -> None:
    def struck(seed: int) -> list[bool]:
        faults = CallFaults(VirtualTime(seed, 0), "faults")
        faults.add(ManagerFault(kind="error", share=0.5))
        return [bool(faults.take("machines")) for _ in range(200)]

    assert struck(1) == struck(1) != struck(2)
    assert 60 < sum(struck(1)) < 140


# -- what a client sees --------------------------------------------------------------------------------------------------


def test_an_error_is_answered_and_nothing_is_done() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="error", calls=("attach",), times=1, code=502))
    assert room.attach().status_code == 502
    assert len(room.fabric.ledger) == 0
    assert room.attach().status_code == 200


def test_one_machine_or_one_model_alone_can_fail() -> None:
    room = logged_in()
    by_machine, by_model = ManagerFault(kind="error", nodes=("node0",)), ManagerFault(kind="error", models=(H100,))
    hit(room, by_machine)
    assert [room.available(node).status_code for node in (0, 1, 2)] == [500, 200, 200]
    assert (room.attach(0).status_code, room.attach(1).status_code) == (500, 200)
    room.manager.faults.lift(by_machine)
    hit(room, by_model)
    assert [room.available(0, model).status_code for model in (A100, H100)] == [200, 500]
    assert (room.attach(0, H100).status_code, room.attach(0).status_code) == (500, 200)
    assert room.get(MACHINES, tenant_uuid=room.tenant).status_code == 200


def test_a_busy_manager_says_when_to_come_again() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="busy", times=1, wait=7))
    answer = room.available()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "7")
    assert room.free() == 4


def test_a_lost_answer_was_done() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="cut", calls=("attach",), times=1))
    with pytest.raises(httpx.RemoteProtocolError):
        room.attach()
    assert len(room.fabric.attached("node0")) == 1


def test_a_manager_that_is_away_does_nothing() -> None:
    room = logged_in()
    away = ManagerFault(kind="away")
    hit(room, away)
    with pytest.raises(httpx.ConnectError):
        room.attach()
    with pytest.raises(httpx.ConnectError):
        room.login()
    room.manager.faults.lift(away)
    assert len(room.fabric.ledger) == 0
    assert room.free() == 4


def test_every_token_can_expire_at_any_time() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="expired", calls=("available",), times=1))
    assert room.available().status_code == 401
    assert room.available().status_code == 401
    room.login()
    assert room.free() == 4


def test_an_empty_answer_has_no_body() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="empty", times=1))
    answer = room.available()
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("how", "body"),
    [
        ("html", "<html>"),
        ("null", "null"),
        ("list", "[]"),
        ("truncated", '{"fabric_id":1,"reserv'),
    ],
)
def test_an_answer_can_be_of_another_form(how: Odd, body: str) -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="odd", times=1, odd=how))
    answer = room.available()
    assert answer.status_code == 200
    assert answer.text.startswith(body)


def test_a_field_can_be_missing_or_of_another_type() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="odd", times=1, odd="missing", field="mach_uuid"))
    assert not any("mach_uuid" in one for one in room.machines())
    hit(room, ManagerFault(kind="odd", times=1, odd="types", field="fabric_id"))
    assert {one["fabric_id"] for one in room.machines()} == {"unexpected"}
    hit(room, ManagerFault(kind="odd", times=1, odd="types", field="mach_uuid"))
    assert all(one["mach_uuid"] == {"unexpected": True} for one in room.machines())
    assert room.machines()[0]["mach_uuid"] == room.nodes[0].uuid


@pytest.mark.parametrize("how", ["types", "missing"])
def test_without_a_field_one_is_drawn(how: Odd) -> None:
    room = logged_in()
    true = room.machines()
    hit(room, ManagerFault(kind="odd", times=20, odd=how))
    odd = [room.get(MACHINES, tenant_uuid=room.tenant).json() for _ in range(20)]
    assert all(one != {"data": {"machines": true}} for one in odd)
    assert len({json.dumps(one) for one in odd}) > 3


def test_a_token_can_be_odd_too() -> None:
    room = ManagerRoom()
    hit(room, ManagerFault(kind="odd", calls=("token",), times=1, odd="missing", field="access_token"))
    assert (
        "access_token"
        not in room.client.post("/id_manager/realms/CDI/protocol/openid-connect/token", data=room.form()).json()
    )


def test_an_answer_can_be_of_another_fabric() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="other_fabric", calls=("available",), times=1))
    assert room.available().json() == {"fabric_id": 2, "reserved_res_num_per_fabric": 4}
    assert room.available().json()["fabric_id"] == 1


@pytest.mark.parametrize("call", ["machines", "machine", "available", "node", "nodegroups", "nodegroup"])
def test_answers_can_be_huge(call: ManagerCall) -> None:
    room = logged_in(CM)
    (group,) = room.get(room.cm("v2", "nodegroups")).json()["nodegroups"]
    hit(room, ManagerFault(kind="huge", calls=(call,), times=1))
    entries: dict[str, Any] = {
        "machines": lambda: room.machines()[0]["resources"],
        "machine": lambda: room.machine()["resources"],
        "available": lambda: range(room.free()),
        "node": lambda: room.spec()["devices"],
        "nodegroups": lambda: room.get(room.cm("v2", "nodegroups")).json()["nodegroups"],
        "nodegroup": lambda: room.get(room.cm("v2", f"nodegroups/{group['uuid']}")).json()["mach_ids"],
    }
    found = list(entries[call]())
    assert len(found) == 10_000
    assert len({json.dumps(one) for one in found}) == 10_000


def test_cdim_can_be_huge() -> None:
    room = ManagerRoom(ManagerSettings(api="nec"), pools={("1", A100): 3})
    hit(room, ManagerFault(kind="huge", calls=("resources",), times=1))
    answer = room.get("/cdim/api/v1/resources", detail="true").json()
    assert answer["count"] == len({one["device"]["deviceID"] for one in answer["resources"]}) == 10_000


def test_errors_are_not_made_odd() -> None:
    room = logged_in()
    hit(room, ManagerFault(kind="odd", times=1, odd="html"))
    assert room.get(f"{MACHINES}/other", tenant_uuid=room.tenant).json()["status"] == 404


# -- what is remembered --------------------------------------------------------------------------------------------------


def test_calls_are_counted_and_remembered_without_secrets() -> None:
    room = logged_in()
    login = room.manager.settings.login
    room.attach()
    room.get("/elsewhere")
    assert dict(room.manager.counts) == {"token": 1, "attach": 1}
    token, attach, other = room.manager.seen
    assert (token.name, token.form["grant_type"], token.form["username"]) == ("token", "password", login.username)
    assert (attach.method, attach.status, other.name, other.status) == ("PATCH", 200, "", 404)
    assert attach.headers["content-type"] == "application/json"
    assert json.loads(attach.body)["tenants"]["tenant_uuid"] == room.tenant
    said = repr(list(room.manager.seen)) + repr(room.manager.settings)
    bearer = room.client.headers["Authorization"].removeprefix("Bearer ")
    for secret in (login.password, login.client_secret, bearer):
        assert secret not in said
