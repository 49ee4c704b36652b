"""Create, update and patch: what the body must say, what is kept, what is refused, and what leaves no trace."""

from random import Random
from typing import Any

import pytest

from dds_lab.api.gates import Gates
from dds_lab.api.requests import Call, Response
from dds_lab.api.server import ApiServer
from dds_lab.api.status import ApiError, Cause
from dds_lab.client import Client
from dds_lab.crds import COMPOSABILITY_REQUESTS
from tests.lab.server.rooms import CLAIMS, MERGE, REQUESTS, Room, claim, request

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def room() -> Room:
    room = Room()
    room.claim("a", labels={"app": "x"})
    return room


def test_a_new_object_gets_what_only_the_server_knows(room: Room) -> None:
    given = claim("b", uid="mine", creationTimestamp="2000-01-01T00:00:00Z", generation=9, selfLink="/x")
    code, made = room.http("POST", CLAIMS, given)
    assert code == 201
    meta = made["metadata"]
    assert meta["uid"] != "mine"
    assert len(meta["uid"]) == 36
    assert meta["uid"][14] == "4", "a random uid of RFC 4122"
    assert meta["creationTimestamp"] == "2026-11-21T00:00:00Z"
    assert meta["namespace"] == "default"
    assert "selfLink" not in meta
    assert "generation" not in meta
    assert meta["managedFields"][0]["manager"] == "tests"
    assert made["status"] == {}


