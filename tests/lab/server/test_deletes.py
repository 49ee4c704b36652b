"""Delete and deletecollection: what goes, what waits, and what a namespace or a definition takes along."""

from typing import Any

import pytest

from dds_lab.crds import COMPOSABLE_RESOURCES
from tests.lab.server.rooms import CLAIMS, REQUESTS, SECOND, Room, events, names, pod, request

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def room() -> Room:
    room = Room().with_definitions()
    room.claim("a", labels={"app": "x"})
    return room


def test_some_kinds_show_what_is_gone_and_others_say_so(room: Room) -> None:
    code, shown = room.http("DELETE", f"{CLAIMS}/a")
    assert (code, shown["kind"], shown["metadata"]["name"]) == (200, "ResourceClaim", "a")
    made = room.admin.create("configmaps", {"metadata": {"name": "m"}}, "default")
    code, status = room.http("DELETE", "/api/v1/namespaces/default/configmaps/m")
    assert (code, status["status"]) == (200, "Success")
    assert status["details"] == {"name": "m", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert room.http("DELETE", f"{CLAIMS}/a")[0] == 404


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "Pod"}, 400), ([], 400), ("x", 400), ({"preconditions": []}, 400), ({"gracePeriodSeconds": "x"}, 400),
        ({"propagationPolicy": "Maybe"}, 422), ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"dryRun": ["x"]}, 422), (b"{", 400),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(room: Room, body: Any, code: int) -> None:
    assert room.http("DELETE", f"{CLAIMS}/a", body, type="application/json")[0] == code
    assert room.http("GET", f"{CLAIMS}/a")[0] == 200


def test_a_policy_is_a_finalizer_that_a_collector_takes_away(room: Room) -> None:
    _, marked = room.http("DELETE", f"{CLAIMS}/a", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    _, marked = room.http("DELETE", f"{CLAIMS}/a", {"orphanDependents": True})
    assert marked["metadata"]["finalizers"] == ["orphan"]
    code, _ = room.http("DELETE", f"{CLAIMS}/a", params={"propagationPolicy": "Background"})
    assert code == 200


def test_a_pod_on_a_node_has_its_grace(room: Room) -> None:
    for name in ("free", "bound", "quick"):
        room.admin.create("pods", pod(name), "default")
    room.admin.bind("bound", "default", "n1")
    room.admin.bind("quick", "default", "n1")
    room.http("DELETE", f"{PODS}/free")
    assert room.admin.find("pods", "free", "default") is None
    _, marked = room.http("DELETE", f"{PODS}/bound")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"] == "2026-11-21T00:00:30Z"
    room.time.run(room.time.now() + 5 * SECOND)
    _, sooner = room.http("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 1})
    assert sooner["metadata"]["deletionTimestamp"] == "2026-11-21T00:00:01Z", "counted from the first"
    assert sooner["metadata"]["generation"] == marked["metadata"]["generation"]
    _, later = room.http("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 60})
    assert later["metadata"]["deletionGracePeriodSeconds"] == 1, "an end is never put off"
    room.admin.delete("pods", "bound", "default", grace=0)
    assert room.admin.find("pods", "bound", "default") is None
    room.admin.delete("pods", "quick", "default", grace=0)
    assert room.admin.find("pods", "quick", "default") is None


def test_a_pod_that_ended_needs_no_grace(room: Room) -> None:
    room.admin.create("pods", pod("done"), "default")
    room.admin.bind("done", "default", "n1")
    room.admin.patch("pods", "done", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    room.admin.delete("pods", "done", "default")
    assert room.admin.find("pods", "done", "default") is None


def test_a_collection_goes_by_its_selector(room: Room) -> None:
    room.claim("b", labels={"app": "x"})
    room.claim("c")
    code, listed = room.http("DELETE", CLAIMS, params={"labelSelector": "app=x"})
    assert (code, names(listed)) == (200, ["a", "b"])
    assert names(room.http("GET", CLAIMS)[1]) == ["c"]


def test_a_namespace_goes_with_all_that_is_in_it(room: Room) -> None:
    room.admin.create("namespaces", {"metadata": {"name": "n"}})
    room.claim("one", "n")
    room.claim("held", "n", finalizers=["x.io/keep"])
    room.admin.create("configmaps", {"metadata": {"name": "m"}}, "n")
    code, shown = room.http("DELETE", "/api/v1/namespaces/n")
    assert (code, shown["status"]["phase"]) == (200, "Terminating")
    assert room.admin.list("configmaps", "n") == []
    assert [each["metadata"]["name"] for each in room.admin.list("resourceclaims", "n")] == ["held"]
    room.admin.patch("resourceclaims", "held", {"metadata": {"finalizers": None}}, "n")
    assert room.admin.find("namespaces", "n") is None
    assert room.admin.find("resourceclaims", "a", "default") is not None


def test_some_namespaces_stay(room: Room) -> None:
    for name in ("default", "kube-system", "kube-public"):
        code, status = room.http("DELETE", f"/api/v1/namespaces/{name}")
        assert (code, status["reason"]) == (403, "Forbidden")
    assert room.http("DELETE", "/api/v1/namespaces/kube-node-lease")[0] == 200


def test_a_definition_takes_its_objects_along(room: Room) -> None:
    room.http("POST", REQUESTS, request("r"))
    room.http("POST", REQUESTS, request("held", finalizers=["x.io/keep"]))
    watch, other = room.stream(REQUESTS), room.stream()
    name = "composabilityrequests.cro.hpsys.ibm.ie.com"
    room.admin.delete("customresourcedefinitions", name)
    assert names(room.http("GET", REQUESTS)[1]) == ["held"]
    room.http("PATCH", f"{REQUESTS}/held", {"metadata": {"finalizers": None}})
    assert room.admin.find("customresourcedefinitions", name) is None
    assert room.http("GET", REQUESTS)[0] == 404
    assert events(watch)[-1][0] == "DELETED" and watch.closed, "who watches is told of the end"
    assert not other.closed


def test_a_definition_never_hides_or_takes_what_the_server_has_itself(room: Room) -> None:
    path, name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "resourceclaims.resource.k8s.io"
    spec = {**COMPOSABLE_RESOURCES["spec"], "group": "resource.k8s.io"}
    spec["names"] = {"plural": "resourceclaims", "kind": "ResourceClaim"}
    body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
    code, status = room.http("POST", path, body)
    assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata.annotations[api-approved.kubernetes.io]")
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    body["spec"]["versions"] = [{**spec["versions"][0], "name": "v1"}]
    assert room.http("POST", path, body)[0] == 201
    assert room.http("GET", f"{CLAIMS}/a")[0] == 200
    assert room.http("DELETE", f"{path}/{name}")[0] == 200
    assert room.http("GET", f"{CLAIMS}/a")[0] == 200


def test_events_go_after_an_hour(room: Room) -> None:
    def event(name: str) -> None:
        involved = {"kind": "Pod", "namespace": "default", "name": "p"}
        body = {"metadata": {"name": name}, "involvedObject": involved, "reason": "R", "message": "m", "type": "Normal"}
        room.admin.create("events", body, "default")

    event("early")
    event("kept")
    room.time.run(room.time.now() + 1800 * SECOND)
    room.admin.patch("events", "kept", {"count": 2}, "default")
    event("late")
    room.time.run(room.time.now() + 1800 * SECOND)
    assert [each["metadata"]["name"] for each in room.admin.list("events", "default")] == ["kept", "late"]
