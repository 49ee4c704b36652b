"""What HTTP allows besides: routes, media types, sizes, forms of answers."""

import json
from typing import Any

import msgspec
import pytest
import yaml

from dds_lab.api.requests import Request, Response
from tests.lab.server.rooms import ALL_CLAIMS, CLAIMS, REQUESTS, SECOND, Room, claim, pod, request

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def room() -> Room:
    room = Room().with_definitions()
    room.claim("a", labels={"app": "x"})
    return room


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("PUT", CLAIMS, 405), ("PATCH", CLAIMS, 405), ("POST", f"{CLAIMS}/a", 405), ("POST", ALL_CLAIMS, 405),
        ("DELETE", ALL_CLAIMS, 405), ("OPTIONS", CLAIMS, 405), ("BREW", CLAIMS, 405),
        ("GET", "/apis/resource.k8s.io/v1/resourceclaims/a", 404), ("GET", f"{CLAIMS}/a/nothing", 404),
        ("GET", f"{CLAIMS}/a/status/more", 404), ("DELETE", f"{CLAIMS}/a/status", 405),
        ("GET", "/api/v1/namespaces/default/nodes", 404), ("DELETE", "/api/v1/namespaces", 405),
        ("PUT", "/nowhere", 404), ("GET", "", 200), ("GET", "//", 200), ("GET", "/apis//resource.k8s.io/v1//resourceclaims", 200),
    ],
)  # fmt: skip
def test_routes(room: Room, method: str, path: str, code: int) -> None:
    body: Any = None if method in ("GET", "OPTIONS", "BREW", "DELETE") else {}
    found, answer = room.http(method, path, body)
    assert found == code
    if code == 405:
        assert (answer["reason"], answer["details"]) == ("MethodNotAllowed", {})


def test_a_body_may_be_yaml_and_must_be_something_known(room: Room) -> None:
    body = yaml.safe_dump(claim("new")).encode()
    assert room.http("POST", CLAIMS, body, type="application/yaml")[0] == 201
    for type in ("text/plain", "application/cbor", "multipart/form-data"):
        code, status = room.http("POST", CLAIMS, claim("z"), type=type)
        assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    bare = Request("POST", CLAIMS, "", {"authorization": "Bearer admin"}, json.dumps(claim("n")).encode())
    answer = room.server.respond(bare)
    assert isinstance(answer, Response)
    assert answer.code == 201
    assert room.http("POST", CLAIMS, claim("c"), type="application/json; charset=utf-8")[0] == 201


@pytest.mark.parametrize("value", ["!!bool x", "!!float nan", "!!float inf", "1e999", "!!int x", "*y", "{[a]: b}"])
def test_yaml_that_stands_for_no_json(room: Room, value: str) -> None:
    body = yaml.safe_dump(claim("new")) + f"more: {value}\n"
    code, status = room.http("POST", CLAIMS, body.encode(), type="application/yaml")
    assert (code, status["reason"]) == (400, "BadRequest")


def test_numbers_of_any_length_in_yaml(room: Room) -> None:
    for digits, code in ((19, 201), (30, 422), (300, 422), (400, 400), (5_000, 400)):
        body = yaml.safe_dump(request(f"r{digits}", 7777)).replace("7777", "1" * digits)
        assert room.http("POST", REQUESTS, body.encode(), type="application/yaml")[0] == code, digits


def test_yaml_has_many_words_for_true_and_false(room: Room) -> None:
    for word in ("yes", "y", "Off", "TRUE"):
        body = yaml.safe_dump(claim("new", labels={"app": "@"})).replace("'@'", word)
        code, status = room.http("POST", CLAIMS, body.encode(), type="application/yaml")
        assert (code, "cannot unmarshal bool" in status["message"]) == (400, True)
    quoted = yaml.safe_dump(claim("new", labels={"app": "yes"}))
    assert room.http("POST", CLAIMS, quoted.encode(), type="application/yaml")[0] == 201


def test_a_body_has_a_largest_size(room: Room) -> None:
    body = b'{"metadata": {"name": "' + b"x" * 3 * 1024 * 1024 + b'"}}'
    code, status = room.http("POST", CLAIMS, body, type="application/json")
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")


