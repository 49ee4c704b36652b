"""Device taint eviction: who has to go, when, and who may stay."""

from __future__ import annotations

from typing import Any

from dds_lab.actors.taints import TaintEviction
from dds_lab.client import Object
from dds_lab.latency import Fixed
from tests.lab.actors.rooms import GPU, Room

OWN = [{"name": "d0", "resourceClaimName": "train"}]


def ready(*, rules: bool = False) -> Room:
    room = Room(served=("resource.k8s.io/v1beta2",) if rules else ())
    room.start(TaintEviction(room.client("taints"), room.time, rules=rules, reaction=Fixed(0.1)))
    return room


def publish(room: Room, *taints: Object) -> None:
    device: Object = {"name": "gpu-0", **({"taints": list(taints)} if taints else {})}
    spec = {
        "driver": GPU,
        "pool": {"name": "node0", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node0",
        "devices": [device],
    }
    found = room.user.find("resourceslices", "node0-gpu")
    if found is None:
        metadata = {"name": "node0-gpu"}
        obj = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        room.user.create("resourceslices", obj)
    else:
        room.user.update("resourceslices", {**found, "spec": spec})


def train(room: Room, *tolerations: Object) -> None:
    exactly: Object = {"deviceClassName": "gpus", **({"tolerations": list(tolerations)} if tolerations else {})}
    spec = {"devices": {"requests": [{"name": "r0", "exactly": exactly}]}}
    obj = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "train"}, "spec": spec}
    room.user.create("resourceclaims", obj, "default")
    room.pod("train", claims=OWN, node="node0")
    found = room.allocate("train", "train", "node0", ("node0", "gpu-0"))
    if tolerations:
        results = [
            {**one, "tolerations": list(tolerations)} for one in found["status"]["allocation"]["devices"]["results"]
        ]
        cleared = room.user.update("resourceclaims", {**found, "status": {}}, subresource="status")
        allocation = {**found["status"]["allocation"], "devices": {"results": results}}
        status = {**found["status"], "allocation": allocation}
        room.user.update("resourceclaims", {**cleared, "status": status}, subresource="status")


def going(room: Room) -> bool:
    pod = room.user.find("pods", "train", "default")
    return pod is None or "deletionTimestamp" in pod["metadata"]


def taint(effect: str = "NoExecute", **more: Any) -> Object:
    return {"key": "broken", "effect": effect, **more}


def test_a_no_execute_taint_of_the_slice_ends_the_pod() -> None:
    room = ready()
    publish(room)
    train(room)
    room.run(1)
    assert not going(room)
    publish(room, taint())
    room.run(1)
    assert going(room)
    (told,) = [one for one in room.state("pods", "train", "default")["conditions"] if one["type"] == "DisruptionTarget"]
    assert told["reason"] == "DeletionByDeviceTaintManager"


def test_a_taint_that_was_there_before_the_claim_counts_too() -> None:
    room = ready()
    publish(room, taint())
    train(room)
    room.run(1)
    assert going(room)


def test_no_schedule_and_none_end_nobody() -> None:
    room = ready()
    publish(room, taint("NoSchedule"), {"key": "note", "effect": "None"})
    train(room)
    room.run(10)
    assert not going(room)


def test_a_tolerated_taint_ends_nobody() -> None:
    room = ready()
    publish(room, taint())
    train(room, {"key": "broken", "operator": "Exists"})
    room.run(10)
    assert not going(room)


def test_a_toleration_with_seconds_puts_it_off_and_a_lifted_taint_calls_it_off() -> None:
    for lifted in (False, True):
        room = ready()
        publish(room)
        train(room, {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30})
        publish(room, taint())
        room.run(20)
        assert not going(room)
        if lifted:
            publish(room)
        room.run(20)
        assert going(room) is not lifted


def test_rules_count_where_they_are_obeyed() -> None:
    for obeyed in (False, True):
        room = Room(served=("resource.k8s.io/v1beta2",))
        room.start(TaintEviction(room.client("taints"), room.time, rules=obeyed, reaction=Fixed(0.1)))
        publish(room)
        train(room)
        rule = {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "away"},
            "spec": {"deviceSelector": {"driver": GPU, "pool": "node0"}, "taint": taint()},
        }
        room.user.create("devicetaintrules", rule)
        room.run(1)
        assert going(room) is obeyed


def test_a_rule_for_another_device_ends_nobody() -> None:
    room = ready(rules=True)
    publish(room)
    train(room)
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "away"},
        "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": taint()},
    }
    room.user.create("devicetaintrules", rule)
    room.run(10)
    assert not going(room)


def second_claim(room: Room) -> Object:
    """Another claim that the pod holds, on a device without taints."""
    room.claim("other")
    return room.allocate("other", "train", "node0", ("node0", "gpu-1"))


def test_another_claim_of_the_pod_puts_nothing_off() -> None:
    room = ready()
    publish(room)
    train(room, {"key": "broken", "operator": "Exists", "tolerationSeconds": 30})
    publish(room, taint())
    room.run(20)
    other = second_claim(room)
    room.user.patch("resourceclaims", other["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}}, "default")
    room.run(5)
    assert not going(room)
    room.run(10)
    assert going(room)


def test_a_pod_that_gave_the_claim_up_in_time_stays() -> None:
    for deleted in (False, True):
        room = ready()
        publish(room)
        train(room, {"key": "broken", "operator": "Exists", "tolerationSeconds": 30})
        publish(room, taint())
        room.run(20)
        found = room.user.get("resourceclaims", "train", "default")
        room.user.update("resourceclaims", {**found, "status": {}}, subresource="status")
        if deleted:
            room.user.patch("resourceclaims", "train", {"metadata": {"finalizers": None}}, "default")
            room.user.delete("resourceclaims", "train", "default")
        room.run(60)
        assert not going(room)


def test_patience_counts_from_the_taint_and_the_shortest_holds() -> None:
    room = ready()
    tolerates = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    publish(room, taint(timeAdded="2026-11-21T00:00:00Z"))
    room.run(20)
    train(room, {**tolerates, "tolerationSeconds": 300}, {**tolerates, "tolerationSeconds": 30})
    room.run(9)
    assert not going(room)
    room.run(2)
    assert going(room)
