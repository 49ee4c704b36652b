"""Whatever a client sends to the simulated manager, it gets one answer in the form of its API, and nothing moves that it did not
ask for in the right form; and whatever moves, by whichever way, no device is twice anywhere."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dds_lab.manager import Call, ManagerSettings, Reply
from dds_lab.scenario.trouble import ManagerFault
from tests.support.managers import A100, H100, MACHINES, ManagerRoom, logged_in

scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 70), st.floats(allow_nan=False), st.text(max_size=6))
anything = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
ODD_PATHS = ["/", "", "//", f"{MACHINES}/", f"{MACHINES}/../x", "/cdim/api/v1", "/\x00", "/é"]


def bodies(room: ManagerRoom) -> dict[str, Any]:
    """A body of the right form for each call that has one, by what stands in its path."""
    condition = {"column": "model", "operator": "eq", "value": A100}
    spec = {"res_type": "gpu", "res_spec": {"condition": [condition]}, "res_uuid": "r", "res_num": 1}
    machine = {"mach_uuid": room.nodes[0].uuid, "resources": [{"res_specs": [spec]}]}
    move = {
        "operationID": 1,
        "operation": "connect",
        "sourceDeviceID": "s",
        "destinationDeviceID": "d",
        "dependencies": [],
    }
    return {
        "update": {"tenants": {"tenant_uuid": room.tenant, "machines": [machine]}},
        "resize": {
            "increase_resource_count": {"spec_uuid": "s", "device_count": 1},
            "remove_resources": {"spec_uuid": "s", "device_count": 0, "devices": ["d"]},
        },
        "layout-apply": {"procedures": [move]},
    }


def places(found: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [at, *(one for key, value in inside for one in places(value, (*at, key)))]


def put(found: Any, at: tuple[Any, ...], value: Any) -> Any:
    """The JSON value with another one at a place."""
    if not at:
        return value
    copy = json.loads(json.dumps(found))
    inside = copy
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = value
    return copy


def paths(room: ManagerRoom) -> list[str]:
    machine = room.nodes[0].uuid
    return [
        *ODD_PATHS,
        "/id_manager/realms/CDI/protocol/openid-connect/token",
        MACHINES,
        f"{MACHINES}/{machine}",
        f"{MACHINES}/{machine}/available-reserved-resources",
        f"{MACHINES}/{machine}/update",
        room.cm("v3", f"machines/{machine}"),
        room.cm("v3", f"machines/{machine}/actions/resize"),
        room.cm("v2", "nodegroups"),
        "/cdim/api/v1/nodes",
        "/cdim/api/v1/resources/x",
        "/cdim/api/v1/layout-apply",
        "/cdim/api/v1/layout-apply/x",
    ]


@settings(max_examples=300)
@given(st.data())
def test_every_call_has_one_answer(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(["cm", "nec"]))
    room = logged_in(ManagerSettings(api="cm")) if api == "cm" else ManagerRoom(ManagerSettings(api="nec"))
    with_bodies = [one for one in paths(room) if any(word in one for word in bodies(room))]
    path = data.draw(st.one_of(st.sampled_from(paths(room)), st.sampled_from(with_bodies)))
    good: dict[str, Any] = next((body for word, body in bodies(room).items() if word in path), {})
    body = put(good, data.draw(st.sampled_from(places(good))), data.draw(anything))
    whole = json.dumps(body).encode()
    sent = data.draw(st.one_of(st.just(whole), st.just(whole), st.binary(max_size=20)))
    query = {"tenant_uuid": room.tenant, "res_type": "gpu", "condition": json.dumps(data.draw(anything))}
    headers = {
        "authorization": room.client.headers.get("Authorization", ""),
        "content-type": data.draw(st.sampled_from(["", "application/json", "application/x-www-form-urlencoded"])),
    }
    method = data.draw(st.sampled_from(["GET", "POST", "PATCH", "DELETE", "PUT"]))
    replies: list[Reply] = []
    room.manager.ask(Call(method, path, query, headers, sent), replies.append)
    room.run(200)
    (reply,) = replies
    assert reply.status in (200, 202, 204) or 400 <= reply.status <= 500
    if reply.status >= 400:
        told = reply.json()
        assert set(told) in ({"status", "detail"}, {"code", "message"}, {"error"}, {"error", "error_description"})
        assert all(one.outcome != "done" for one in room.fabric.ledger) or reply.status == 500


MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            ["fm attach", "fm detach", "cm grow", "cm shrink", "operator", "wait", "shrink", "cut", "break"]
        ),
        st.integers(0, 2),
        st.sampled_from([A100, H100]),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(MOVES)
def test_no_device_is_ever_twice_anywhere(moves: list[tuple[str, int, str]]) -> None:
    pools = {("1", A100): 3, ("1", H100): 2, ("2", A100): 1}
    room = logged_in(ManagerSettings(api="cm", token_life=10**6, quotas={A100: 3}), pools=pools)
    for what, node, model in moves:
        move(room, what, node, model)
        check(room, model)
    room.run(30)
    check(room, A100)
    assert room.fabric.running("1", A100) == room.fabric.running("2", A100) == 0


def move(room: ManagerRoom, what: str, node: int, model: str) -> None:
    """One step of whoever moves devices; refusals are as good as any other answer."""
    there = [one.device for one in room.fabric.plugged(f"node{node}")]
    if what == "fm attach":
        room.attach(node, model)
    elif what == "fm detach" and there:
        room.detach(there[0].resource, node)
    elif what == "operator":
        room.fabric.attach(f"node{node}", model, lambda answer: None)
    elif what == "wait":
        room.run(2.5)
    elif what == "shrink":
        room.fabric.resize("1", model, -1)
    elif what == "cut":
        room.manager.faults.add(ManagerFault(kind="empty", times=1))
    elif what == "break" and there:
        room.fabric.drop(there[0].serial)
    elif what.startswith("cm"):
        resized(room, what, node, model)


def resized(room: ManagerRoom, what: str, node: int, model: str) -> None:
    detail = room.get(room.cm("v3", f"machines/{room.nodes[node].uuid}"))
    specs = detail.json()["data"]["cluster"]["machine"]["resspecs"] if detail.content else []
    for spec in specs:
        if spec["selector"]["expression"]["conditions"][0]["value"] != model:
            continue
        count = spec["device_count"]
        if what == "cm grow":
            room.resize({"increase_resource_count": {"spec_uuid": spec["spec_uuid"], "device_count": count + 1}}, node)
        elif count:
            named = [one["device_id"] for one in spec["devices"] if one["device_id"]][:1]
            order = {"spec_uuid": spec["spec_uuid"], "device_count": count - 1, "devices": named}
            room.resize({"remove_resources": order}, node)


def check(room: ManagerRoom, model: str) -> None:
    fabric = room.fabric
    everywhere = [
        *(one.device.serial for machine in fabric.machines() for one in fabric.plugged(machine.node)),
        *(device.serial for device, _ in fabric.coming()),
        *(one.serial for pool in fabric.pools() for one in fabric.pool(*pool)),
        *(one.serial for one in fabric.out()),
    ]
    assert len(everywhere) == len(set(everywhere))
    told = room.available(0, model)
    if told.content:
        free = told.json()["reserved_res_num_per_fabric"]
        assert 0 <= free <= fabric.free("1", model)
