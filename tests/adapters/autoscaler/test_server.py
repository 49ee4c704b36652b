"""Who is let in, what the server says of its files, what a slow provider costs, and a server that comes again."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives import serialization

from dds_adapters.autoscaler.grpc_frontend import GrpcFrontend
from dds_adapters.autoscaler.server import Server, TlsFiles
from dds_core.errors import InputError
from tests.adapters.autoscaler.caller import Caller, ask, calling
from tests.adapters.autoscaler.served import Pki, serving, write
from tests.adapters.autoscaler.shelf import Shelf
from tests.support.certificates import Authority

CODE = grpc.StatusCode
INTAKE = ask.OfGroup(id="intake")


# -- who is let in ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def port(shelf: Shelf, pki: Pki) -> Iterator[int]:
    with serving(GrpcFrontend(shelf), pki.files) as server:
        yield server.port


def test_who_has_no_certificate_of_the_authority_is_not_let_in(port: int, pki: Pki, shelf: Shelf) -> None:
    stranger = Authority.made("a stranger")
    outside = {
        "plain text": calling(port),
        "no certificate": calling(port, pki.ca),
        "another's certificate": calling(port, pki.ca, stranger.issued()),
        "certificate that has ended": calling(port, pki.ca, pki.ca.issued(days=-1)),
        "server not believed": calling(port, stranger, pki.own),
    }
    for who, connection in outside.items():
        with connection as caller:
            assert caller.refused("Refresh")[0] is CODE.UNAVAILABLE, who
    assert shelf.refreshed == 0
    with calling(port, pki.ca, pki.own) as caller:
        caller.Refresh()
    assert shelf.refreshed == 1


def test_noise_on_the_port_does_no_harm(port: int, pki: Pki) -> None:
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 10_000, b""):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(noise)
    with calling(port, pki.ca, pki.own) as caller:
        assert caller.NodeGroups().groups


def test_renewed_files_are_used_by_new_connections(port: int, pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    newer = Authority.made("a newer authority")
    write(pki.files, newer.issued(), newer)
    with calling(port, newer, newer.issued()) as caller:
        assert caller.NodeGroups().groups
    with calling(port, pki.ca, pki.own) as caller:
        assert caller.refused("NodeGroups")[0] is CODE.UNAVAILABLE
    pki.files.key.write_bytes(b"half of a")
    with caplog.at_level(logging.WARNING), calling(port, newer, newer.issued()) as caller:
        assert caller.NodeGroups().groups
    assert caplog.records[0].getMessage() == (
        f"the last certificate is kept: {pki.files.key}: holds no usable private key; give a key in PEM"
    )


def test_on_loopback_plain_text_may_be_had(shelf: Shelf) -> None:
    for address in ("127.0.0.1:0", "localhost:0"):
        with serving(GrpcFrontend(shelf), None, address) as server, calling(server.port) as caller:
            assert caller.NodeGroups().groups


# -- what it is given ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "10.1.2.3:8086", "example.invalid:8086"])
def test_beyond_loopback_only_with_certificates(shelf: Shelf, address: str) -> None:
    with pytest.raises(InputError) as refused:
        Server(GrpcFrontend(shelf), address)
    assert str(refused.value) == (
        f"{address}: without TLS anyone who reaches this address could remove servers; "
        "give a certificate, its key and the CA of the clients' certificates, or a loopback address"
    )


@pytest.mark.parametrize(
    "address",
    ["", "8086", ":8086", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:²", "::1:8086", "[]:1"],
)
def test_what_is_no_address(shelf: Shelf, address: str) -> None:
    with pytest.raises(InputError, match="is no address to listen on; write HOST:PORT"):
        Server(GrpcFrontend(shelf), address)


def test_an_address_that_is_taken(shelf: Shelf, pki: Pki) -> None:
    with serving(GrpcFrontend(shelf), pki.files) as server, pytest.raises(InputError) as refused:
        Server(GrpcFrontend(shelf), f"127.0.0.1:{server.port}", tls=pki.files).start()
    assert str(refused.value).startswith(f"127.0.0.1:{server.port}: cannot listen; choose another address")


@pytest.mark.parametrize("which", ["certificate", "key", "client_ca"])
def test_files_that_cannot_be_used(shelf: Shelf, pki: Pki, tmp_path: Path, which: str) -> None:
    def said(files: TlsFiles) -> str:
        with pytest.raises(InputError) as refused:
            Server(GrpcFrontend(shelf), "127.0.0.1:0", tls=files)
        return str(refused.value)

    assert said(replace(pki.files, **{which: tmp_path / "none"})).startswith(
        f"{tmp_path / 'none'}: cannot be read (No such"
    )
    assert said(replace(pki.files, **{which: tmp_path})).startswith(f"{tmp_path}: cannot be read (Is a directory)")
    bad = tmp_path / "bad.pem"
    what = "holds no usable private key" if which == "key" else "holds no usable certificate"
    for content in (b"", b"\xff\0", b"-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n", b"s3cret"):
        bad.write_bytes(content)
        assert said(replace(pki.files, **{which: bad})).startswith(f"{bad}: {what}; give ")


def test_a_key_of_another_certificate_or_with_a_password(shelf: Shelf, pki: Pki) -> None:
    _, other = pki.ca.issued()
    pki.files.key.write_bytes(other)
    with pytest.raises(InputError, match="the key is not that of the certificate; give the key that it was issued for"):
        Server(GrpcFrontend(shelf), "127.0.0.1:0", tls=pki.files)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.load_pem_private_key(other, None).private_bytes(
        pem, form, serialization.BestAvailableEncryption(b"s3cret")
    )
    pki.files.key.write_bytes(locked)
    with pytest.raises(InputError, match="the key has a password; give it without one"):
        Server(GrpcFrontend(shelf), "127.0.0.1:0", tls=pki.files)


# -- a slow provider -------------------------------------------------------------------------------------------------------


@contextmanager
def held(shelf: Shelf, name: str) -> Iterator[threading.Event]:
    """Let a method of the provider hang until the end of the block; the event is set when it was called."""
    called, go_on = threading.Event(), threading.Event()

    def wait(method: str) -> None:
        if method == name:
            called.set()
            assert go_on.wait(30)

    shelf.before = wait
    try:
        yield called
    finally:
        shelf.before = lambda method: None
        go_on.set()


def test_while_a_refresh_hangs_all_else_is_answered(ca: Caller, shelf: Shelf) -> None:
    with held(shelf, "refresh") as called:
        for _ in range(3):  # a caller tries again and again
            assert ca.refused("Refresh") == (
                CODE.UNAVAILABLE,
                "the refresh takes longer than 0.25 seconds; it goes on, ask again",
            )
        assert called.is_set()
        hanging = [one for one in threading.enumerate() if one.name == "autoscaler-refresh"]
        assert len(hanging) == 1
        assert ca.NodeGroupTargetSize(INTAKE).size == 4
        ca.NodeGroupIncreaseSize(ask.Change(id="intake", delta=1))
        assert ca.NodeGroupTargetSize(INTAKE).size == 5
    hanging[0].join(5)
    assert shelf.refreshed == 1
    ca.Refresh()
    assert shelf.refreshed == 2


def test_a_change_whose_caller_gave_up_is_made_once_and_before_the_server_ends(pki: Pki, shelf: Shelf) -> None:
    """The target tells the caller what became of it. gRPC counts such a call as ended, while its change still runs."""
    with ExitStack() as change, serving(GrpcFrontend(shelf), pki.files) as server:
        with calling(server.port, pki.ca, pki.own) as caller:
            called = change.enter_context(held(shelf, "increase"))
            call = caller.begun("NodeGroupIncreaseSize", ask.Change(id="intake", delta=1))
            assert called.wait(20)
            call.cancel()
            assert caller.NodeGroupTargetSize(INTAKE).size == 4
        ending = threading.Thread(target=server.stop, args=(30,))
        ending.start()
        ending.join(0.5)
        assert ending.is_alive()
        change.close()
        ending.join(20)
        assert not ending.is_alive()
        view = shelf.view().group("intake")
        assert view is not None
        assert view.target == 5


def test_calls_from_many_threads_are_each_counted(ca: Caller) -> None:
    def step(_: int) -> int:
        ca.NodeGroupIncreaseSize(ask.Change(id="intake", delta=1))
        seen = ca.NodeGroupTargetSize(INTAKE).size
        ca.NodeGroupDecreaseTargetSize(ask.Change(id="intake", delta=-1))
        return int(seen)

    with ThreadPoolExecutor(5) as pool:
        assert set(pool.map(step, range(60))) <= set(range(5, 10))
    assert ca.NodeGroupTargetSize(INTAKE).size == 4


# -- a server that comes again ---------------------------------------------------------------------------------------------


def test_after_a_restart_the_same_caller_goes_on(shelf: Shelf, pki: Pki) -> None:
    with serving(GrpcFrontend(shelf), pki.files) as first, calling(first.port, pki.ca, pki.own) as caller:
        caller.NodeGroupIncreaseSize(ask.Change(id="intake", delta=1))
        first.stop(0)
        assert caller.refused("Refresh")[0] is CODE.UNAVAILABLE
        with serving(GrpcFrontend(shelf), pki.files, f"127.0.0.1:{first.port}"):
            grpc.channel_ready_future(caller.channel).result(20)
            assert caller.NodeGroupTargetSize(INTAKE).size == 5
