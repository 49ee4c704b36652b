"""Wire faults as a client sees them on a real socket."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from dds_lab.faults.wire import Cut, Expire, HalfOpen, Lost, Refuse, Rule, Slow
from dds_lab.http_frontend import Served
from dds_lab.latency import Fixed
from tests.lab.http_frontend.wire import Wire
from tests.support.served import client_of, served

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
JSON = "Content-Type: application/json"


def body(name: str) -> bytes:
    spec = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]}}
    return json.dumps({"metadata": {"name": name}, "spec": spec}).encode()


def make(lab: Served, name: str) -> None:
    lab.run(lambda: client_of(lab.server).create("resourceclaims", json.loads(body(name)), "default"))


def there(lab: Served) -> list[str]:
    return lab.run(
        lambda: [each["metadata"]["name"] for each in client_of(lab.server).list("resourceclaims", "default")]
    )


def open_watch(wire: Wire, query: str = "resourceVersion=0&timeoutSeconds=30") -> None:
    wire.send(wire.request("GET", f"{CLAIMS}?watch=1&{query}"))
    assert wire.head().code == 200


def events(chunk: bytes) -> list[Any]:
    return [json.loads(line) for line in chunk.splitlines()]


@pytest.mark.parametrize("code", [409, 429, 500, 503])
def test_a_refused_write_is_not_done(code: int) -> None:
    with (
        served(Rule(Refuse(code, retry_after=3), users=("admin",), verbs=("create",), limit=1)) as lab,
        Wire(lab) as wire,
    ):
        wire.send(wire.request("POST", CLAIMS, JSON, body=body("c1")))
        answer = wire.answer()
        assert answer.code == code and json.loads(answer.body)["code"] == code
        assert answer.headers.get("retry-after") == ("3" if code == 429 else None)
        assert there(lab) == []
        wire.send(wire.request("POST", CLAIMS, JSON, body=body("c1")))
        assert wire.answer().code == 201
        assert there(lab) == ["c1"]


def test_a_slow_answer_comes_late_and_the_write_is_done_at_once() -> None:
    with served(Rule(Slow(Fixed(3.0)), verbs=("create",))) as lab, Wire(lab) as wire:
        before = time.monotonic()
        wire.send(wire.request("POST", CLAIMS, JSON, body=body("c1")))
        deadline = before + 2.5
        while there(lab) != ["c1"]:
            assert time.monotonic() < deadline
        assert wire.answer().code == 201
        assert time.monotonic() - before >= 3.0


def test_a_lost_answer_leaves_the_write_done() -> None:
    with served(Rule(Lost(), verbs=("create",), limit=1)) as lab:
        with Wire(lab) as wire:
            wire.send(wire.request("POST", CLAIMS, JSON, body=body("c1")))
            assert wire.ended()
        assert there(lab) == ["c1"]
        with Wire(lab) as wire:
            wire.send(wire.request("POST", CLAIMS, JSON, body=body("c1")))
            assert wire.answer().code == 409


def test_a_watch_is_cut_without_an_end() -> None:
    with served(Rule(Cut(Fixed(0.3)), verbs=("watch",))) as lab, Wire(lab) as wire:
        make(lab, "c1")  # before the watch is opened: what comes later may come after its end
        open_watch(wire, "resourceVersion=0")
        assert [each["type"] for each in events(wire.chunk())] == ["ADDED"]
        before = time.monotonic()
        assert wire.ended()
        assert time.monotonic() - before < 20


def test_a_watch_is_cut_in_the_middle_of_a_line() -> None:
    with served(Rule(Cut(mid_line=True))) as lab, Wire(lab) as wire:
        open_watch(wire)
        make(lab, "c1")
        promised = int(wire.reader.readline(), 16)
        got = wire.reader.read()
        assert got.startswith(b'{"type":"ADDED"') and len(got) < promised and b"\n" not in got


def test_a_half_open_watch_stays_open_and_says_nothing() -> None:
    with served(Rule(HalfOpen(Fixed(0.2)))) as lab, Wire(lab) as wire:
        make(lab, "c1")  # before the watch is opened: what comes later may come in its silence
        open_watch(wire, "resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=true")
        assert [each["type"] for each in events(wire.chunk())] == ["ADDED"]
        time.sleep(0.3)
        make(lab, "c2")
        wire.socket.settimeout(1.5)
        with pytest.raises(TimeoutError):
            wire.reader.readline()


def test_a_storm_of_410_strikes_watches_from_a_version_alone() -> None:
    with served(Rule(Expire())) as lab:
        make(lab, "c1")
        with Wire(lab) as wire:
            open_watch(wire, "resourceVersion=1")
            (told,) = events(wire.chunk())
            assert told["type"] == "ERROR" and told["object"]["code"] == 410
            assert wire.chunk() == b""
        with Wire(lab) as wire:
            open_watch(wire)
            assert [each["type"] for each in events(wire.chunk())] == ["ADDED"]


def test_others_are_left_alone() -> None:
    with served(Rule(Refuse(503), users=("ddsuser",))) as lab, Wire(lab) as wire:
        wire.send(wire.request("GET", CLAIMS))
        assert wire.answer().code == 200
        wire.token = lab.tokens["dds"]
        wire.send(wire.request("GET", CLAIMS))
        assert wire.answer().code == 503
        wire.send(wire.request("GET", "/version"))
        assert wire.answer().code == 200, "discovery and health are never struck"


def test_the_server_ends_in_time_with_faulty_watches_open() -> None:
    with served(Rule(HalfOpen(Fixed(0.1))), Rule(Slow(Fixed(30)), verbs=("get",))) as lab:
        wires = [Wire(lab) for _ in range(3)]
        for wire in wires[:2]:
            open_watch(wire)
        wires[2].send(wires[2].request("GET", f"{CLAIMS}/none"))
        time.sleep(0.2)
        before = time.monotonic()
    assert time.monotonic() - before < 20
    for wire in wires:
        wire.reader.close()
        wire.socket.close()
