"""The simulated manager against what is known of the real ones: method, path, query, body and every field of each call, what
changes, and the form of errors."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from dds_adapters.lab.actors.fabric import Pool
from dds_adapters.lab.actors.fabric_faults import Fault as FabricFault
from dds_adapters.lab.manager import Fault, Limit, Login, ManagerSettings, NodeGroup
from tests.support.managers import A100, H100, MACHINES, NIC, SECOND, TOKEN, ManagerRoom, logged_in

ODD_LOGIN = Login("jürgen", "a&b=c+d %ü€'\"", "CDI Ü", "client&1", "s=e&c+r%et")


def errors(answer: Any, status: int, code: str) -> dict[str, Any]:
    """The detail of an error body, which is checked to be of its form."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"status", "detail"}
    assert body["status"] == status
    assert set(body["detail"]) == {"code", "message", "data"}
    assert body["detail"]["code"] == code
    detail: dict[str, Any] = body["detail"]
    return detail


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


# -- the cluster manager -------------------------------------------------------------------------------------------------

CM = ManagerSettings(
    api="cm",
    products={A100: "NVIDIA A100 40GB PCIe"},
    limits=(Limit(A100, most=2, least=1, nodes=frozenset({"node0"})), Limit(H100, most=1)),
    groups=(NodeGroup("fast", ("node0", "node1")), NodeGroup("slow", ("node2", "not yet there"))),
)


def test_a_nodes_detail_has_all_its_fields() -> None:
    room = logged_in(CM)
    serial = room.operator_attaches()
    found = room.node_detail()
    assert set(found) == {"data"}
    assert set(found["data"]) == {"tenant_uuid", "cluster"}
    assert set(found["data"]["cluster"]) == {"cluster_uuid", "machine"}
    assert (found["data"]["tenant_uuid"], found["data"]["cluster"]["cluster_uuid"]) == (room.tenant, room.cluster)
    machine = found["data"]["cluster"]["machine"]
    assert set(machine) == {"uuid", "name", "status", "status_reason", "resspecs"}
    assert machine["uuid"] == room.nodes[0].uuid
    spec = room.spec()
    assert set(spec) == {
        "spec_uuid",
        "type",
        "selector",
        "min_resspec_count",
        "max_resspec_count",
        "device_count",
        "devices",
    }
    assert spec["selector"] == {
        "version": "v1",
        "expression": {"conditions": [{"column": "model", "operator": "eq", "value": A100}]},
    }
    (device,) = spec["devices"]
    detail = device.pop("detail")
    assert device == {"device_id": serial, "status": "ADD_COMPLETE", "status_reason": ""}
    assert set(detail) == {
        "fabric_uuid",
        "fabric_id",
        "res_uuid",
        "fabr_gid",
        "res_type",
        "res_name",
        "res_status",
        "res_op_status",
        "resspecs",
        "tenant_uuid",
        "mach_uuid",
    }
    assert (detail["fabric_id"], detail["res_uuid"]) == (1, serial.removeprefix("GPU-"))
    assert detail["resspecs"] == [
        {
            "resspec_uuid": spec["spec_uuid"],
            "productname": "NVIDIA A100 40GB PCIe",
            "model": A100,
            "vendor": "lab",
            "removable": True,
        }
    ]


def test_limits_are_a_machines() -> None:
    room = logged_in(CM)
    bounds = [(one["min_resspec_count"], one["max_resspec_count"]) for one in (room.spec(), room.spec(1))]
    assert bounds == [(1, 2), (None, None)]
    assert room.spec(1, H100)["max_resspec_count"] == 1
    assert room.spec()["spec_uuid"] != room.spec(1)["spec_uuid"]


def test_node_groups_are_listed_and_told() -> None:
    room = logged_in(CM)
    groups = room.get(room.cm("v2", "nodegroups")).json()
    assert set(groups) == {"nodegroups"}
    assert [set(one) for one in groups["nodegroups"]] == [{"uuid", "name"}] * 2
    first, second = (room.get(room.cm("v2", f"nodegroups/{one['uuid']}")).json() for one in groups["nodegroups"])
    assert set(first) == {"uuid", "name", "mach_ids"}
    assert (first["name"], first["mach_ids"]) == ("fast", [room.nodes[0].uuid, room.nodes[1].uuid])
    assert (second["name"], second["mach_ids"]) == ("slow", [room.nodes[2].uuid])
    errors(room.get(room.cm("v2", "nodegroups/other")), 404, "E010404")


