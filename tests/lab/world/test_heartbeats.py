"""The heartbeats of a lab that has joined a cluster: a node's conditions are reported as kubelets report them."""

from __future__ import annotations

from typing import Any

from dds_lab.joined.heartbeats import Heartbeats
from tests.lab.actors.rooms import Room


def conditions(room: Room) -> dict[str, tuple[str, str]]:
    """Of each condition the instants of its last transition and heartbeat."""
    found: list[dict[str, Any]] = room.user.get("nodes", "node0")["status"]["conditions"]
    return {one["type"]: (one["lastTransitionTime"], one["lastHeartbeatTime"]) for one in found}


def test_a_healthy_node_has_heartbeats_and_no_transitions_until_it_was_silent() -> None:
    room = Room()
    room.node("node0")
    hearts = Heartbeats(room.client("kubelet"), ["node0"], lost=lambda: None, note=print)
    hearts.tell("node0", changed=True)
    first = conditions(room)
    room.run(60)
    hearts.tell("node0")
    second = conditions(room)
    assert {kind: since for kind, (since, _) in second.items()} == {kind: since for kind, (since, _) in first.items()}
    assert all(second[kind][1] > first[kind][1] for kind in first)
    room.run(60)
    hearts.tell("node0", changed=True)
    assert all(since > first[kind][0] for kind, (since, _) in conditions(room).items())
