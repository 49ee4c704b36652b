"""Bodies in Kubernetes' protobuf, as kubectl's typed clients send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dds_lab.api.bodies import KINDS, MAGIC, UnknownKind, Unreadable, decode_protobuf
from dds_lab.api.requests import Request, Response
from tests.support.served import new_server, users


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = field(1, api_version) + field(2, kind)
    return MAGIC + field(1, meta) + field(2, raw) + field(3, "") + field(4, "")


META = field(1, "n") + field(2, "") + field(3, "ns") + field(7, 0) + field(8, b"")
"""As Go writes it: empty texts, a zero generation and an empty time are there."""


def test_an_object_is_read_as_json_would_say_it() -> None:
    labels = field(11, field(1, "a") + field(2, "b"))
    raw = field(1, META + labels) + field(2, field(1, "k") + field(2, "v")) + field(2, field(1, "l") + field(2, ""))
    assert decode_protobuf(envelope("v1", "ConfigMap", raw)) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "n", "namespace": "ns", "labels": {"a": "b"}},
        "data": {"k": "v", "l": ""},
    }


def test_lists_keep_empty_texts_and_bytes_become_base64() -> None:
    rule = field(1, "get") + field(2, "") + field(3, "pods")
    role = decode_protobuf(envelope("rbac.authorization.k8s.io/v1", "ClusterRole", field(1, META) + field(2, rule)))
    assert role["rules"] == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    secret = decode_protobuf(envelope("v1", "Secret", field(1, META) + field(2, field(1, "k") + field(2, b"\xff\x00"))))
    assert secret["data"] == {"k": "/wA="}


def test_zero_is_told_from_nothing_where_that_matters() -> None:
    options = decode_protobuf(envelope("policy/v1", "Eviction", field(1, META) + field(2, field(1, 0))))
    assert options["deleteOptions"] == {"gracePeriodSeconds": 0}
    assert decode_protobuf(envelope("v1", "DeleteOptions", b"")) == {"kind": "DeleteOptions", "apiVersion": "v1"}
    negative = decode_protobuf(envelope("v1", "DeleteOptions", field(1, (1 << 64) - 1)))
    assert negative["gracePeriodSeconds"] == -1


def test_times_are_text() -> None:
    made = decode_protobuf(envelope("v1", "Namespace", field(1, field(1, "n") + field(8, field(1, 1_800_000_000)))))
    assert made["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"


def test_unknown_fields_are_skipped() -> None:
    raw = (
        field(1, META)
        + field(99, "new")
        + field(98, 7)
        + varint(97 << 3 | 1)
        + bytes(8)
        + varint(96 << 3 | 5)
        + bytes(4)
    )
    assert decode_protobuf(envelope("v1", "Namespace", raw))["metadata"]["name"] == "n"


def test_what_a_table_has_only_the_usual_fields_of_is_read_whole_or_refused() -> None:
    container = field(1, "c") + field(2, "i") + field(3, "run") + field(5, "") + field(8, b"") + field(16, 0)
    template = field(1, b"") + field(2, field(2, container) + field(3, "") + field(11, 0))
    labels = field(1, field(1, "app") + field(2, "web"))
    spec = field(1, 0) + field(2, labels) + field(3, template) + field(4, field(1, "")) + field(7, 0)
    made = decode_protobuf(envelope("apps/v1", "Deployment", field(1, META) + field(2, spec) + field(3, field(1, 0))))
    assert made["spec"] == {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i", "command": ["run"]}]}},
        "strategy": {},
    }
    secret = field(2, field(2, container + field(15, field(1, b"x"))))
    with pytest.raises(UnknownKind, match="field 15 of Container"):
        decode_protobuf(envelope("batch/v1", "Job", field(1, META) + field(2, field(6, secret))))


def test_other_kinds_are_named() -> None:
    with pytest.raises(UnknownKind, match="Pod of v1"):
        decode_protobuf(envelope("v1", "Pod", b""))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        MAGIC + b"\x0a\x7f",
        MAGIC + b"\xff" * 20,
        MAGIC + b"\x0b",
        envelope("v1", "Namespace", b"\x08\x01"),
        envelope("v1", "Namespace", field(1, field(1, b"\xff\xfe"))),
        envelope("v1", "DeleteOptions", field(1, "text")),
    ],
)
def test_what_is_no_message_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable):
        decode_protobuf(body)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_empty(kind: str) -> None:
    assert decode_protobuf(envelope("v1", kind, b""))["kind"] == kind


def test_the_server_reads_them() -> None:
    server = new_server()
    users_ = users()
    users_.register(server.access)
    headers = {
        "authorization": f"Bearer {users_.tokens['admin']}",
        "content-type": "application/vnd.kubernetes.protobuf",
        "accept": "application/vnd.kubernetes.protobuf,application/json",
    }

    def sent(path: str, body: bytes) -> tuple[int, Any]:
        answer = server.respond(Request("POST", path, "", headers, body))
        assert isinstance(answer, Response)
        return answer.code, json.loads(answer.body)

    namespaces = "/api/v1/namespaces"
    code, made = sent(namespaces, envelope("v1", "Namespace", field(1, field(1, "team"))))
    assert code == 201 and made["metadata"]["name"] == "team" and made["status"]["phase"] == "Active"
    assert sent(namespaces, b"no protobuf")[0] == 400
    code, refused = sent("/api/v1/namespaces/team/pods", envelope("v1", "Pod", b""))
    assert code == 415 and refused["reason"] == "UnsupportedMediaType"