def test_without_groups_all_machines_are_in_one() -> None:
    room = logged_in(ManagerSettings(api="cm"))
    (group,) = room.get(room.cm("v2", "nodegroups")).json()["nodegroups"]
    told = room.get(room.cm("v2", f"nodegroups/{group['uuid']}")).json()
    assert told["mach_ids"] == [one.uuid for one in room.nodes]


def test_a_resize_is_accepted_and_the_device_comes_later() -> None:
    room = logged_in(CM)
    began = room.time.now()
    assert 200 <= room.grow(1).status_code < 300
    assert room.time.now() == began
    assert (room.spec()["device_count"], room.spec()["devices"]) == (0, [])
    assert room.free() == 3  # it is on its way
    room.run(2)
    (device,) = room.spec()["devices"]
    assert room.spec()["device_count"] == 1
    assert device["device_id"] == room.fabric.attached("node0")[0].device.serial


def test_asking_twice_for_the_same_number_orders_once() -> None:
    room = logged_in(CM)
    room.grow(1)
    room.grow(1)
    room.run(5)
    room.grow(1)
    room.run(5)
    assert room.fabric.ledger.count("attach", "ordered") == 1


def test_a_resize_down_takes_the_named_device_away_later() -> None:
    room = logged_in(CM)
    room.grow(2)
    room.run(3)
    first, second = (one["device_id"] for one in room.spec()["devices"])
    assert 200 <= room.shrink(1, [first]).status_code < 300
    assert room.spec()["device_count"] == 2
    room.run(2)
    assert [one["device_id"] for one in room.spec()["devices"]] == [second]


def test_limits_and_what_is_there_bound_a_resize() -> None:
    room = logged_in(CM)
    errors(room.grow(3), 400, "E020400")
    room.grow(2)
    room.run(3)
    first, second = (one["device_id"] for one in room.spec()["devices"])
    errors(room.shrink(0, [first, second]), 400, "E020400")
    errors(room.shrink(0, [first]), 409, "E020409")
    errors(room.shrink(1, ["other"]), 404, "E020404")
    errors(room.shrink(1, []), 404, "E020404")
    errors(room.resize({"increase_resource_count": {"spec_uuid": "other", "device_count": 1}}), 404, "E020404")
    errors(room.resize({"other": {}}), 400, "E010400")
    errors(room.grow(-1), 400, "E010400")
    assert len(room.fabric.attached("node0")) == 2


def test_an_attach_that_fails_is_told_until_the_next_resize() -> None:
    room = logged_in(ManagerSettings(api="cm"))
    room.grow(3, model=H100)
    room.run(5)
    spec = room.spec(model=H100)
    assert spec["device_count"] == 2
    (failed,) = [one for one in spec["devices"] if one["status"] == "ADD_FAILED"]
    assert (failed["device_id"], failed["status_reason"]) == (
        "",
        f"CDI manager: no free resource of model {H100} in fabric 1",
    )
    room.grow(2, model=H100)
    assert {one["status"] for one in room.spec(model=H100)["devices"]} == {"ADD_COMPLETE"}


def test_a_detach_that_fails_is_told() -> None:
    room = logged_in(ManagerSettings(api="cm"))
    room.grow(1)
    room.run(3)
    room.fabric.faults.add(FabricFault("refuse", "detach", times=1, words="not now"))
    (device,) = room.spec()["devices"]
    room.shrink(0, [device["device_id"]])
    room.run(3)
    (device,) = room.spec()["devices"]
    assert (device["status"], device["status_reason"]) == ("REMOVE_FAILED", "not now")
    room.shrink(0, [device["device_id"]])
    assert room.spec()["devices"][0]["status"] == "ADD_COMPLETE"
    room.run(3)
    assert room.spec()["devices"] == []


def test_another_tenant_cluster_or_machine_is_not_there() -> None:
    room = logged_in(CM)
    path = room.cm("v3", f"machines/{room.nodes[0].uuid}")
    errors(room.get(path.replace(room.tenant, "other")), 404, "E010404")
    errors(room.get(path.replace(room.cluster, "other")), 404, "E010404")
    errors(room.get(path.replace(room.nodes[0].uuid, "other")), 404, "E010404")


