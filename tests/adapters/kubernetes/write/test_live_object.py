"""What answers mean for a write, also those that no API server should give."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dds_adapters.kubernetes import cluster
from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.write.devices import LabelNode
from dds_adapters.kubernetes.write.events import Regarding, TellPeople
from dds_adapters.kubernetes.write.live_object import Ref, Server
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result
from tests.support.written_objects import RESOURCE, WrittenObjects

NODE = json.dumps({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {}}}).encode()


class Answering:
    """A proxy before the API server that gives the same answers by method."""

    def __init__(self, **answers: Answer) -> None:
        self._answers = {"GET": Answer(200, NODE), **answers}

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        return self._answers[method]


def labelled(**answers: Answer) -> Result:
    return LabelNode("n", "u", (("a", "1"),)).carry_out(Answering(**answers), lambda resource: "v1")


def status(code: int, reason: str, message: str = "", wait: float = 0.0) -> Answer:
    return Answer(code, json.dumps({"kind": "Status", "reason": reason, "message": message}).encode(), wait)


def test_what_the_server_asks_to_wait_is_waited() -> None:
    result = labelled(PATCH=status(429, "TooManyRequests", wait=7.0))
    assert isinstance(result, Later) and result.wait == 7.0 and "TooManyRequests" in result.why


@pytest.mark.parametrize("code", [401, 408, 429, 500, 502, 503, 504])
def test_trouble_that_passes_is_later_whatever_the_body(code: int) -> None:
    for body in (b"", b"<html>bad gateway</html>", b"[1]", b'{"reason": 5}', b"\xff"):
        assert isinstance(labelled(PATCH=Answer(code, body)), Later)
        assert isinstance(labelled(GET=Answer(code, body)), Later)


@pytest.mark.parametrize("code", [400, 403, 405, 413, 415, 422])
def test_a_refusal_is_declined_whatever_the_body(code: int) -> None:
    for body in (b"", b"<html>no</html>", b'{"details": {"causes": null}}'):
        result = labelled(PATCH=Answer(code, body))
        assert isinstance(result, Declined) and result.code == code


def test_words_of_a_refusal_are_scrubbed_and_short() -> None:
    result = labelled(PATCH=status(400, "BadRequest", "Authorization: Bearer abc.def.ghi\n" + "x " * 5000))
    assert isinstance(result, Declined)
    assert "abc.def" not in result.text and len(result.text.encode()) <= 1024 and "\n" not in result.text


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"<html/>", b'{"metadata": []}', b"\xff"])
def test_an_answer_that_is_no_object_is_later(body: bytes) -> None:
    assert isinstance(labelled(GET=Answer(200, body)), Later)


def test_an_object_of_no_uid_is_not_the_one_that_is_meant() -> None:
    assert isinstance(labelled(GET=Answer(200, b'{"metadata": {"name": "n"}}')), Obsolete)


def test_what_is_gone_when_it_is_written_is_obsolete() -> None:
    assert isinstance(labelled(PATCH=status(404, "NotFound")), Obsolete)
    assert isinstance(labelled(PATCH=status(409, "Conflict")), Later)


def test_what_nobody_would_hear_of_is_declined_when_it_cannot_be_made() -> None:
    about = Regarding("Pod", "pods", "p", "u", "gone", "v1")
    write = TellPeople(about, "HandOver", "HandOver", "words", "Normal", 1, "dds-1")
    result = write.carry_out(Answering(POST=status(404, "NotFound", "namespace not found")), lambda resource: "v1")
    assert result == Declined(404, "NotFound", "namespace not found")


def test_a_list_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PAGE", 2)
    stage = WrittenObjects()
    for number in range(7):
        stage.resource(f"r{number}", "mine" if number % 2 else "other")

    found: list[str] = []

    def reads(server: Server) -> Result:
        rows = server.list(RESOURCE, {"labelSelector": "app.kubernetes.io/managed-by=mine"})
        found.extend(json.loads(row)["metadata"]["name"] for row in rows)
        assert server.listed(Ref(RESOURCE, "r3")) is not None and server.listed(Ref(RESOURCE, "r9")) is None
        return Done()

    assert reads(Server(stage.writer, stage.versions)) == Done()
    assert sorted(found) == ["r1", "r3", "r5"]