def test_kind_and_version_may_be_left_out_of_built_in_kinds_only() -> None:
    room = Room().with_definitions()
    body = claim("b")
    del body["kind"], body["apiVersion"]
    assert room.http("POST", CLAIMS, body)[0] == 201
    body = request("r")
    del body["kind"]
    code, status = room.http("POST", REQUESTS, body)
    assert (code, status["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    "body",
    [
        {**claim("b"), "kind": "Pod"},
        {**claim("b"), "apiVersion": "resource.k8s.io/v1beta1"},
        {**claim("b"), "kind": ["ResourceClaim"]},
        claim("b", namespace="other"),
        {**claim("b"), "spec": "text"},
        {**claim("b"), "metadata": "text"},
        [claim("b")],
        "text",
        None,
        b"",
        b"{not json",
        b"\xff\xfe",
        b"[" * 5000 + b"]" * 5000,
        b'{"metadata": ' + b'{"a": ' * 400 + b"1" + b"}" * 401,
    ],
)
def test_bodies_that_are_no_such_object(room: Room, body: Any) -> None:
    code, status = room.http("POST", CLAIMS, body, type="application/json")
    assert (code, status["kind"], status["reason"]) == (400, "Status", "BadRequest")


def test_names_are_given_or_made(room: Room) -> None:
    made = {room.http("POST", CLAIMS, claim("", generateName="gen-"))[1]["metadata"]["name"] for _ in range(20)}
    assert len(made) == 20
    assert all(name.startswith("gen-") and len(name) == 9 for name in made)
    long = room.http("POST", CLAIMS, claim("", generateName="g" * 70))[1]["metadata"]["name"]
    assert len(long) == 63
    code, status = room.http("POST", CLAIMS, claim(""))
    assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata.name")


def test_a_namespace_must_be_there_and_stay(room: Room) -> None:
    code, status = room.http("POST", CLAIMS.replace("default", "nowhere"), claim("a"))
    assert (code, status["details"]) == (404, {"name": "nowhere", "kind": "namespaces"})
    room.admin.create("namespaces", {"metadata": {"name": "going"}})
    room.claim("held", "going", finalizers=["x.io/keep"])
    room.admin.delete("namespaces", "going")
    code, status = room.http("POST", CLAIMS.replace("default", "going"), claim("a"))
    assert (code, status["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


def test_a_version_is_nothing_that_a_creator_says(room: Room) -> None:
    assert room.http("POST", CLAIMS, claim("b", resourceVersion="7"))[0] == 500


def test_a_dry_run_answers_and_leaves_nothing(room: Room) -> None:
    before = room.server.store.revision
    assert room.http("POST", CLAIMS, claim("b"), params={"dryRun": "All"})[0] == 201
    code, shown = room.http("PATCH", f"{CLAIMS}/a", {"metadata": {"labels": {"n": "1"}}}, params={"dryRun": "All"})
    assert (code, shown["metadata"]["labels"]) == (200, {"app": "x", "n": "1"})
    code, shown = room.http("DELETE", f"{CLAIMS}/a", params={"dryRun": "All"})
    assert code == 200
    assert room.server.store.revision == before


@pytest.mark.parametrize(
    ("method", "path", "params", "field"),
    [
        ("POST", CLAIMS, {"dryRun": "Some"}, "dryRun"),
        ("POST", CLAIMS, {"fieldValidation": "Loose"}, "fieldValidation"),
        ("POST", CLAIMS, {"fieldManager": "x" * 129}, "fieldManager"),
        ("PATCH", f"{CLAIMS}/a", {"force": "true"}, "force"),
    ],
)
def test_options_that_make_no_sense(room: Room, method: str, path: str, params: dict[str, str], field: str) -> None:
    code, status = room.http(method, path, claim("b") if method == "POST" else {}, params=params)
    assert (code, status["details"]["causes"][0]["field"]) == (422, field)


def test_unknown_fields_are_dropped_with_a_warning_or_refused(room: Room) -> None:
    body = {**claim("b"), "bogus": 1}
    answer = room.ask("POST", CLAIMS, body)
    assert isinstance(answer, Response)
    assert answer.headers["Warning"] == '299 - "unknown field \\"bogus\\""'
    assert (
        room.http("POST", CLAIMS, {**body, "metadata": {"name": "c"}}, params={"fieldValidation": "Strict"})[0] == 400
    )
    silent = room.ask("POST", CLAIMS, {**body, "metadata": {"name": "d"}}, params={"fieldValidation": "Ignore"})
    assert isinstance(silent, Response)
    assert "Warning" not in silent.headers
    assert room.http("PATCH", f"{CLAIMS}/a", {"bogus": 1}, params={"fieldValidation": "Strict"})[0] == 422


def test_an_update_says_what_it_was_made_for(room: Room) -> None:
    live = room.admin.get("resourceclaims", "a", "default")
    stale = claim("a", resourceVersion=live["metadata"]["resourceVersion"])
    room.label("a", app="y")
    code, status = room.http("PUT", f"{CLAIMS}/a", stale)
    assert (code, status["reason"], status["details"]["name"]) == (409, "Conflict", "a")
    assert room.http("PUT", f"{CLAIMS}/a", claim("a", uid="00000000-0000-0000-0000-000000000000"))[0] == 409
    assert room.http("PUT", f"{CLAIMS}/a", claim("b"))[0] == 400
    assert room.http("PUT", f"{CLAIMS}/a", {**claim("a"), "metadata": {}})[0] == 400
    assert room.http("PUT", f"{CLAIMS}/nope", claim("nope"))[0] == 404, "an update creates nothing"


def test_the_four_patches(room: Room) -> None:
    path = f"{CLAIMS}/a"
    assert room.http("PATCH", path, {"metadata": {"labels": {"m": "1"}}})[1]["metadata"]["labels"]["m"] == "1"
    patch: Any = [{"op": "add", "path": "/metadata/labels/j", "value": "1"}]
    assert room.http("PATCH", path, patch, type=JSON_PATCH)[1]["metadata"]["labels"]["j"] == "1"
    strategic = {"metadata": {"finalizers": ["x.io/f"], "$setElementOrder/finalizers": ["x.io/f"]}}
    code, made = room.http("PATCH", path, strategic, type="application/strategic-merge-patch+json")
    assert (code, made["metadata"]["finalizers"]) == (200, ["x.io/f"])
    applied = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a", "labels": {"s": "1"}},
    }
    code, made = room.http("PATCH", path, applied, type=APPLY, params={"fieldManager": "me"})
    assert (code, made["metadata"]["labels"]) == (200, {"app": "x", "m": "1", "j": "1", "s": "1"})


def test_an_apply_creates_what_is_not_there(room: Room) -> None:
    code, made = room.http("PATCH", f"{CLAIMS}/new", claim("new"), type=APPLY, params={"fieldManager": "me"})
    assert (code, made["metadata"]["managedFields"][0]["operation"]) == (201, "Apply")
    code, _ = room.http("PATCH", f"{CLAIMS}/new", claim("new"), type=APPLY, params={"fieldManager": "me"})
    assert code == 200
    yaml = b"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata:\n  name: new\n  labels: {app: 'true'}\n"
    code, made = room.http("PATCH", f"{CLAIMS}/new", yaml, type=APPLY, params={"fieldManager": "you"})
    assert (code, made["metadata"]["labels"]) == (200, {"app": "true"})


@pytest.mark.parametrize(
    ("path", "body", "params", "code"),
    [
        ("/a", claim("a"), {}, 422),
        ("/a", claim("b"), {"fieldManager": "me"}, 400),
        ("/a", {"kind": "ResourceClaim", "metadata": {"name": "a"}}, {"fieldManager": "me"}, 400),
        ("/a", {**claim("a"), "metadata": "x"}, {"fieldManager": "me"}, 400),
        ("/a", claim("a", managedFields=[{"manager": "x"}]), {"fieldManager": "me"}, 400),
        ("/a", claim("a", resourceVersion="1"), {"fieldManager": "me"}, 409),
        ("/a", [], {"fieldManager": "me"}, 400),
        ("/new/status", claim("new"), {"fieldManager": "me"}, 404),
        ("/new", claim("new", uid="u"), {"fieldManager": "me"}, 409),
        ("/a", b"a: &x 1\nb: *x\n", {"fieldManager": "me"}, 400),
        ("/a", b"a: [1\n", {"fieldManager": "me"}, 400),
    ],
)
def test_applies_that_cannot_be(room: Room, path: str, body: Any, params: dict[str, str], code: int) -> None:
    found, status = room.http("PATCH", CLAIMS + path, body, type=APPLY, params=params)
    assert (found, status["kind"]) == (code, "Status")


@pytest.mark.parametrize("type", ["text/plain", "application/json", "application/yaml"])
def test_patches_of_no_known_kind(room: Room, type: str) -> None:
    code, status = room.http("PATCH", f"{CLAIMS}/a", {}, type=type)
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")


def test_nothing_may_be_patched_that_is_not_there(room: Room) -> None:
    assert room.http("PATCH", f"{CLAIMS}/nope", {}, type=MERGE)[0] == 404


def test_hooks_are_asked_before_anything_is_stored(room: Room) -> None:
    seen: list[tuple[str, bool, bool]] = []

    def hook(call: Call, old: Any, new: Any) -> list[Cause] | None:
        seen.append((call.verb, old is not None, new is not None))
        if new is not None and new["metadata"].get("labels", {}).get("bad"):
            return [Cause("FieldValueForbidden", "no bad ones", "metadata.labels")]
        return None

    room.server.admission.append(hook)
    room.claim("b")
    room.label("b", x="1")
    room.admin.delete("resourceclaims", "b", "default")
    assert seen == [("create", False, True), ("patch", True, True), ("delete", True, False)]
    before = room.server.store.revision
    with pytest.raises(ApiError) as error:
        room.claim("c", labels={"bad": "1"})
    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    assert "no bad ones" in error.value.what
    assert room.server.store.revision == before


def test_hooks_may_object_to_an_update_that_sends_back_the_very_object_that_is_stored() -> None:
    room = Room()
    server = ApiServer(gates=Gates.for_version(), now=room.time.now, random=Random(1), track_updates=False)
    client, asked = Client(server, room.time, "poller"), list[str]()
    client.create("customresourcedefinitions", COMPOSABILITY_REQUESTS)
    stored = client.create("composabilityrequests", request("r"))
    before = server.store.revision

    def hook(call: Call, old: Any, new: Any) -> list[Cause] | None:
        asked.append(call.subresource)
        return [Cause("FieldValueForbidden", "not now", "")] if call.subresource == "status" else None

    server.admission.append(hook)
    assert client.update("composabilityrequests", stored) is stored
    with pytest.raises(ApiError, match="not now"):
        client.update("composabilityrequests", stored, "status")
    assert asked == ["", "status"] and server.store.revision == before


def test_hooks_may_object_to_a_deletion(room: Room) -> None:
    def hook(call: Call, old: Any, new: Any) -> list[Cause] | None:
        return [Cause("FieldValueForbidden", "it stays", "")] if call.verb == "delete" else None

    room.claim("stays")
    room.server.admission.append(hook)
    for path in (f"{CLAIMS}/stays", CLAIMS):
        code, status = room.http("DELETE", path)
        assert (code, "it stays" in status["message"]) == (403, True)
    assert room.http("GET", f"{CLAIMS}/stays")[0] == 200


def test_an_update_makes_what_is_not_there_of_some_kinds(room: Room) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "l", "resourceVersion": "3"}, "spec": {"holderIdentity": "me"}}
    assert room.http("PUT", f"{leases}/l", lease)[0] == 201
    assert room.http("GET", f"{leases}/l")[1]["spec"] == {"holderIdentity": "me"}
    assert room.http("PUT", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r", {"metadata": {"name": "r"}})[0] == 201
    assert room.http("PUT", "/api/v1/namespaces/default/configmaps/c", {"metadata": {"name": "c"}})[0] == 404


def test_an_update_does_not_make_anew_what_was_deleted(room: Room) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    made = room.http("PUT", lease, {"metadata": {"name": "l"}})[1]
    room.http("DELETE", lease)
    code, status = room.http("PUT", lease, made)
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["message"].endswith(f"UID in precondition: {made['metadata']['uid']}, UID in object meta: ")
    assert room.http("GET", lease)[0] == 404


def test_without_tracking_an_update_leaves_managers_alone() -> None:
    room = Room()
    server = ApiServer(gates=Gates.for_version("1.36"), now=room.time.now, random=Random(1), track_updates=False)
    user = Client(server, room.time, "me")
    made = user.create("resourceclaims", claim("a"), "default")
    assert "managedFields" not in made["metadata"]
    applied = user.patch("resourceclaims", "a", claim("a"), "default", "apply", force=True)
    updated = user.update("resourceclaims", {**applied, "metadata": {**applied["metadata"], "labels": {"a": "b"}}})
    assert updated["metadata"]["managedFields"] == applied["metadata"]["managedFields"] != []