def test_the_cluster_manager_has_the_fabric_managers_calls_too_and_not_the_other_way_round() -> None:
    assert logged_in(CM).free() == 4
    room = logged_in()
    errors(room.get(room.cm("v2", "nodegroups")), 404, "E010404")


# -- CDIM ----------------------------------------------------------------------------------------------------------------

CDIM = "/cdim/api/v1"


def nec_room(scheme: str = "") -> ManagerRoom:
    settings = ManagerSettings(api="nec", types={NIC: "nic"}, scheme=scheme)
    return ManagerRoom(settings, pools=(Pool("1", A100, 3), Pool("1", NIC, 1)))


def ends(room: ManagerRoom, node: int = 0) -> str:
    """The fabric's end of a node's cable, found as the operator finds it."""
    nodes = room.get(f"{CDIM}/nodes", detail="true").json()["nodes"]
    (host,) = [one for one in nodes[node]["resources"] if one["device"]["type"] == "sourceFabricAdapter"]
    assert host["device"]["attribute"]["deviceSpecificInformation"]["status"] == "eesv"
    (end,) = [one["deviceID"] for one in host["device"]["links"] if one["type"] == "destinationFabricAdapter"]
    found = room.get(f"{CDIM}/resources/{end}").json()["device"]
    assert found["type"] == "destinationFabricAdapter"
    assert found["attribute"]["deviceSpecificInformation"]["status"] == "eeio"
    return str(end)


def gpus(room: ManagerRoom) -> list[dict[str, Any]]:
    found = room.get(f"{CDIM}/resources", detail="true").json()["resources"]
    return [one for one in found if one["device"]["type"] == "GPU"]


def layout(operation: str, source: str, *devices: str) -> dict[str, Any]:
    return {
        "procedures": [
            {
                "operationID": number,
                "operation": operation,
                "sourceDeviceID": source,
                "destinationDeviceID": device,
                "dependencies": [],
            }
            for number, device in enumerate(devices, start=1)
        ]
    }


def applied(room: ManagerRoom, body: Any) -> dict[str, Any]:
    answer = room.client.post(f"{CDIM}/layout-apply", json=body)
    assert answer.status_code == 202, answer.text
    assert set(answer.json()) == {"applyID"}
    found: dict[str, Any] = room.get(f"{CDIM}/layout-apply/{answer.json()['applyID']}").json()
    return found


def test_resources_have_all_their_fields() -> None:
    room = nec_room()
    answer = room.get(f"{CDIM}/resources", detail="true").json()
    assert answer["count"] == len(answer["resources"])
    free = gpus(room)
    assert len(free) == 3
    first = free[0]
    assert set(first) == {"device", "detected", "nodeIDs"}
    assert first["device"] == {
        "deviceID": room.fabric.pool("1", A100)[0].resource,
        "type": "GPU",
        "model": A100,
        "attribute": {},
        "status": {"state": "Enabled", "health": "OK"},
        "powerState": "On",
        "links": [],
    }
    assert (first["detected"], first["nodeIDs"]) == (True, [])
    assert room.get(f"{CDIM}/resources/{first['device']['deviceID']}").json() == first


def test_no_uuid_of_a_gpu_is_told() -> None:
    room = nec_room()
    room.operator_attaches()
    assert "GPU-" not in room.get(f"{CDIM}/resources", detail="true").text
    assert "GPU-" not in room.get(f"{CDIM}/nodes", detail="true").text


def test_nodes_are_called_as_their_provider_ids_are() -> None:
    room = nec_room("lab://")
    room.operator_attaches()
    answer = room.get(f"{CDIM}/nodes", detail="true").json()
    first = answer["nodes"][0]
    assert answer["count"] == 4
    assert set(first) == {"id", "name", "resources"}
    assert first["id"].lower() == f"lab://{room.nodes[0].uuid}"
    (gpu,) = [one for one in first["resources"] if one["device"]["type"] == "GPU"]
    assert set(gpu) == {"device", "detected"}
    (same,) = [one for one in gpus(room) if one["nodeIDs"]]
    assert (same["nodeIDs"], same["device"]) == ([first["id"]], gpu["device"])
    assert answer["nodes"][3]["resources"] == []


def test_without_detail_only_ids_and_types_are_told() -> None:
    room = nec_room()
    found = room.get(f"{CDIM}/resources").json()["resources"]
    assert all(set(one["device"]) == {"deviceID", "type"} for one in found)


