"""The simulated CDIM against what is known of the real one: nodes, resources, and layouts that are applied one at a time."""

from __future__ import annotations

from typing import Any

from dds_lab.manager import ManagerSettings
from dds_lab.scenario.trouble import ManagerFault
from tests.support.managers import A100, MACHINES, NIC, ManagerRoom

CDIM = "/cdim/api/v1"


def nec_room(scheme: str = "") -> ManagerRoom:
    settings = ManagerSettings(api="nec", types={NIC: "nic"}, scheme=scheme)
    return ManagerRoom(settings, pools={("1", A100): 3, ("1", NIC): 1})


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


def test_a_device_on_its_way_is_the_nodes_and_free_no_more() -> None:
    room = nec_room()
    source, wanted = ends(room), gpus(room)[0]["device"]["deviceID"]
    applied(room, layout("connect", source, wanted))
    assert len(gpus(room)) == 3
    (coming,) = [one for one in gpus(room) if one["nodeIDs"]]
    assert (coming["device"]["deviceID"], coming["nodeIDs"]) == (wanted, [room.nodes[0].uuid.upper()])


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
    bodies: list[dict[str, Any]] = [
        {},
        {"procedures": []},
        {"procedures": [{}]},
        layout("explode", source, device),
        layout("connect", "other", device),
        layout("connect", source, "other"),
    ]
    for body in bodies:
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
    room.manager.faults.add(ManagerFault(kind="error", calls=("resources",), times=1, code=500))
    answer = room.get(f"{CDIM}/resources", detail="true")
    assert (answer.status_code, set(answer.json())) == (500, {"code", "message"})
