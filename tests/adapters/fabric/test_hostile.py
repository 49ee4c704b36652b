"""Over real TLS: managers that speak HTTP as nobody should. Each call ends in time, in an error that says why, and nothing that
was not the answer to its question is taken for one."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dds_adapters.fabric import FabricAway, FabricSettings, FabricUnreachable, Outside, Provider, open_provider
from tests.adapters.fabric.rig import TENANT, TOKEN, folder
from tests.support.certificates import Authority

PAUSE = 0.1
LOGIN = b'{"access_token":"opaque","expires_in":300}'
NOBODY = b'{"data":{"machines":[]}}'
SOMEBODY = b'{"data":{"machines":[{"mach_uuid":"somebody"}]}}'

Play = Callable[[ssl.SSLSocket], object]
"""Answers one request."""


def whole(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


class Raw:
    """A server that plays what it is told after every request but the login; `asked` counts them, `connections` those made."""

    def __init__(self, context: ssl.SSLContext, play: Play, host: str) -> None:
        self._context, self._play = context, play
        self.asked = self.connections = 0
        self._socket = socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=16
        )
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as secured:
                file = secured.makefile("rb")
                while head := file.readline():
                    length = 0
                    while (line := file.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.partition(b":")[2])
                    file.read(length)
                    if TOKEN.encode() in head:
                        secured.sendall(whole(LOGIN))
                    else:
                        self.asked += 1
                        self._play(secured)
        except OSError:
            """The client has gone."""


@contextmanager
def asked(tmp_path: Path, play: Play, host: str = "127.0.0.1", seconds: float = 20.0) -> Iterator[tuple[Provider, Raw]]:
    """A client, and the server that it asks; `seconds` bound a call with all its tries."""
    authority = Authority.made()
    server = Raw(authority.server(tmp_path, host), play, host)
    settings = FabricSettings(
        "fm",
        f"https://{f'[{host}]' if ':' in host else host}:{server.port}",
        TENANT,
        credentials=folder(tmp_path / "credentials", certificate=authority.pem),
        fm_seconds=seconds,
    )
    provider = open_provider(settings, Outside(sleep=lambda seconds: None))
    try:
        yield provider, server
    finally:
        provider.close()
        server.close()


def dripping(first: bytes, then: bytes) -> Play:
    """What comes at once, and what comes byte by byte until nobody hears it."""

    def play(secured: ssl.SSLSocket) -> None:
        secured.sendall(first)
        for _ in range(200):
            secured.sendall(then)
            time.sleep(PAUSE)

    return play


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1", b"0"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\nX-A: ", b"a"),
    ],
    ids=["header", "interim answers", "body", "chunk", "trailer"],
)
def test_whatever_drips_is_given_up_in_time(tmp_path: Path, first: bytes, then: bytes) -> None:
    with asked(tmp_path, dripping(first, then), seconds=1.0) as (provider, _):
        began = time.monotonic()
        with pytest.raises(FabricUnreachable, match="no whole answer within 1 s"):
            provider.machines()
        assert time.monotonic() - began < 10


def test_who_stops_in_the_midst_does_not_get_the_time_again(tmp_path: Path) -> None:
    def play(secured: ssl.SSLSocket) -> None:
        secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
        time.sleep(3)
        secured.sendall(b" ")
        time.sleep(8)

    with asked(tmp_path, play, seconds=4.0) as (provider, _):
        began = time.monotonic()
        with pytest.raises(FabricUnreachable, match="no whole answer within 4 s"):
            provider.machines()
        assert time.monotonic() - began < 6.5


def test_an_answer_too_many_is_not_taken_for_that_to_the_next_question(tmp_path: Path) -> None:
    answers = [whole(NOBODY) + whole(SOMEBODY), whole(NOBODY)]
    with asked(tmp_path, lambda secured: secured.sendall(answers.pop(0) if len(answers) > 1 else answers[0])) as (
        provider,
        server,
    ):
        assert [provider.machines() for _ in range(3)] == [(), (), ()]
        assert server.connections == 2


@pytest.mark.parametrize(
    "rubbish",
    [
        NOBODY,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + NOBODY,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: a\r\n" * 20_000,
    ],
)
def test_what_is_not_http_is_said_to_be_so(tmp_path: Path, rubbish: bytes) -> None:
    def play(secured: ssl.SSLSocket) -> None:
        secured.sendall(rubbish)
        secured.shutdown(socket.SHUT_RDWR)

    with asked(tmp_path, play) as (provider, _), pytest.raises(FabricUnreachable) as caught:
        provider.machines()
    assert "the answer breaks off, or is not HTTP (RemoteProtocolError)" in str(caught.value)


def test_a_connection_that_breaks_after_the_question_is_no_fault_of_the_certificate(tmp_path: Path) -> None:
    """The question was sent: it is asked again, and nobody says that nothing was."""

    def play(secured: ssl.SSLSocket) -> None:
        with socket.socket(fileno=secured.detach()) as plain:
            plain.sendall(b"HTTP/1.1 503 not within TLS\r\n\r\n")

    with asked(tmp_path, play) as (provider, server):
        with pytest.raises(FabricUnreachable, match=r"the connection broke off \(\w+\)") as caught:
            provider.machines()
        assert not isinstance(caught.value, FabricAway)
        assert server.asked == 3


def test_a_connection_that_was_closed_between_questions_is_made_anew(tmp_path: Path) -> None:
    def play(secured: ssl.SSLSocket) -> None:
        secured.sendall(whole(NOBODY))
        secured.shutdown(socket.SHUT_RDWR)

    with asked(tmp_path, play) as (provider, server):
        for _ in range(3):
            assert provider.machines() == ()
            time.sleep(0.05)
        assert (server.asked, server.connections) == (3, 3)


def test_an_address_of_ipv6(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return  # this machine has no such address
    with asked(tmp_path, lambda secured: secured.sendall(whole(NOBODY)), "::1") as (provider, _):
        assert provider.machines() == ()
    settings = FabricSettings("fm", "https://[::1]:1", TENANT, credentials=tmp_path / "credentials")
    with pytest.raises(FabricAway, match=r"no connection to \[::1\]:1 comes about"):
        open_provider(settings).machines()