def test_a_layout_connects_a_named_device_and_disconnects_it() -> None:
    room = nec_room()
    source, wanted = ends(room), gpus(room)[2]["device"]["deviceID"]
    begun = applied(room, layout("connect", source, wanted))
    assert set(begun) == {"applyID", "status"}
    assert begun["status"] == "IN_PROGRESS"
    room.run(2)
    assert room.get(f"{CDIM}/layout-apply/{begun['applyID']}").json()["status"] == "COMPLETED"
    assert [one.device.resource for one in room.fabric.attached("node0")] == [wanted]
    device = room.get(f"{CDIM}/resources/{wanted}").json()["device"]
    assert {one["type"] for one in device["links"]} >= {"destinationFabricAdapter", "eeio"}
    assert device["links"][0]["deviceID"] == source
    applied(room, layout("disconnect", source, wanted))
    room.run(2)
    assert room.fabric.attached("node0") == ()
    assert room.get(f"{CDIM}/resources/{wanted}").json()["nodeIDs"] == []


def test_one_layout_is_applied_at_a_time() -> None:
    room = nec_room()
    source, (first, second, _) = ends(room), [one["device"]["deviceID"] for one in gpus(room)]
    applied(room, layout("connect", source, first))
    answer = room.client.post(f"{CDIM}/layout-apply", json=layout("connect", source, second))
    assert answer.status_code == 409
    assert answer.json() == {"code": "E40010", "message": "Already running. Cannot start multiple instances."}
    room.run(2)
    assert applied(room, layout("connect", source, second))["status"] == "IN_PROGRESS"


def test_a_layout_that_fails_is_rolled_back() -> None:
    room = nec_room()
    source, (first, second, _) = ends(room), [one["device"]["deviceID"] for one in gpus(room)]
    begun = applied(room, layout("connect", source, first, second))
    room.fabric.attach("node1", A100, lambda answer: None, second)  # somebody takes the second one meanwhile
    room.run(2.5)
    found = room.get(f"{CDIM}/layout-apply/{begun['applyID']}").json()
    assert (found["status"], found["rollbackStatus"]) == ("FAILED", "IN_PROGRESS")
    assert room.client.post(f"{CDIM}/layout-apply", json=layout("connect", source, first)).status_code == 409
    room.run(2)
    found = room.get(f"{CDIM}/layout-apply/{begun['applyID']}").json()
    assert (found["status"], found["rollbackStatus"]) == ("FAILED", "COMPLETED")
    assert room.fabric.attached("node0") == ()


def test_a_device_that_is_out_or_broken_is_not_healthy() -> None:
    room = nec_room()
    free = room.fabric.pool("1", A100)[0]
    room.fabric.drop(free.serial)
    status = room.get(f"{CDIM}/resources/{free.resource}").json()["device"]["status"]
    assert status == {"state": "Enabled", "health": "Critical"}


def test_layouts_of_another_form_are_refused() -> None:
    room = nec_room()
    source, device = ends(room), gpus(room)[0]["device"]["deviceID"]
    for body in (
        {},
        {"procedures": []},
        {"procedures": [{}]},
        layout("explode", source, device),
        layout("connect", "other", device),
        layout("connect", source, "other"),
    ):
        answer = room.client.post(f"{CDIM}/layout-apply", json=body)
        assert answer.status_code == 400, body
        assert set(answer.json()) == {"code", "message"}
    assert room.get(f"{CDIM}/layout-apply/other").status_code == 404
    assert room.get(f"{CDIM}/resources/other").status_code == 404
    assert len(room.fabric.ledger) == 0


def test_types_of_other_devices_are_cdims_own() -> None:
    room = nec_room()
    found = room.get(f"{CDIM}/resources", detail="true").json()["resources"]
    assert [one["device"]["type"] for one in found if one["device"]["model"] == NIC] == ["networkInterface"]


def test_the_cdim_has_no_login_and_no_other_calls() -> None:
    room = nec_room()
    assert room.login().status_code == 404
    assert room.get(MACHINES, tenant_uuid=room.tenant).status_code == 404


def test_a_fault_of_cdim_has_its_form_of_error() -> None:
    room = nec_room()
    room.manager.faults.add(Fault("error", frozenset({"resources"}), times=1, code=500))
    answer = room.get(f"{CDIM}/resources", detail="true")
    assert (answer.status_code, set(answer.json())) == (500, {"code", "message"})
