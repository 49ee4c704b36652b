"""HTTP/1.1 as it comes over a socket: in pieces, in bundles, wrong, too large, slow."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from dds_lab.http_frontend import Served
from tests.lab.http_frontend.wire import CLAIMS, Wire
from tests.support.served import client_of, new_server, served


@pytest.fixture(scope="module")
def lab() -> Iterator[Served]:
    with served() as server:
        yield server


def alive(lab: Served) -> bool:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", "/version"))
        return wire.answer().code == 200


def claim(name: str, padding: int = 0) -> dict[str, object]:
    request = {"name": "r0", "exactly": {"deviceClassName": "gpu"}}
    meta = {"name": name, "namespace": "default", "annotations": {"x": "y" * padding}}
    return {"metadata": meta, "spec": {"devices": {"requests": [request]}}}


def test_a_connection_is_kept_for_the_next_request(lab: Served) -> None:
    with Wire(lab) as wire:
        for _ in range(3):
            wire.send(wire.request("GET", "/version"))
            answer = wire.answer()
            assert answer.code == 200 and json.loads(answer.body)["gitVersion"] == "v1.36.2"


def test_requests_in_one_piece_are_answered_in_order(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", "/version") + wire.request("GET", "/nowhere") + wire.request("GET", CLAIMS))
        assert [wire.answer().code for _ in range(3)] == [200, 404, 200]


def test_a_request_may_come_byte_by_byte(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in wire.request("GET", "/version"):
            wire.send(bytes([byte]))
        assert wire.answer().code == 200


def test_a_body_may_come_in_chunks(lab: Served) -> None:
    body = json.dumps({"metadata": {"name": "chunked"}}).encode()
    with Wire(lab) as wire:
        wire.send(
            wire.request("POST", "/api/v1/namespaces", "Content-Type: application/json", "Transfer-Encoding: chunked")
        )
        for part in (body[:7], body[7:]):
            wire.send(b"%x\r\n%b\r\n" % (len(part), part))
        wire.send(b"0\r\n\r\n")
        assert wire.answer().code == 201


def test_who_waits_to_be_told_to_go_on_is_told(lab: Served) -> None:
    body = json.dumps({"metadata": {"name": "expected"}}).encode()
    head = ("Content-Type: application/json", "Expect: 100-continue")
    with Wire(lab) as wire:
        request = wire.request("POST", "/api/v1/namespaces", *head, body=body)
        wire.send(request.removesuffix(body))
        assert wire.head().code == 100
        wire.send(body)
        assert wire.answer().code == 201


def test_a_head_has_no_body(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("HEAD", "/version") + wire.request("GET", "/version"))
        assert int(wire.head().headers["content-length"]) > 0
        assert wire.answer().code == 200


def test_a_head_of_a_watch_ends_at_once(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("HEAD", f"{CLAIMS}?watch=1") + wire.request("GET", "/version"))
        assert wire.head().code == 200
        assert wire.answer().code == 200


def test_an_old_client_gets_an_old_answer(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", f"{CLAIMS}?watch=1&timeoutSeconds=1", version="1.0"))
        head = wire.head()
        assert head.code == 200 and "transfer-encoding" not in head.headers
        assert wire.ended()


def test_a_client_that_says_close_is_closed(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", "/version", "Connection: close"))
        assert wire.answer().headers["connection"] == "close"
        assert wire.ended()


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"G\xc3\xa9T / HTTP/1.1\r\n\r\n",
        b"BREW /pot HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_no_http_gets_400_and_the_end(lab: Served, rubbish: bytes) -> None:
    with Wire(lab) as wire:
        wire.send(rubbish)
        assert wire.answer().code == 400
        assert wire.ended()
    assert alive(lab)


def test_other_protocols_are_not_spoken(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", "/version", "Connection: Upgrade", "Upgrade: websocket") + b"\x81\x05hello")
        assert wire.answer().code == 200
        assert wire.ended()
    assert alive(lab)


def test_a_head_without_end_is_cut(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(b"GET / HTTP/1.1\r\n")
        code = None
        try:
            for _ in range(40):
                wire.send(b"X-More: " + b"x" * 8_000 + b"\r\n")
                time.sleep(0.002)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            code = wire.answer().code
        except (ConnectionResetError, AssertionError):
            code = 431  # the answer was lost with the rest of what was sent
        assert code == 431
    assert alive(lab)


def test_a_body_that_is_too_large_is_a_status(lab: Served) -> None:
    with Wire(lab) as wire:
        body = b'{"x":"' + b"y" * (4 * 1024 * 1024) + b'"}'
        wire.send(wire.request("POST", "/api/v1/namespaces", "Content-Type: application/json", body=body))
        answer = wire.answer()
        assert answer.code == 413 and json.loads(answer.body)["reason"] == "RequestEntityTooLarge"
        wire.send(wire.request("GET", "/version"))
        assert wire.answer().code == 200


def test_too_many_requests_before_an_answer_are_too_many(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", f"{CLAIMS}?watch=1&timeoutSeconds=30"))
        assert wire.head().code == 200
        wire.send(wire.request("GET", "/version") * 100)
        assert wire.ended()
    assert alive(lab)


def test_what_a_client_sends_becomes_no_header(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", "/api/v1/namespaces/x%0d%0aSet-Cookie:%20a=b/pods?fieldValidation=%0d%0aX:y"))
        assert "set-cookie" not in wire.answer().headers


# -- watches -----------------------------------------------------------------------------------------------------


def test_a_watch_ends_in_good_order_and_the_connection_goes_on(lab: Served) -> None:
    with Wire(lab) as wire:
        wire.send(wire.request("GET", f"{CLAIMS}?watch=1&timeoutSeconds=1") + wire.request("GET", "/version"))
        head = wire.head()
        assert head.headers["transfer-encoding"] == "chunked" and head.headers["content-type"] == "application/json"
        assert wire.chunk() == b""
        assert wire.answer().code == 200


def test_events_come_as_they_are_made(lab: Served) -> None:
    with Wire(lab) as wire, Wire(lab) as writer:
        wire.send(wire.request("GET", f"{CLAIMS}?watch=1&resourceVersion=0&timeoutSeconds=30"))
        wire.head()
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
        for at in range(3):
            body = json.dumps(claim(f"e{at}")).encode()
            before = time.monotonic()
            writer.send(writer.request("POST", path, "Content-Type: application/json", body=body))
            event = json.loads(wire.chunk())
            assert time.monotonic() - before < 20
            assert event["type"] == "ADDED" and event["object"]["metadata"]["name"] == f"e{at}"
            assert writer.answer().code == 201


def test_a_client_that_goes_away_leaves_nothing(lab: Served) -> None:
    table = lab.server.store.table("resourceclaims.resource.k8s.io")
    for _ in range(5):
        with Wire(lab) as wire:
            wire.send(wire.request("GET", f"{CLAIMS}?watch=1&timeoutSeconds=3000"))
            assert wire.head().code == 200
            assert lab.run(lambda: len(table.subscribers)) > 0
    deadline = time.monotonic() + 5
    while lab.run(lambda: len(lab.face.connections) + len(table.subscribers)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_reader_that_reads_slowly_gets_all(lab: Served) -> None:
    server = new_server()
    client = client_of(server)
    for at in range(300):
        client.create("resourceclaims", claim(f"c{at}", 50_000))
    with served(server=server) as own, Wire(own) as wire:
        wire.send(wire.request("GET", f"{CLAIMS}?watch=1&timeoutSeconds=2"))
        wire.head()
        time.sleep(1)
        lines = b""
        while chunk := wire.chunk():
            lines += chunk
        assert [json.loads(line)["type"] for line in lines.splitlines()] == ["ADDED"] * 300


def test_a_reader_that_does_not_read_is_given_up() -> None:
    with served() as own, Wire(own) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.send(wire.request("GET", f"{CLAIMS}?watch=1&timeoutSeconds=3000"))
        wire.head()
        client = client_of(own.server)
        for at in range(500):
            own.run(lambda at=at: client.create("resourceclaims", claim(f"c{at}", 100_000)))  # type: ignore[misc]
        deadline = time.monotonic() + 10
        while own.run(lambda: len(own.face.connections)):
            assert time.monotonic() < deadline, "50 MB wait for a reader that does not read"
            time.sleep(0.05)
        assert alive(own)


def test_stopping_ends_watches_properly_and_quickly() -> None:
    ended: list[bytes] = []

    def read(wire: Wire) -> None:
        while chunk := wire.chunk():
            ended.append(chunk)
        ended.append(b"")

    with served() as own:
        wires = [Wire(own) for _ in range(20)]
        for wire in wires:
            wire.send(wire.request("GET", f"{CLAIMS}?watch=1&timeoutSeconds=3000"))
            assert wire.head().code == 200
        threads = [threading.Thread(target=read, args=(wire,)) for wire in wires]
        for thread in threads:
            thread.start()
        before = time.monotonic()
    assert time.monotonic() - before < 20
    for thread in threads:
        thread.join(5)
    assert ended == [b""] * 20
    for wire in wires:
        wire.reader.close()
        wire.socket.close()
