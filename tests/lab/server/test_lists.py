"""Get and list: pages, selectors, versions, and every way to ask wrongly."""

import base64
import json

import pytest

from dds_lab.api.requests import Response
from tests.lab.server.rooms import ALL_CLAIMS, CLAIMS, Room, names


@pytest.fixture
def room() -> Room:
    room = Room()
    for at in range(5):
        room.claim(f"c{at}", labels={"parity": str(at % 2)})
    return room


def test_items_of_custom_kinds_carry_their_kind() -> None:
    room = Room().with_definitions()
    resource = {"type": "gpu", "model": "A", "size": 1}
    room.admin.create("composabilityrequests", {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest",
        "metadata": {"name": "r"}, "spec": {"resource": resource},
    })  # fmt: skip
    _, listed = room.http("GET", "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composabilityrequests")
    assert listed["items"][0]["kind"] == "ComposabilityRequest"


def test_pages_over_all_namespaces_and_with_selectors(room: Room) -> None:
    room.admin.create("namespaces", {"metadata": {"name": "more"}})
    room.claim("a", "more", labels={"parity": "1"})
    _, first = room.http("GET", ALL_CLAIMS, params={"limit": "2", "labelSelector": "parity=1"})
    assert names(first) == ["c1", "c3"]
    assert "remainingItemCount" not in first["metadata"], "nobody counted"
    token = first["metadata"]["continue"]
    _, second = room.http("GET", ALL_CLAIMS, params={"limit": "2", "labelSelector": "parity=1", "continue": token})
    assert names(second) == ["a"]


def test_a_page_of_a_moment_that_is_forgotten_offers_to_go_on_without_it(room: Room) -> None:
    _, first = room.http("GET", CLAIMS, params={"limit": "2"})
    room.claim("c9")
    room.server.restart()
    code, gone = room.http("GET", CLAIMS, params={"continue": first["metadata"]["continue"]})
    assert (code, gone["reason"]) == (410, "Expired")
    code, rest = room.http("GET", CLAIMS, params={"continue": gone["metadata"]["continue"]})
    assert (code, names(rest)) == (200, ["c2", "c3", "c4", "c9"])


def token(**parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    ["rubbish", "é", token(v="meta.k8s.io/v2", rv=1, start="/a"), token(v="meta.k8s.io/v1", rv="x", start="/a"),
     token(v="meta.k8s.io/v1", rv=0, start="/a"),
     token(v="meta.k8s.io/v1", rv=3, start="a"), token(v="meta.k8s.io/v1", rv=3, start="/../x")],
)  # fmt: skip
def test_what_is_no_token_is_refused(room: Room, text: str) -> None:
    code, status = room.http("GET", CLAIMS, params={"continue": text})
    assert (code, status["reason"]) == (400, "BadRequest")


def test_an_exact_version_shows_what_was_there_then(room: Room) -> None:
    then = str(room.server.store.revision)
    room.admin.delete("resourceclaims", "c0", "default")
    room.claim("c9")
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    _, listed = room.http("GET", CLAIMS, params=exact)
    assert names(listed) == ["c0", "c1", "c2", "c3", "c4"]
    assert listed["metadata"]["resourceVersion"] == then
    _, legacy = room.http("GET", CLAIMS, params={"resourceVersion": then, "limit": "3"})
    assert names(legacy) == ["c0", "c1", "c2"], "a version with a limit means exactly that version"
    _, newer = room.http("GET", CLAIMS, params={"resourceVersion": then, "resourceVersionMatch": "NotOlderThan"})
    assert names(newer) == ["c1", "c2", "c3", "c4", "c9"]
    room.server.restart()
    code, status = room.http("GET", CLAIMS, params=exact)
    assert (code, status["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("params", "code", "reason"),
    [
        ({"resourceVersion": "999999"}, 504, "Timeout"),
        ({"resourceVersion": "abc"}, 500, None),
        ({"resourceVersion": "-1"}, 500, None),
        ({"resourceVersion": str(1 << 64)}, 500, None),
        ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"resourceVersionMatch": "Maybe", "resourceVersion": "1"}, 422, "Invalid"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "Invalid"),
        ({"sendInitialEvents": "true"}, 422, "Invalid"),
        ({"limit": "x"}, 400, "BadRequest"),
        ({"timeoutSeconds": "1.5"}, 400, "BadRequest"),
        ({"labelSelector": "a in"}, 400, "BadRequest"),
        ({"fieldSelector": "spec.foo=1"}, 400, "BadRequest"),
        ({"continue": token(v="meta.k8s.io/v1", rv=3, start="/a"), "resourceVersion": "3"}, 400, "BadRequest"),
        ({"continue": token(v="meta.k8s.io/v1", rv=3, start="/a"), "resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"continue": token(v="meta.k8s.io/v1", rv=999999, start="/a")}, 504, "Timeout"),
    ],
)
def test_options_that_make_no_sense(room: Room, params: dict[str, str], code: int, reason: str | None) -> None:
    found, status = room.http("GET", CLAIMS, params=params)
    assert (found, status.get("reason")) == (code, reason)
    assert status["kind"] == "Status"
    assert status["code"] == code


def test_a_version_of_the_future_asks_to_come_back(room: Room) -> None:
    answer = room.ask("GET", CLAIMS, params={"resourceVersion": "999999"})
    assert isinstance(answer, Response)
    assert answer.headers["Retry-After"] == "1"
    assert room.http("GET", f"{CLAIMS}/c0", params={"resourceVersion": "999999"})[0] == 504


def test_selectors_of_a_kinds_own_fields() -> None:
    room = Room()
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    for name, node in (("s1", "n1"), ("s2", "n2")):
        spec = {"driver": "gpu.nvidia.com", "pool": pool, "nodeName": node, "devices": []}
        room.admin.create("resourceslices", {"metadata": {"name": name}, "spec": spec})
    _, found = room.http("GET", "/apis/resource.k8s.io/v1/resourceslices", params={"fieldSelector": "spec.nodeName=n2"})
    assert names(found) == ["s2"]