def test_answers_come_as_json_or_yaml_or_not_at_all(room: Room) -> None:
    for accept in (
        "",
        "*/*",
        "application/*",
        "application/json;q=0.5",
        "application/vnd.kubernetes.protobuf,application/json",
    ):
        assert room.http("GET", f"{CLAIMS}/a", headers={"accept": accept})[0] == 200
    answer = room.ask("GET", f"{CLAIMS}/a", headers={"accept": "application/yaml"})
    assert isinstance(answer, Response)
    assert answer.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(answer.body)["metadata"]["name"] == "a"
    for accept in (
        "application/vnd.kubernetes.protobuf",
        "text/html",
        "application/json;as=Table;q=0",
        "application/json;as=Nothing",
    ):
        code, status = room.http("GET", f"{CLAIMS}/a", headers={"accept": accept})
        assert (code, status["reason"]) == (406, "NotAcceptable")


def table(room: Room, path: str, **params: str) -> Any:
    code, found = room.http("GET", path, headers={"accept": TABLE}, params=params)
    assert (code, found["kind"]) == (200, "Table")
    return found


def rows(room: Room, path: str) -> dict[str, Any]:
    """The first row by the names of its columns."""
    found = table(room, path)
    return dict(zip([each["name"] for each in found["columnDefinitions"]], found["rows"][0]["cells"], strict=True))


def test_tables_of_claims_show_their_state(room: Room) -> None:
    assert rows(room, CLAIMS) == {"Name": "a", "State": "pending", "Age": "0s"}
    room.allocate("a")
    room.time.run(room.time.now() + 200 * SECOND)
    assert rows(room, f"{CLAIMS}/a") == {"Name": "a", "State": "allocated", "Age": "3m20s"}
    reserved = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    room.admin.patch("resourceclaims", "a", reserved, "default", subresource="status")
    assert rows(room, CLAIMS)["State"] == "allocated,reserved"


