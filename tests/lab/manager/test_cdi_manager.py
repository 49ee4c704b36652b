"""The simulated manager against what is known of the real ones: method, path, query, body and every field of each call, what
changes, and the form of errors."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from dds_lab.manager import Login, ManagerSettings
from dds_lab.scenario.trouble import FabricFault
from tests.support.managers import A100, H100, MACHINES, NIC, SECOND, TOKEN, ManagerRoom, errors, logged_in

ODD_LOGIN = Login("jürgen", "a&b=c+d %ü€'\"", "CDI Ü", "client&1", "s=e&c+r%et")


# -- the identity service ------------------------------------------------------------------------------------------------


def test_a_login_gives_a_token_with_all_its_fields() -> None:
    room = ManagerRoom()
    answer = room.login()
    assert answer.status_code == 200
    found = answer.json()
    assert set(found) == {
        "access_token",
        "expires_in",
        "refresh_expires_in",
        "refresh_token",
        "token_type",
        "id_token",
        "not-before-policy",
        "session_state",
        "scope",
    }
    assert (found["token_type"], found["expires_in"]) == ("Bearer", 300)
    head, claims, signature = found["access_token"].split(".")
    assert signature
    assert json.loads(_decoded(head))["typ"] == "JWT"
    assert json.loads(_decoded(claims))["exp"] == room.time.now() // SECOND + 300


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_the_reference_drivers_form_is_taken_too() -> None:
    """It sends `response` instead of `response_type`, and a space that is not encoded."""
    room = ManagerRoom()
    form = room.form(response="id_token token")
    del form["response_type"]
    body = "&".join(f"{key}={value}" for key, value in form.items())
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert room.client.post(TOKEN.format("CDI"), content=body, headers=headers).status_code == 200


def test_secrets_of_any_characters_survive_a_form_that_is_encoded() -> None:
    room = ManagerRoom(ManagerSettings(login=ODD_LOGIN))
    assert room.client.post(TOKEN.format(quote(ODD_LOGIN.realm)), data=room.form()).status_code == 200


def test_secrets_in_a_form_that_is_not_encoded_do_not() -> None:
    """What befalls the reference driver."""
    room = ManagerRoom(ManagerSettings(login=Login(password="a&b=c")))
    body = "&".join(f"{key}={value}" for key, value in room.form().items())
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = room.client.post(TOKEN.format("CDI"), content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_grant")


@pytest.mark.parametrize(
    ("wrong", "status", "word"),
    [
        ({"password": "other"}, 401, "invalid_grant"),
        ({"username": "other"}, 401, "invalid_grant"),
        ({"client_secret": "other"}, 401, "invalid_client"),
        ({"client_id": "other"}, 401, "invalid_client"),
        ({"grant_type": "refresh_token"}, 400, "unsupported_grant_type"),
        ({"scope": "email"}, 400, "invalid_scope"),
    ],
)
def test_a_wrong_login_is_refused(wrong: dict[str, str], status: int, word: str) -> None:
    answer = ManagerRoom().login(**wrong)
    assert (answer.status_code, answer.json()["error"]) == (status, word)


def test_another_realm_and_another_content_type_are_refused() -> None:
    room = ManagerRoom()
    assert room.client.post(TOKEN.format("other"), data=room.form()).status_code == 404
    assert room.client.post(TOKEN.format("CDI"), json=room.form()).status_code == 415


def test_a_token_expires() -> None:
    room = logged_in(ManagerSettings(token_life=60))
    room.run(59.9)
    assert room.get(MACHINES, tenant_uuid=room.tenant).status_code == 200
    room.run(0.1)
    errors(room.get(MACHINES, tenant_uuid=room.tenant), 401, "E010401")
    assert room.login().status_code == 200
    assert room.get(MACHINES, tenant_uuid=room.tenant).status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer other", "Basic bGFiOmxhYg=="])
def test_without_a_token_nothing_is_told(header: str) -> None:
    room = ManagerRoom()
    room.client.headers["Authorization"] = header
    errors(room.get(MACHINES, tenant_uuid=room.tenant), 401, "E010401")
    errors(room.attach(), 401, "E010401")
    assert len(room.fabric.ledger) == 0


# -- the fabric manager --------------------------------------------------------------------------------------------------


def test_machines_are_listed_with_all_their_fields() -> None:
    room = logged_in()
    serial = room.operator_attaches()
    first, second, third, fourth = room.machines()
    assert set(first) == {
        "fabric_uuid",
        "fabric_id",
        "mach_uuid",
        "mach_id",
        "mach_name",
        "mach_owner",
        "resources",
    }
    assert (first["mach_uuid"], first["mach_name"], first["mach_id"]) == (room.nodes[0].uuid, "node0", 1)
    assert [one["fabric_id"] for one in (first, second, third, fourth)] == [1, 1, 2, None]
    assert first["fabric_uuid"] == second["fabric_uuid"] != third["fabric_uuid"]
    assert fourth["fabric_uuid"] == ""
    (resource,) = first["resources"]
    assert set(resource) == {"res_uuid", "res_name", "res_type", "res_status", "res_op_status"}
    assert resource["res_uuid"] == serial.removeprefix("GPU-")
    assert second["resources"] == []


def test_a_machine_is_told_with_all_its_fields() -> None:
    room = logged_in()
    serial = room.operator_attaches(model=H100)
    found = room.machine()
    assert set(found) == {
        "fabric_uuid",
        "fabric_id",
        "mach_uuid",
        "mach_id",
        "mach_name",
        "tenant_uuid",
        "mach_status",
        "mach_status_detail",
        "resources",
    }
    assert found["tenant_uuid"] == room.tenant
    assert type(found["mach_status"]) is int
    (resource,) = found["resources"]
    assert resource == {
        "res_uuid": serial.removeprefix("GPU-"),
        "res_name": "gpu-node0-0",
        "res_type": "gpu",
        "res_status": 4,
        "res_op_status": "00",
        "res_serial_num": serial,
        "res_spec": {"condition": [{"column": "model", "operator": "eq", "value": H100}]},
    }


def test_a_device_that_dropped_out_is_critical() -> None:
    room = logged_in()
    room.fabric.drop(room.operator_attaches())
    assert room.machine()["resources"][0]["res_op_status"][0] == "2"
    assert room.machines()[0]["resources"][0]["res_op_status"][0] == "2"


def test_what_is_free_is_counted_by_fabric_and_model() -> None:
    room = logged_in()
    assert room.available().json() == {"fabric_id": 1, "reserved_res_num_per_fabric": 4}
    assert room.available(2).json() == {"fabric_id": 2, "reserved_res_num_per_fabric": 3}
    assert room.free(1) == 4
    assert room.free(model=H100) == 2
    assert room.free(2, H100) == 0
    assert room.free(model="unheard of") == 0


def test_a_type_of_another_model_counts_nothing() -> None:
    room = logged_in()
    assert room.free(model=NIC, type="nic") == 1
    assert room.free(model=NIC, type="gpu") == 0
    assert room.free(model=A100, type="nic") == 0


def test_what_the_operator_attaches_is_gone_from_the_count() -> None:
    room = logged_in()
    room.operator_attaches()
    assert room.free() == room.free(1) == 3
    assert room.free(2) == 3


def test_a_quota_bounds_what_is_free() -> None:
    room = logged_in(ManagerSettings(quotas={A100: 2}))
    assert (room.free(), room.free(2), room.free(model=H100)) == (2, 2, 2)
    room.operator_attaches("node2")
    assert (room.free(), room.free(2)) == (1, 1)
    assert room.attach().status_code == 200
    assert room.free() == 0
    detail = errors(room.attach(), 403, "E020403")
    assert detail["message"] == f"the tenant's quota of 2 devices of model {A100} is used up"


def test_an_attach_is_answered_when_the_fabric_is_done() -> None:
    room = logged_in()
    began = room.time.now()
    answer = room.attach()
    assert answer.status_code == 200
    assert room.time.now() - began == 2 * SECOND
    (machine,) = answer.json()["data"]["machines"]
    (resource,) = machine["resources"]
    (plugged,) = room.fabric.attached("node0")
    assert (resource["res_serial_num"], resource["res_uuid"]) == (plugged.device.serial, plugged.device.resource)
    assert machine["mach_uuid"] == room.nodes[0].uuid
    assert room.free() == 3
    assert room.machine() == machine


def test_the_answer_to_an_attach_has_only_what_came() -> None:
    room = logged_in()
    room.operator_attaches()
    answer = room.attach(number=2).json()["data"]["machines"][0]["resources"]
    assert len(answer) == 2
    assert len(room.machine()["resources"]) == 3


def test_an_attach_is_not_idempotent() -> None:
    """As with the real one: whoever asks again because the answer was lost gets a second device."""
    room = logged_in()
    room.attach()
    room.attach()
    assert len(room.fabric.attached("node0")) == 2


def test_a_detach_gives_the_device_back() -> None:
    room = logged_in()
    resource = room.attach().json()["data"]["machines"][0]["resources"][0]["res_uuid"]
    answer = room.detach(resource)
    assert answer.status_code in (200, 204)
    assert room.machine()["resources"] == []
    assert room.free() == 4
    errors(room.detach(resource), 404, "E020404")


def test_what_the_operator_attached_can_be_detached_here() -> None:
    room = logged_in()
    serial = room.operator_attaches()
    assert room.detach(serial.removeprefix("GPU-")).status_code == 204
    assert room.fabric.where(serial) == ""


def test_what_is_built_in_is_no_managers() -> None:
    room = logged_in()
    room.nodes.append(room.fabric.connect("node4", "1", [A100]))
    assert room.machine(4)["resources"] == []
    errors(room.detach(room.fabric.plugged("node4")[0].device.resource, node=4), 404, "E020404")


def test_what_the_fabric_says_no_to_is_an_error_with_its_words() -> None:
    room = logged_in()
    assert room.attach(model=H100, number=2).status_code == 200
    detail = errors(room.attach(model=H100), 500, "E02XXXX")
    assert detail["message"] == f"CDI manager: no free resource of model {H100} in fabric 1"
    errors(room.attach(3), 500, "E02XXXX")


def test_a_fabric_that_never_answers_is_a_connection_that_ends() -> None:
    room = logged_in()
    room.fabric.faults.add(FabricFault(kind="hang", operation="attach", times=1))
    with pytest.raises(httpx.TransportError):
        room.attach()
    assert room.fabric.attached("node0") == ()


def test_what_the_fabric_does_wrong_is_seen_here_too() -> None:
    room = logged_in()
    room.fabric.faults.add(FabricFault(kind="second_device", times=1))
    assert len(room.attach().json()["data"]["machines"][0]["resources"]) == 1
    assert len(room.machine()["resources"]) == 2
    room.fabric.faults.add(FabricFault(kind="wrong_device", times=1))
    (wrong,) = room.attach(1).json()["data"]["machines"][0]["resources"]
    assert wrong["res_spec"]["condition"][0]["value"] != A100
    room.fabric.faults.add(FabricFault(kind="lose_answer", times=1, words="E02XXXX"))
    errors(room.attach(2), 500, "E02XXXX")
    assert len(room.machine(2)["resources"]) == 1


def test_calls_that_name_what_is_not_there_are_refused() -> None:
    room = logged_in()
    errors(room.get(MACHINES, tenant_uuid="other"), 404, "E010404")
    errors(room.get(MACHINES), 404, "E010404")
    errors(room.get(f"{MACHINES}/other", tenant_uuid=room.tenant), 404, "E010404")
    errors(room.get("/fabric_manager/api/v2/machines", tenant_uuid=room.tenant), 404, "E010404")
    errors(room.client.post(MACHINES), 405, "E010405")
    errors(room.available(3), 400, "E020400")
    path = f"{MACHINES}/{room.nodes[0].uuid}/available-reserved-resources"
    errors(room.get(path, tenant_uuid=room.tenant, res_type="gpu"), 400, "E010400")
    errors(room.get(path, tenant_uuid=room.tenant, res_type="gpu", condition='{"column":"size"}'), 400, "E010400")
    errors(room.get(path, tenant_uuid=room.tenant, condition="{}"), 400, "E010400")


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ({}, "tenants"),
        ({"tenants": {"tenant_uuid": "T", "machines": []}}, "machines.0"),
        ({"tenants": {"tenant_uuid": "T", "machines": [{"mach_uuid": "M", "resources": []}]}}, "resources.0"),
        ({"tenants": {"tenant_uuid": "T", "machines": [{"mach_uuid": "M", "resources": [{}]}]}}, "res_specs"),
        ({"tenants": []}, "tenant_uuid"),
    ],
)
def test_a_body_of_another_form_is_refused_and_nothing_moves(body: Any, missing: str) -> None:
    room = logged_in()
    text = json.dumps(body).replace('"T"', f'"{room.tenant}"').replace('"M"', f'"{room.nodes[0].uuid}"')
    answer = room.client.patch(
        f"{MACHINES}/{room.nodes[0].uuid}/update", params={"tenant_uuid": room.tenant}, content=text
    )
    assert missing in errors(answer, 400, "E010400")["message"]
    assert len(room.fabric.ledger) == 0


def test_a_body_that_is_no_json_and_numbers_out_of_bounds_are_refused() -> None:
    room = logged_in()
    path = f"{MACHINES}/{room.nodes[0].uuid}/update"
    errors(room.client.patch(path, params={"tenant_uuid": room.tenant}, content=b"{"), 400, "E010400")
    errors(room.attach(number=0), 400, "E010400")
    errors(room.attach(number=65), 400, "E010400")
    errors(room.attach(type="nic"), 404, "E020404")
    assert len(room.fabric.ledger) == 0
