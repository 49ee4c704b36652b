"""Whatever a client sends, it gets an answer in the form of a real server's, and the server goes on."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dds_lab.api.requests import Request, Response
from dds_lab.api.server import ApiServer
from dds_lab.http_frontend import Served
from tests.support.served import client_of, new_server, served, users

GROUPS = ["", "api", "apis", "apis/resource.k8s.io", "apis/cro.hpsys.ibm.ie.com", "apis/no.such", "openapi"]
VERSIONS = ["v1", "v1alpha1", "v2", ""]
PLURALS = [
    "pods",
    "nodes",
    "resourceclaims",
    "resourceslices",
    "composabilityrequests",
    "namespaces",
    "secrets",
    "bogus",
]
NAMES = ["c1", "Not_A_Name", "..", "a" * 300, "%2F", "é", " ", "\x00", ""]
SUBRESOURCES = ["", "status", "binding", "eviction", "scale", "status/status"]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]
TYPES = [
    "",
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "application/json; charset=utf-8",
    "\x7f;;=",
]
PARAMETERS = [
    "limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "dryRun", "force",
    "timeoutSeconds", "fieldManager", "fieldValidation", "watch", "sendInitialEvents", "allowWatchBookmarks", "pretty",
    "gracePeriodSeconds", "propagationPolicy", "orphanDependents",
]  # fmt: skip
VALUES = [
    "", "0", "1", "-1", "true", "false", "rubbish", "All", "Strict", "99999999999999999999", "a=b", "a in (b",
    "metadata.name=x", "é\x00", "NotOlderThan", "Exact",
]  # fmt: skip

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["kind", "apiVersion", "metadata", "spec", "status", "name", "namespace", "labels", "finalizers", "devices", "requests",
     "allocation", "conditions", "resourceVersion", "uid", "op", "path", "value", "$patch", "$retainKeys", "preconditions"]
)  # fmt: skip
objects = st.recursive(
    values, lambda inner: st.dictionaries(fields, inner, max_size=5) | st.lists(inner, max_size=3), max_leaves=20
)
bodies = st.one_of(
    st.binary(max_size=40),
    objects.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [b"[" * 3_000, b'{"a":' * 3_000, b"a: &x [*x]", b"a: !!python/object:os.system {}", b"\xff\xfe", b"- " * 500]
    ),
)


@st.composite
def paths(draw: st.DrawFn) -> str:
    parts = [draw(st.sampled_from(GROUPS)), draw(st.sampled_from(VERSIONS))]
    if draw(st.booleans()):
        parts += ["namespaces", draw(st.sampled_from(["default", "nowhere", *NAMES]))]
    parts += [draw(st.sampled_from(PLURALS)), draw(st.sampled_from(NAMES)), draw(st.sampled_from(SUBRESOURCES))]
    return "/" + "/".join(part for part in parts if part)


queries = st.dictionaries(st.sampled_from(PARAMETERS), st.sampled_from(VALUES), max_size=4)
headers = st.fixed_dictionaries(
    {},
    optional={
        "content-type": st.sampled_from(TYPES),
        "accept": st.sampled_from(["*/*", "application/json", "text/html", "application/json;as=Table;v=v1;g=meta.k8s.io", ",;"]),
        "authorization": st.sampled_from(["", "Bearer nobody", "Basic x", "Bearer"]),
        "impersonate-user": st.sampled_from(["someone", "system:serviceaccount:x", ""]),
        "impersonate-group": st.sampled_from(["a", "system:masters"]),
        "user-agent": st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10),
    },
)  # fmt: skip


MAY_BE_500 = (b"strconv.ParseUint", b"failed to create typed patch", b"impersonat", b"duplicate")
"""What a real server answers with 500 too, though it was the client's fault."""


def well_formed(code: int, body: bytes, told: str) -> None:
    """The answer is an object, a Status or one of the recorded plain texts."""
    assert 200 <= code < 600, told
    assert code != 500 or any(words in body for words in MAY_BE_500), (body[:500], told)
    if not body or code < 400 or body == b"404 page not found\n":
        return
    status: Any = json.loads(body)
    assert status["kind"] == "Status" and status["apiVersion"] == "v1" and status["status"] == "Failure", told
    assert status["code"] == code and isinstance(status["message"], str), told
    assert "Traceback" not in status["message"]


@pytest.fixture(scope="module")
def server() -> ApiServer:
    made = new_server()
    users_ = users()
    users_.register(made.access)
    made.access.register("admin", users_.users["admin"])
    return made


@settings(max_examples=1_500)
@given(st.sampled_from(METHODS), paths(), queries, headers, bodies)
def test_every_request_gets_an_answer(
    server: ApiServer, method: str, path: str, query: dict[str, str], header: dict[str, str], body: bytes
) -> None:
    given = {"authorization": "Bearer admin", **header}
    told = f"{method} {path} {query} {given} {body!r}"
    answer = server.respond(Request(method, path, urlencode(query), given, body))
    if isinstance(answer, Response):
        well_formed(answer.code, answer.body, told)
    else:
        answer.take()
        answer.close()
    assert server.respond(Request("GET", "/version")).code == 200


@pytest.fixture(scope="module")
def lab() -> Iterator[Served]:
    server = new_server()
    client_of(server)
    with served(server=server) as running:
        yield running


@settings(max_examples=150)
@given(st.sampled_from(METHODS), paths(), queries, headers, bodies)
def test_over_a_socket_too(
    lab: Served, method: str, path: str, query: dict[str, str], header: dict[str, str], body: bytes
) -> None:
    host = lab.url.partition("://")[2]
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        given = {"authorization": f"Bearer {lab.tokens['admin']}", **header, "content-length": str(len(body))}
        short = {**query, "timeoutSeconds": "1"} if "watch" in query else query
        connection.putrequest(method, quote(path) + "?" + urlencode(short), skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders(body)
        answer = connection.getresponse()
        streamed = answer.headers.get("transfer-encoding") == "chunked"
        found = b"" if streamed else answer.read()
        if not streamed and method != "HEAD" and found != b"400 Bad Request":  # what is no HTTP at all
            well_formed(answer.status, found, f"{method} {path} {query} {given} {body!r}")
    finally:
        connection.close()