def test_rows_carry_metadata_the_object_or_nothing(room: Room) -> None:
    assert table(room, CLAIMS)["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table(room, CLAIMS, includeObject="Object")["rows"][0]["object"]["spec"]
    assert table(room, CLAIMS, includeObject="None")["rows"][0]["object"] is None
    assert room.http("GET", CLAIMS, headers={"accept": TABLE}, params={"includeObject": "Half"})[0] == 400


def test_tables_of_other_kinds(room: Room) -> None:
    room.admin.create("nodes", {"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}}})
    condition = {"type": "Ready", "status": "True"}
    room.admin.patch("nodes", "n", {"status": {"conditions": [condition]}}, subresource="status")
    room.admin.patch("nodes", "n", {"spec": {"unschedulable": True}})
    found = rows(room, "/api/v1/nodes")
    assert (found["Status"], found["Roles"], found["Internal-IP"]) == ("Ready,SchedulingDisabled", "worker", "<none>")
    room.admin.create("pods", pod("p"), "default")
    found = rows(room, "/api/v1/namespaces/default/pods")
    assert (found["Ready"], found["Status"], found["Restarts"], found["Node"]) == ("0/1", "Pending", "0", "<none>")
    room.http("POST", REQUESTS, request("r", 3))
    found = rows(room, REQUESTS)
    assert found["Name"] == "r"
    assert 3 in found.values()
    for path in ("/api/v1/namespaces", f"/apis/rbac.authorization.k8s.io/v1/{'clusterrolebindings'}"):
        assert table(room, path)["rows"]


def test_a_failed_request_for_a_table_is_a_status(room: Room) -> None:
    assert room.http("GET", f"{CLAIMS}/nope", headers={"accept": TABLE})[1]["kind"] == "Status"
    room.admin.create("configmaps", {"metadata": {"name": "m"}}, "default")
    path = "/api/v1/namespaces/default/configmaps/m"
    assert room.http("DELETE", path, headers={"accept": TABLE})[1]["kind"] == "Status"


def test_metadata_alone(room: Room) -> None:
    _, found = room.http("GET", CLAIMS, headers={"accept": PARTIAL})
    assert found["kind"] == "PartialObjectMetadataList"
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize("accept", [TABLE, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"])
def test_watches_in_other_forms(room: Room, accept: str) -> None:
    asked = {
        "watch": "1",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    stream = room.ask("GET", CLAIMS, params=asked, headers={"accept": accept})
    assert not isinstance(stream, Response)
    kinds = {json.loads(line)["object"]["kind"] for line in stream.take()}
    assert kinds <= {"Table", "PartialObjectMetadata"}
    room.server.restart()
    gone = room.ask("GET", CLAIMS, params={"watch": "1", "resourceVersion": "1"}, headers={"accept": accept})
    assert not isinstance(gone, Response)
    assert json.loads(gone.take()[0])["object"]["kind"] == "Status"


def test_events_of_both_groups_are_the_same_objects(room: Room) -> None:
    regarding = {"kind": "Pod", "namespace": "default", "name": "p"}
    body = {
        "metadata": {"generateName": "e-", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z", "note": "n",
        "reportingController": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal",
        "regarding": regarding,
    }  # fmt: skip
    stream = room.stream("/apis/events.k8s.io/v1/namespaces/default/events")
    code, made = room.http("POST", "/apis/events.k8s.io/v1/namespaces/default/events", body)
    assert code == 201
    _, core = room.http("GET", f"/api/v1/namespaces/default/events/{made['metadata']['name']}")
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "n", "p")
    (line,) = stream.take()
    assert json.loads(line)["object"]["note"] == "n"
    _, found = room.http("GET", "/api/v1/namespaces/default/events", params={"fieldSelector": "involvedObject.name=p"})
    assert len(found["items"]) == 1


def test_versions_of_a_kind_share_what_is_stored() -> None:
    room = Room(served=("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"))
    path = "/apis/resource.k8s.io/{}/devicetaintrules"
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    body = {"metadata": {"name": "t"}, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint}}
    assert room.http("POST", path.format("v1alpha3"), body)[0] == 201
    _, shown = room.http("GET", path.format("v1beta2") + "/t")
    assert (shown["apiVersion"], shown["spec"]["taint"]["key"]) == ("resource.k8s.io/v1beta2", "k")
    stream = room.stream(path.format("v1alpha3"))
    assert json.loads(stream.take()[0])["object"]["apiVersion"] == "resource.k8s.io/v1alpha3"


def test_an_update_of_a_taint_rule_in_v1_names_the_version() -> None:
    room = Room(version="1.37", served=("resource.k8s.io/v1beta2",))
    path = "/apis/resource.k8s.io/{}/devicetaintrules"
    body: dict[str, Any] = {"metadata": {"name": "t"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
    made = room.http("POST", path.format("v1"), body)[1]
    body["spec"]["taint"]["effect"] = "NoExecute"
    code, why = room.http("PUT", path.format("v1") + "/t", body)
    assert (code, [one["field"] for one in why["details"]["causes"]]) == (422, ["metadata.resourceVersion"])
    version = made["metadata"]["resourceVersion"]
    named = {**body, "metadata": {"name": "t", "resourceVersion": version}}
    assert room.http("PUT", path.format("v1") + "/t", named)[0] == 200
    assert room.http("PUT", path.format("v1beta2") + "/t", body)[0] == 200, "as it was before there was v1"


@pytest.mark.parametrize(("version", "code"), [("1.36", 400), ("1.37", 200)])
def test_from_1_37_on_slices_are_selected_by_pool(version: str, code: int) -> None:
    room = Room(version=version)
    path = "/apis/resource.k8s.io/v1/resourceslices"
    for name in ("a", "b"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        body = {"metadata": {"name": name}, "spec": {"driver": "d.com", "pool": pool, "allNodes": True}}
        assert room.http("POST", path, body)[0] == 201
    answered, found = room.http("GET", path, params={"fieldSelector": "spec.pool.name=b"})
    assert answered == code
    if code == 200:
        assert [one["metadata"]["name"] for one in found["items"]] == ["b"]
        one = json.loads(room.stream(path, fieldSelector="spec.pool.name=a").take()[0])
        assert one["object"]["metadata"]["name"] == "a"


def test_answers_are_never_of_half_an_object(room: Room) -> None:
    answer = room.ask("GET", CLAIMS)
    assert isinstance(answer, Response)
    assert msgspec.json.decode(answer.body)["items"][0]["metadata"]["name"] == "a"
    assert answer.headers == {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
