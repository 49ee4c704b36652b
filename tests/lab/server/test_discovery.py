"""What clients learn before they ask for anything, and what old and new ones want of it."""

import pytest

from dds_lab.api.requests import Response
from tests.lab.server.rooms import Room

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@pytest.fixture
def room() -> Room:
    return Room().with_definitions()


def test_groups_and_their_versions(room: Room) -> None:
    _, groups = room.http("GET", "/apis")
    by_name = {group["name"]: [each["version"] for each in group["versions"]] for group in groups["groups"]}
    assert by_name["resource.k8s.io"] == ["v1"]
    assert list(by_name)[-1] == "cro.hpsys.ibm.ie.com"
    _, group = room.http("GET", "/apis/resource.k8s.io")
    assert group["preferredVersion"]["groupVersion"] == "resource.k8s.io/v1"
    _, served = Room(served=("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")).http(
        "GET", "/apis/resource.k8s.io"
    )
    assert [each["version"] for each in served["versions"]] == ["v1", "v1beta2", "v1alpha3"]


def test_resources_of_a_version(room: Room) -> None:
    _, listed = room.http("GET", "/api/v1")
    found = {each["name"]: each for each in listed["resources"]}
    assert found["pods/binding"]["kind"] == "Binding"
    assert (found["pods/eviction"]["group"], found["pods/eviction"]["kind"]) == ("policy", "Eviction")
    assert found["pods"]["shortNames"] == ["po"]
    assert found["pods"]["storageVersionHash"] == "xPOwRZ+Yhw8=", "as every real server says"
    _, reviews = room.http("GET", "/apis/authorization.k8s.io/v1")
    assert all(each["verbs"] == ["create"] and "storageVersionHash" not in each for each in reviews["resources"])


def test_everything_at_once_for_those_who_can_read_it(room: Room) -> None:
    answer = room.ask("GET", "/apis", headers={"accept": AGGREGATED})
    assert isinstance(answer, Response)
    assert answer.headers["Content-Type"].endswith("as=APIGroupDiscoveryList")
    _, found = room.http("GET", "/apis", headers={"accept": AGGREGATED})
    assert found["kind"] == "APIGroupDiscoveryList"
    groups = {item["metadata"]["name"]: item for item in found["items"]}
    claims = groups["resource.k8s.io"]["versions"][0]["resources"][1]
    assert (claims["resource"], claims["scope"]) == ("resourceclaims", "Namespaced")
    assert claims["subresources"][0]["subresource"] == "status"
    _, core = room.http("GET", "/api", headers={"accept": AGGREGATED})
    assert [item["versions"][0]["version"] for item in core["items"]] == ["v1"]
    _, plain = room.http("GET", "/api", headers={"accept": "application/json"})
    assert plain["kind"] == "APIVersions"


def test_what_is_not_served_is_no_page(room: Room) -> None:
    for path in (
        "/apis/no.such.group",
        "/apis/resource.k8s.io/v9",
        "/api/v2",
        "/nowhere",
        "/apis/no.such.group/v1/x",
        "/api/v2/pods",
    ):
        assert room.http("GET", path) == (404, "404 page not found\n"), path
    code, status = room.http("GET", "/apis/resource.k8s.io/v1/bogus")
    assert (code, status["reason"], status["details"]) == (404, "NotFound", {})


def test_a_definition_is_served_while_it_is_there(room: Room) -> None:
    room.admin.delete("customresourcedefinitions", "composableresources.cro.hpsys.ibm.ie.com")
    _, listed = room.http("GET", "/apis/cro.hpsys.ibm.ie.com/v1alpha1")
    assert [each["name"] for each in listed["resources"]] == ["composabilityrequests", "composabilityrequests/status"]


def test_release_health_and_paths(room: Room) -> None:
    assert room.http("GET", "/version")[1]["gitVersion"] == "v1.36.2"
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        assert room.http("GET", path) == (200, "ok")
    assert "/apis/resource.k8s.io/v1" in room.http("GET", "/")[1]["paths"]
    assert room.http("POST", "/version")[0] == 405
    assert room.http("HEAD", "/version")[0] == 200


def test_openapi(room: Room) -> None:
    _, index = room.http("GET", "/openapi/v3")
    assert "api/v1" in index["paths"]
    for path in index["paths"]:
        code, document = room.http("GET", f"/openapi/v3/{path}")
        assert (code, document["openapi"]) == (200, "3.0.0")
    _, document = room.http("GET", "/openapi/v3/apis/resource.k8s.io/v1")
    schema = document["components"]["schemas"]["io.k8s.api.resource.v1.ResourceClaim"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"}
    ]
    patch = document["paths"]["/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"]["patch"]
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    _, custom = room.http("GET", "/openapi/v3/apis/cro.hpsys.ibm.ie.com/v1alpha1")
    assert "com.ie.ibm.hpsys.cro.v1alpha1.ComposabilityRequest" in custom["components"]["schemas"]
    assert room.http("GET", "/openapi/v3/apis/none/v1")[0] == 404


def test_every_reference_of_a_document_leads_somewhere(room: Room) -> None:
    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [each for part in value.values() for each in references(part)]
        return [each for part in value for each in references(part)] if isinstance(value, list) else []

    for path in room.http("GET", "/openapi/v3")[1]["paths"]:
        _, document = room.http("GET", f"/openapi/v3/{path}")
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(references(document)) <= known, path


def test_the_old_document_is_an_outline_in_two_forms(room: Room) -> None:
    assert room.http("GET", "/openapi/v2")[1]["swagger"] == "2.0"
    proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = room.ask("GET", "/openapi/v2", headers={"accept": proto})
    assert isinstance(answer, Response)
    assert answer.body.startswith(b"\x0a\x032.0\x12")
