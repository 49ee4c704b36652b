"""Node lifecycle: taints follow the Ready condition, pods leave a silent node, pods of a deleted node are collected."""

from __future__ import annotations

from dds_lab.actors.node_lifecycle import NodeLifecycle
from dds_lab.api import status as api_status
from dds_lab.api.requests import Call
from dds_lab.latency import Fixed
from dds_lab.scenario.parts import ControllersPart
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import Room

SETTINGS = ControllersPart(silent=40.0, orphaned=fixed(50.0))
AMOUNTS = {"cpu": "64", "memory": "512Gi", "pods": "250"}


def ready() -> tuple[Room, NodeLifecycle]:
    room = Room()
    lifecycle = room.start(NodeLifecycle(room.client("node-controller"), room.time, SETTINGS, Fixed(0.01)))
    room.node("node0")
    room.run(1)
    return room, lifecycle


def taints(room: Room) -> list[tuple[str, str]]:
    return [(one["key"], one["effect"]) for one in room.user.get("nodes", "node0")["spec"].get("taints") or ()]


def told(room: Room, status: str) -> None:
    condition = {"type": "Ready", "status": status, "reason": "Test", "message": ""}
    room.user.patch("nodes", "node0", {"status": {"conditions": [condition]}}, subresource="status")
    room.run(1)


def going(room: Room, pod: str) -> bool:
    found = room.user.find("pods", pod, "default")
    return found is None or "deletionTimestamp" in found["metadata"]


def test_a_node_that_has_said_nothing_takes_no_pods_and_a_ready_one_does() -> None:
    room, _ = ready()
    assert taints(room) == [("node.kubernetes.io/not-ready", "NoSchedule")]
    told(room, "True")
    assert taints(room) == []


def test_a_node_that_is_not_ready_gets_both_taints_and_other_taints_stay() -> None:
    room, _ = ready()
    told(room, "True")
    room.user.patch("nodes", "node0", {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})
    told(room, "False")
    assert taints(room) == [
        ("mine", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
    ]
    told(room, "True")
    assert taints(room) == [("mine", "NoSchedule")]


def test_a_taint_that_somebody_takes_off_does_not_come_back_though_the_controller_has_not_heard_of_it() -> None:
    """It replaces the whole list."""
    room = Room()
    client = room.client("node-controller")
    room.start(NodeLifecycle(client, room.time, SETTINGS, Fixed(0.01)))
    room.node("node0")
    told(room, "True")
    room.user.patch("nodes", "node0", {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})
    room.run(1)
    condition = {"type": "Ready", "status": "False", "reason": "Test", "message": ""}
    room.user.patch("nodes", "node0", {"status": {"conditions": [condition]}}, subresource="status")
    room.run(0.005)
    client.cut(0.5, "nodes")
    room.user.patch("nodes", "node0", {"spec": {"taints": None}})
    room.run(5)
    assert [key for key, _ in taints(room)] == ["node.kubernetes.io/not-ready"] * 2


def test_pods_leave_a_silent_node_when_their_patience_is_over() -> None:
    room, lifecycle = ready()
    told(room, "True")
    room.pod("patient", node="node0")
    everything = [{"operator": "Exists"}]
    room.pod("stays", node="node0", tolerations=everything)
    lifecycle.silent("node0")
    room.run(39)
    assert taints(room) == []
    room.run(2)
    assert ("node.kubernetes.io/unreachable", "NoExecute") in taints(room)
    room.run(290)
    assert not going(room, "patient")
    room.run(20)
    assert going(room, "patient")
    assert not going(room, "stays")


def test_a_node_that_is_heard_again_keeps_its_pods() -> None:
    room, lifecycle = ready()
    told(room, "True")
    room.pod("patient", node="node0")
    lifecycle.silent("node0")
    room.run(100)
    lifecycle.heard("node0")
    room.run(400)
    assert taints(room) == []
    assert not going(room, "patient")


def test_pods_of_a_deleted_node_are_collected_later() -> None:
    room, _ = ready()
    room.pod("orphan", node="node0")
    room.user.delete("nodes", "node0")
    room.run(49)
    assert room.user.find("pods", "orphan", "default") is not None
    room.run(2)
    assert room.user.find("pods", "orphan", "default") is None


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    room, _ = ready()
    room.pod("orphan", node="node0")
    room.user.delete("nodes", "node0")
    room.run(20)
    room.node("node0")
    room.run(100)
    assert room.user.find("pods", "orphan", "default") is not None


def test_pods_of_a_node_that_went_while_nobody_looked_are_collected() -> None:
    room, lifecycle = ready()
    room.pod("orphan", node="node0")
    lifecycle.stop()
    room.user.delete("nodes", "node0")
    room.run(10)
    room.start(NodeLifecycle(room.client("node-controller"), room.time, SETTINGS, Fixed(0.01)))
    room.run(49)
    assert room.user.find("pods", "orphan", "default") is not None
    room.run(2)
    assert room.user.find("pods", "orphan", "default") is None


def test_a_pod_that_is_bound_to_a_node_that_is_gone_is_collected() -> None:
    room, _ = ready()
    room.user.delete("nodes", "node0")
    room.run(60)
    room.pod("late", node="node0")
    room.run(30)
    room.pod("later", node="node0")
    assert room.user.find("pods", "late", "default") is not None
    room.run(21)
    assert room.user.find("pods", "late", "default") is None
    assert room.user.find("pods", "later", "default") is None


def test_a_pod_that_is_bound_to_a_node_that_pods_have_to_leave_has_to_leave() -> None:
    room, _ = ready()
    told(room, "False")
    tolerates = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
    ]
    room.pod("late", node="node0", tolerations=tolerates)
    room.run(15)
    assert not going(room, "late")
    room.run(10)
    assert going(room, "late")


def status(room: Room, node: str) -> str:
    [found] = [one for one in room.user.get("nodes", node)["status"]["conditions"] if one["type"] == "Ready"]
    return str(found["status"])


def test_a_server_joins_as_a_ready_node_and_again_after_it_was_silent() -> None:
    room, lifecycle = ready()
    lifecycle.join("node1", "metal://1", AMOUNTS, {"pool": "a"})
    room.run(1)
    node = room.user.get("nodes", "node1")
    assert (node["spec"], node["status"]["allocatable"]) == ({"providerID": "metal://1"}, AMOUNTS)
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "node1", "pool": "a"}
    lifecycle.silent("node1")
    room.run(60)
    assert status(room, "node1") == "Unknown"
    lifecycle.join("node1", "metal://1", AMOUNTS, {})
    room.run(1)
    assert (status(room, "node1"), room.user.get("nodes", "node1")["spec"].get("taints")) == ("True", None)


def test_a_server_joins_though_the_api_server_fails_at_first() -> None:
    room = Room()
    client, failed = room.client("node-controller"), list[str]()
    lifecycle = room.start(NodeLifecycle(client, room.time, SETTINGS, Fixed(0.01)))

    def fail(call: Call) -> None:
        if call.verb == "create" and len(failed) < 2:
            failed.append(call.verb)
            raise api_status.internal("etcdserver: leader changed")

    client.before = fail
    lifecycle.join("node1", "metal://1", AMOUNTS, {})
    room.run(30)
    assert (failed, status(room, "node1")) == (["create", "create"], "True")
