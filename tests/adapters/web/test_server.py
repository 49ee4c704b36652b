"""The server over real sockets: its routes, what it refuses, and clients that take their time."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from dds_adapters.runtime.health import Health, Verdict
from dds_adapters.web.messages import Request, Response, Route, exposition, plain, probes
from dds_adapters.web.server import Server
from dds_core.errors import InputError
from tests.adapters.web.asking import ask, raw, running


def hello(request: Request) -> Response:
    return plain(200, f"hello {request.rest or 'you'}")


def failing(request: Request) -> Response:
    raise ValueError("password=hunter2")


def connections() -> int:
    """How many are being served."""
    return sum(thread.name == "web-connection" for thread in threading.enumerate())


ROUTES: dict[str, Route] = {"/hello": hello, "/hello/": hello, "/broken": failing}


def test_a_route_answers_and_the_connection_ends() -> None:
    with running(Server(ROUTES)) as server:
        said = ask(server, "/hello")
        assert (said.code, said.body) == (200, b"hello you")
        assert said.headers["connection"] == "close"
        assert said.headers["content-type"].startswith("text/plain")
        assert said.headers["server"] == "dds"
        assert ask(server, "/hello/log?verbose").body == b"hello log"


def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    with running(Server(ROUTES)) as server:
        assert server.host == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.port}"


def test_all_addresses_and_ipv6() -> None:
    with running(Server(ROUTES, "")) as server, socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
    with running(Server(ROUTES, "::1")) as server:
        assert server.url == f"http://[::1]:{server.port}"
        assert ask(server, "/hello").code == 200


def test_an_address_that_is_taken_is_told_in_one_line() -> None:
    with running(Server(ROUTES)) as server, pytest.raises(InputError) as told:
        Server(ROUTES, server.host, server.port)
    assert str(told.value).startswith(f"127.0.0.1:{server.port}: cannot listen (")


def test_head_has_the_headers_and_no_body() -> None:
    with running(Server(ROUTES)) as server:
        said = ask(server, "/hello", "HEAD")
        assert (said.code, said.body, said.headers["content-length"]) == (200, b"", "9")
        whole = raw(server, b"HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        assert whole.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(method: str) -> None:
    with running(Server(ROUTES)) as server:
        said = ask(server, "/hello", method, body=b"x" * 1000)
        assert (said.code, said.headers["allow"]) == (405, "GET, HEAD")


def test_other_paths_are_not_found() -> None:
    with running(Server(ROUTES)) as server:
        for path in ("/", "/hell", "/broken/x", "/../etc/passwd", "/hello%00"):
            assert ask(server, path).code == 404


def test_a_page_that_fails_shows_nothing_of_the_error(caplog: pytest.LogCaptureFixture) -> None:
    with running(Server(ROUTES)) as server:
        said = ask(server, "/broken")
        assert (said.code, said.body) == (500, b"500 internal error\n")
        assert ask(server, "/hello").code == 200
    assert caplog.messages == ["/broken failed with ValueError"]


def test_requests_that_are_none_are_refused() -> None:
    with running(Server(ROUTES)) as server:
        long = b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"
        assert raw(server, long).startswith(b"HTTP/1.1 414")
        assert raw(server, b"rubbish\r\n\r\n").startswith(b"HTTP/1.1 400")
        many = b"GET /hello HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(200)) + b"\r\n"
        assert raw(server, many).startswith(b"HTTP/1.1 431")
        assert b"a" * 100 not in raw(server, long)
        assert ask(server, "/hello").code == 200


def test_tokens_and_queries_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dds.web")
    with running(Server(ROUTES)) as server:
        ask(server, "/hello?token=hunter2", headers={"Authorization": "Bearer hunter2"})
        ask(server, "/missing?token=hunter2", "POST", headers={"Authorization": "Bearer hunter2"})
        raw(server, b"GET /hello?hunter2 rubbish hunter2\r\n\r\n")
    assert any("/hello" in message for message in caplog.messages)
    assert "hunter2" not in caplog.text


def test_an_answer_in_pieces_comes_piece_by_piece_and_ends_with_its_reader() -> None:
    """Who takes each piece in time may stay for longer than one answer may take."""
    go_on, closed = threading.Semaphore(2), threading.Event()

    def pieces() -> Iterator[bytes]:
        try:
            while go_on.acquire(timeout=10):
                yield b"piece\n"
        finally:
            closed.set()

    with running(Server({"/pieces": lambda _: Response(200, "text/plain", pieces())}, answering=1.0)) as server:
        with socket.create_connection((server.host, server.port), timeout=10) as sock, sock.makefile("rb") as answer:
            sock.sendall(b"GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n")
            head = list(iter(answer.readline, b"\r\n"))
            assert not any(line.lower().startswith(b"content-length") for line in head)
            for _ in range(6):
                assert answer.readline() == b"piece\n"
                time.sleep(0.3)
                go_on.release()
        go_on.release()
        go_on.release()
        assert closed.wait(5), "its reader has gone"
        assert raw(server, b"HEAD /pieces HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"\r\n\r\n")


def test_a_client_that_sends_byte_by_byte_is_cut_in_time() -> None:
    with running(Server(ROUTES, reading=0.5)) as server:
        began = time.monotonic()
        with socket.create_connection((server.host, server.port), timeout=10) as sock, pytest.raises(OSError):
            while time.monotonic() - began < 8:
                sock.sendall(b"G")
                time.sleep(0.1)
        assert time.monotonic() - began < 4


def test_a_client_that_does_not_read_is_cut_in_time() -> None:
    big = {"/big": lambda request: Response(200, "text/plain", b"x" * 50_000_000)}
    with ExitStack() as stack:
        server = stack.enter_context(running(Server(big, answering=0.5)))
        sock = stack.enter_context(socket.create_connection((server.host, server.port), timeout=10))
        sock.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        began = time.monotonic()
        assert sock.recv(15) == b"HTTP/1.1 200 OK"
        while connections():
            assert time.monotonic() - began < 5
            time.sleep(0.05)
        assert time.monotonic() - began > 0.4


def test_slow_clients_never_keep_others_waiting() -> None:
    with running(Server(ROUTES, most=4)) as server, ExitStack() as stack:
        for _ in range(20):
            sock = stack.enter_context(socket.create_connection((server.host, server.port), timeout=10))
            sock.sendall(b"GET /hello HT")
        began = time.monotonic()
        for _ in range(5):
            assert ask(server, "/hello").code == 200
        assert time.monotonic() - began < 5
        assert connections() <= 4


def test_slow_readers_of_a_big_page_never_keep_a_probe_waiting() -> None:
    routes = {**ROUTES, "/big": lambda request: plain(200, "x" * (64 << 20))}
    with running(Server(routes, most=4)) as server, ExitStack() as stack:
        for _ in range(8):
            sock = stack.enter_context(socket.create_connection((server.host, server.port), timeout=10))
            sock.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(10)
        began = time.monotonic()
        for _ in range(5):
            assert ask(server, "/hello").code == 200
        assert time.monotonic() - began < 5
        assert connections() <= 4


def test_no_more_answers_at_a_time_than_there_are_places() -> None:
    go, under_way = threading.Event(), threading.Semaphore(0)

    def slow(request: Request) -> Response:
        under_way.release()
        go.wait(10)
        return plain(200, "done")

    with running(Server({"/slow": slow}, most=2)) as server:
        codes: list[int] = []
        threads = [threading.Thread(target=lambda: codes.append(ask(server, "/slow").code)) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert under_way.acquire(timeout=5) and under_way.acquire(timeout=5)
        with pytest.raises(OSError):
            ask(server, "/slow")
        go.set()
        for thread in threads:
            thread.join(10)
        assert codes == [200, 200]


def test_stopping_lets_answers_under_way_end() -> None:
    under_way = threading.Event()

    def slow(request: Request) -> Response:
        under_way.set()
        time.sleep(0.3)
        return plain(200, "done")

    server = Server({"/slow": slow})
    server.start()
    bodies: list[bytes] = []
    thread = threading.Thread(target=lambda: bodies.append(ask(server, "/slow").body))
    thread.start()
    assert under_way.wait(5)
    server.stop(grace=5.0)
    thread.join(5)
    assert bodies == [b"done"]
    with pytest.raises(OSError):
        ask(server, "/slow")


def test_stopping_does_not_wait_for_who_says_nothing() -> None:
    server = Server(ROUTES)
    server.start()
    with socket.create_connection((server.host, server.port), timeout=10) as sock:
        sock.sendall(b"GET")
        time.sleep(0.1)
        began = time.monotonic()
        server.stop(grace=20.0)
        assert time.monotonic() - began < 10


def test_stopping_what_was_never_started() -> None:
    server = Server(ROUTES)
    server.stop()
    with pytest.raises(OSError):
        ask(server, "/hello")


def test_probes_over_http() -> None:
    away = [Verdict(True)]
    health = Health({"loop": lambda: Verdict(True)}, {"log": lambda: away[0]})
    with running(Server(probes("/livez", health.livez) | probes("/readyz", health.readyz))) as server:
        assert ask(server, "/readyz")[:2] == (200, b"ok")
        assert ask(server, "/readyz?verbose").body == b"[+]loop ok\n[+]log ok\nreadyz check passed\n"
        away[0] = Verdict(False, "the database does not answer")
        assert ask(server, "/readyz").code == 500
        assert b"[-]log failed: the database does not answer\n" in ask(server, "/readyz").body
        assert ask(server, "/readyz/loop").code == 200
        assert ask(server, "/readyz/log").code == 500
        assert ask(server, "/readyz/none").code == 404
        assert ask(server, "/readyz?exclude=log").code == 200
        assert ask(server, "/livez").code == 200


def test_metrics_over_http() -> None:
    registry = CollectorRegistry()
    count = Counter("things_total", "Things.", ["kind"], registry=registry)
    for number in range(100):
        count.labels(f"k{number}").inc(number)
    with running(Server({"/metrics": exposition(registry)})) as server:
        said = ask(server, "/metrics")
        families = {f.name: f for f in text_string_to_metric_families(said.body.decode())}
        assert said.headers["content-type"].startswith("text/plain; version=")
        assert any(sample.value == 42 and sample.labels == {"kind": "k42"} for sample in families["things"].samples)
        packed = ask(server, "/metrics", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == said.body
        newer = ask(server, "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        assert newer.headers["content-type"].startswith("application/openmetrics-text")
        assert newer.body.endswith(b"# EOF\n")
        assert ask(server, "/metrics", headers={"Accept": ";;q=x,,"}).code == 200
