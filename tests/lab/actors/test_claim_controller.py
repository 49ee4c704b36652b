"""The claim controller: generated claims, reservations that end, deallocation, finalizers, unwanted claims."""

from __future__ import annotations

from typing import Any

from dds_lab.actors.claim_controller import ClaimController
from dds_lab.api.requests import Call
from dds_lab.api.status import internal
from dds_lab.client import Object
from tests.lab.actors.rooms import Room

LOCAL = ("node0", "gpu-0")


def ready() -> Room:
    room = Room()
    room.start(ClaimController(room.client("claims"), room.time))
    return room


def own(name: str) -> list[Object]:
    return [{"name": "d0", "resourceClaimName": name}]


def train(room: Room, *, node: str = "") -> None:
    """A pod with an allocated claim, both called train."""
    room.claim("train")
    room.pod("train", claims=own("train"))
    room.allocate("train", "train", "node0", LOCAL)
    if node:
        room.user.bind("train", "default", node)
    room.run(1)


def claim(room: Room, name: str = "train") -> Object:
    return room.user.get("resourceclaims", name, "default")


def phase(room: Room, name: str, value: str) -> None:
    room.user.patch("pods", name, {"status": {"phase": value}}, "default", subresource="status")


def template(room: Room, **metadata: Any) -> None:
    spec = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpus"}}]}}
    told = {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}
    room.user.create(
        "resourceclaimtemplates",
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu"},
            "spec": told,
        },
        "default",
    )


def generated(room: Room) -> Object:
    (found,) = room.user.list("resourceclaims", "default")
    return found


def test_a_template_gives_the_pod_a_claim_of_its_own() -> None:
    room = ready()
    template(room, labels={"team": "a"}, annotations={"why": "b"})
    pod = room.pod("train", claims=[{"name": "gpus", "resourceClaimTemplateName": "gpu"}])
    room.run(1)
    found = generated(room)
    assert found["metadata"]["name"].startswith("train-gpus-")
    assert found["metadata"]["labels"] == {"team": "a"}
    assert found["metadata"]["annotations"] == {"why": "b", "resource.kubernetes.io/pod-claim-name": "gpus"}
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", pod["metadata"]["uid"], True)
    assert room.state("pods", "train", "default")["resourceClaimStatuses"] == [
        {"name": "gpus", "resourceClaimName": found["metadata"]["name"]}
    ]


def test_a_missing_template_is_waited_for() -> None:
    room = ready()
    room.pod("train", claims=[{"name": "gpus", "resourceClaimTemplateName": "gpu"}])
    room.run(1)
    template(room)
    room.run(5)
    assert generated(room)["metadata"]["name"].startswith("train-gpus-")


def test_a_generated_claim_goes_when_its_pod_has_finished() -> None:
    room = ready()
    template(room)
    room.pod("train", claims=[{"name": "gpus", "resourceClaimTemplateName": "gpu"}])
    room.run(1)
    phase(room, "train", "Succeeded")
    room.run(1)
    assert room.user.list("resourceclaims", "default") == []


def test_a_finished_pod_holds_nothing_though_it_is_still_there() -> None:
    room = ready()
    train(room, node="node0")
    phase(room, "train", "Running")
    room.run(1)
    assert claim(room)["status"]["reservedFor"]
    phase(room, "train", "Failed")
    room.run(1)
    assert "allocation" not in claim(room)["status"]


def test_a_pod_on_a_node_holds_its_claim_until_it_is_gone() -> None:
    room = ready()
    train(room, node="node0")
    room.user.delete("pods", "train", "default")
    room.run(5)
    assert claim(room)["status"]["allocation"]
    room.user.delete("pods", "train", "default", grace=0)
    room.run(1)
    assert "allocation" not in claim(room)["status"]


def test_a_replaced_pod_of_the_same_name_holds_nothing() -> None:
    room = ready()
    train(room)
    room.user.delete("pods", "train", "default", grace=0)
    room.pod("train", claims=own("train"))
    room.run(1)
    assert "allocation" not in claim(room)["status"]


def test_of_two_reservations_one_is_left() -> None:
    room = ready()
    train(room)
    second = room.pod("second", claims=own("train"))
    found = claim(room)
    more = {"resource": "pods", "name": "second", "uid": second["metadata"]["uid"]}
    status = {**found["status"], "reservedFor": [*found["status"]["reservedFor"], more]}
    room.user.update("resourceclaims", {**found, "status": status}, subresource="status")
    room.user.delete("pods", "train", "default", grace=0)
    room.run(1)
    assert claim(room)["status"]["reservedFor"] == [more]
    assert claim(room)["status"]["allocation"]


