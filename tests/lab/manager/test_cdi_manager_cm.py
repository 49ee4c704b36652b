"""The simulated cluster manager against what is known of the real one: details of machines, resizes, node groups."""

from __future__ import annotations

from dds_lab.manager import Limit, ManagerSettings, NodeGroup
from dds_lab.scenario.trouble import FabricFault
from tests.support.managers import A100, H100, errors, logged_in

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
    room.fabric.faults.add(FabricFault(kind="refuse", operation="detach", times=1, words="not now"))
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
