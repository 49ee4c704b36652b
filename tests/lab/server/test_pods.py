"""Binding and eviction."""

from typing import Any

import pytest

from dds_lab.api.status import ApiError
from tests.lab.server.rooms import Room, pod

PODS = "/api/v1/namespaces/default/pods"


def binding(name: str, node: str = "n1", **meta: str) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "target": {"kind": "Node", "name": node}}


@pytest.fixture
def room() -> Room:
    room = Room()
    room.admin.create("pods", pod("p"), "default")
    return room


def test_a_binding_puts_the_pod_on_a_node_and_says_that_it_is_scheduled(room: Room) -> None:
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    room.admin.patch("pods", "p", {"status": {"conditions": [waiting]}}, "default", subresource="status")
    code, status = room.http("POST", f"{PODS}/p/binding", binding("p", annotations={"a": "b"}))  # type: ignore[arg-type]
    assert (code, status["status"]) == (201, "Success")
    bound = room.admin.get("pods", "p", "default")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "reason" not in condition


def test_a_pod_is_bound_once_and_only_while_it_lives(room: Room) -> None:
    room.admin.bind("p", "default", "n1")
    code, status = room.http("POST", f"{PODS}/p/binding", binding("p", "n2"))
    assert (code, status["reason"]) == (409, "Conflict")
    assert 'already assigned to node "n1"' in status["message"]
    room.admin.create("pods", {**pod("q"), "metadata": {"name": "q", "finalizers": ["x.io/keep"]}}, "default")
    room.admin.delete("pods", "q", "default")
    with pytest.raises(ApiError) as error:
        room.admin.bind("q", "default", "n1")
    assert error.value.code == 409
    assert room.http("POST", f"{PODS}/nope/binding", binding("nope"))[0] == 404


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"metadata": {"name": "p"}}, 422),
        ({"metadata": {"name": "p"}, "target": {"kind": "Disk", "name": "n1"}}, 422),
        (binding("other"), 400),
        (binding("p", uid="other"), 409),
        ({**binding("p"), "metadata": {"name": "p", "labels": {"a": 5}}}, 400),
        ({**binding("p"), "metadata": {"name": "p", "annotations": {"a": {"b": "c"}}}}, 400),
        ({**binding("p"), "target": {"name": 7}}, 400),
        ({**binding("p"), "target": "n1"}, 400),
        ([], 400),
        ({"kind": "Pod"}, 400),
    ],
)
def test_bindings_that_cannot_be(room: Room, body: Any, code: int) -> None:
    assert room.http("POST", f"{PODS}/p/binding", body)[0] == code
    assert "nodeName" not in room.admin.get("pods", "p", "default")["spec"]


def test_an_eviction_deletes_with_grace(room: Room) -> None:
    room.admin.bind("p", "default", "n1")
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 7}}
    assert room.http("POST", f"{PODS}/p/eviction", body)[0] == 201
    assert room.admin.get("pods", "p", "default")["metadata"]["deletionGracePeriodSeconds"] == 7
    room.admin.create("pods", pod("free"), "default")
    room.admin.evict("free", "default")
    assert room.admin.find("pods", "free", "default") is None


def test_an_eviction_may_be_tried_out_and_must_name_its_pod(room: Room) -> None:
    assert room.http("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}, params={"dryRun": "All"})[0] == 201
    assert room.http("POST", f"{PODS}/p/eviction", {"metadata": {"name": "other"}})[0] == 400
    assert room.http("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}, "deleteOptions": 5})[0] == 400
    assert room.admin.get("pods", "p", "default")


def test_these_parts_are_only_posted_to(room: Room) -> None:
    for part in ("binding", "eviction"):
        assert room.http("GET", f"{PODS}/p/{part}")[0] == 405
    assert room.http("GET", f"{PODS}/p/log")[0] == 404
    assert room.http("POST", f"{PODS}/p/status", {})[0] == 405