def test_a_deleted_claim_goes_with_the_last_reservation() -> None:
    room = ready()
    train(room)
    room.user.delete("resourceclaims", "train", "default")
    room.run(1)
    assert claim(room)["metadata"]["deletionTimestamp"]
    room.user.delete("pods", "train", "default", grace=0)
    room.run(1)
    assert room.user.find("resourceclaims", "train", "default") is None


def test_a_deleted_claim_that_nobody_reserved_is_deallocated_and_goes() -> None:
    room = ready()
    train(room)
    found = claim(room)
    status = {key: value for key, value in found["status"].items() if key != "reservedFor"}
    room.user.update("resourceclaims", {**found, "status": status}, subresource="status")
    room.user.delete("resourceclaims", "train", "default")
    room.run(1)
    assert room.user.find("resourceclaims", "train", "default") is None


def test_an_emptied_reservation_of_a_living_pod_is_not_a_release() -> None:
    """The scheduler takes a reservation away and keeps the allocation; that is its own business."""
    room = ready()
    train(room)
    found = claim(room)
    status = {key: value for key, value in found["status"].items() if key != "reservedFor"}
    room.user.update("resourceclaims", {**found, "status": status}, subresource="status")
    room.run(10)
    assert claim(room)["status"]["allocation"]


def test_other_consumers_than_pods_are_left_alone() -> None:
    room = ready()
    train(room)
    found = claim(room)
    other = [{"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "u-1"}]
    room.user.update(
        "resourceclaims", {**found, "status": {**found["status"], "reservedFor": other}}, subresource="status"
    )
    room.run(5)
    assert claim(room)["status"]["reservedFor"] == other


def test_a_pod_that_was_put_on_a_node_by_hand_gets_its_claim_reserved() -> None:
    room = ready()
    train(room)
    room.pod("manual", claims=own("train"), node="node0")
    room.run(1)
    assert [one["name"] for one in claim(room)["status"]["reservedFor"]] == ["train", "manual"]


def test_a_special_claim_for_extended_resources_goes_with_its_pod() -> None:
    room = ready()
    pod = room.pod("er")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "er", "uid": pod["metadata"]["uid"], "controller": True}
    room.user.create(
        "resourceclaims",
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": "er-special",
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [owner],
            },
            "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpus"}}]}},
        },
        "default",
    )
    room.allocate("er-special", "er", "node0", LOCAL)
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r0"}
    told = {"resourceClaimName": "er-special", "requestMappings": [mapping]}
    room.user.patch("pods", "er", {"status": {"extendedResourceClaimStatus": told}}, "default", subresource="status")
    room.run(1)
    phase(room, "er", "Succeeded")
    room.run(1)
    assert room.user.list("resourceclaims", "default") == []


def test_a_new_process_finishes_what_the_old_one_left() -> None:
    room = Room()
    first = room.start(ClaimController(room.client("claims"), room.time))
    train(room)
    first.stop()
    room.user.delete("pods", "train", "default", grace=0)
    room.run(5)
    assert claim(room)["status"]["allocation"]
    room.start(ClaimController(room.client("claims"), room.time))
    room.run(1)
    assert "allocation" not in claim(room)["status"]
    assert claim(room)["spec"]["devices"]["requests"][0]["name"] == "r0"


def test_a_claim_that_could_not_be_told_to_the_pod_is_taken_up_again() -> None:
    room = Room()
    client = room.client("claims")
    failed: list[str] = []

    def refuse_twice(call: Call) -> None:
        if call.verb == "patch" and len(failed) < 2:
            failed.append(call.resource.plural)
            raise internal("an error on the server")

    client.before = refuse_twice
    room.start(ClaimController(client, room.time))
    template(room)
    room.pod("train", claims=[{"name": "d0", "resourceClaimTemplateName": "gpu"}])
    room.run(2)
    assert failed == ["pods", "pods"]
    name = generated(room)["metadata"]["name"]
    assert room.state("pods", "train", "default")["resourceClaimStatuses"] == [
        {"name": "d0", "resourceClaimName": name}
    ]


def test_a_pod_that_is_deleted_before_it_had_a_node_holds_nothing_while_it_lingers() -> None:
    for bound in (False, True):
        room = ready()
        train(room, node="node0" if bound else "")
        room.user.patch("pods", "train", {"metadata": {"finalizers": ["example.com/lingers"]}}, "default")
        room.user.delete("pods", "train", "default")
        room.run(2)
        assert room.user.get("pods", "train", "default")["metadata"]["deletionTimestamp"]
        assert bool(claim(room).get("status", {}).get("allocation")) is bound
