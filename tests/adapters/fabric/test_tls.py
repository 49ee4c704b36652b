"""Over real TLS: whom the client trusts, and what it says about those it does not. What is not trusted is sent nothing."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.fabric import FabricAway, FabricDenied, FabricError, FabricSettings, Outside, Provider, open_provider
from dds_core.errors import InputError
from dds_core.text import scrub
from tests.adapters.fabric.rig import TENANT, TOKEN, folder
from tests.support.certificates import Authority
from tests.support.tunnel import tunnels


class Server(ThreadingHTTPServer):
    """A manager without machines; `asked` are the paths that were asked for, `connections` how many were made."""

    daemon_threads = True
    context: ssl.SSLContext | None = None

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.connections = 0
        super().__init__(("127.0.0.1", 0), _Answering)

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        if self.context is not None:
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except OSError:  # the client does not like what it sees
                return
        with request:
            super().finish_request(request, client_address)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.asked.append(self.path)
        found: dict[str, Any] = {"data": {"machines": []}}
        if self.path.endswith(TOKEN):
            found = {"access_token": "opaque", "expires_in": 300}
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - the base class' words

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def served(context: ssl.SSLContext | None) -> Iterator[Server]:
    server = Server()
    server.context = context
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def client(tmp_path: Path, port: int, certificate: str = "", host: str = "127.0.0.1") -> Iterator[Provider]:
    settings = FabricSettings(
        "fm",
        f"https://{host}:{port}",
        TENANT,
        credentials=folder(tmp_path / "credentials", certificate=certificate),
        connect_seconds=5,
    )
    provider = open_provider(settings, Outside(sleep=lambda seconds: None))
    try:
        yield provider
    finally:
        provider.close()


def test_the_certificate_of_the_secret_is_trusted(tmp_path: Path) -> None:
    authority = Authority.made()
    with served(authority.server(tmp_path)) as server, client(tmp_path, server.port, authority.pem) as provider:
        assert provider.machines() == ()
        assert provider.machines() == ()
        assert (len(server.asked), server.connections) == (3, 1)


@pytest.mark.parametrize(
    ("host", "days", "known", "words", "mend"),
    [
        (
            "127.0.0.1",
            10,
            False,
            "self-signed certificate in certificate chain|unable to get local issuer certificate",
            "give the authority that signed it as `certificate`",
        ),
        ("127.0.0.1", -1, True, "certificate has expired", "renew the manager's certificate, or compare the clocks"),
        ("fabric.example", 10, True, "IP address mismatch", "ask at a name that it is made for"),
        ("10.1.2.3", 10, True, "IP address mismatch", "ask at a name that it is made for"),
    ],
)
def test_a_certificate_that_is_not_trusted(
    tmp_path: Path, host: str, days: int, known: bool, words: str, mend: str
) -> None:
    authority = Authority.made()
    pem = authority.pem if known else Authority.made("another").pem
    with served(authority.server(tmp_path, host, days)) as server, client(tmp_path, server.port, pem) as provider:
        with pytest.raises(FabricAway, match=f"the manager's certificate is not trusted: .*({words})") as caught:
            provider.machines()
        assert f"nothing was sent; {mend}" in str(caught.value)
        assert server.asked == []
        assert server.connections == 1  # another try would see the same


def test_an_authority_that_the_system_does_not_know(tmp_path: Path) -> None:
    with served(Authority.made().server(tmp_path)) as server, client(tmp_path, server.port) as provider:
        with pytest.raises(FabricAway, match="the manager's certificate is not trusted"):
            provider.machines()
        assert server.asked == []


def test_another_name_than_the_certificates(tmp_path: Path) -> None:
    authority = Authority.made()
    with (
        served(authority.server(tmp_path)) as server,
        client(tmp_path, server.port, authority.pem, "localhost") as provider,
    ):
        with pytest.raises(FabricAway, match="Hostname mismatch"):
            provider.machines()
        assert server.asked == []


def test_a_port_that_speaks_no_tls(tmp_path: Path) -> None:
    with served(None) as server, client(tmp_path, server.port, Authority.made().pem) as provider:
        with pytest.raises(FabricAway, match=r"no TLS connection comes about: .*https is spoken at this address"):
            provider.machines()
        assert server.asked == []


def test_http_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with served(None) as server:
        settings = FabricSettings("fm", f"http://127.0.0.1:{server.port}", TENANT, credentials=folder(tmp_path / "c"))
        with pytest.raises(InputError, match="fabric endpoint: is http, on which the password would be sent"):
            open_provider(settings)
        assert server.connections == 0


def test_a_port_where_nobody_listens(tmp_path: Path) -> None:
    with served(None) as server:
        port = server.port
    with (
        client(tmp_path, port, Authority.made().pem) as provider,
        pytest.raises(FabricAway, match=rf"no connection to [\w.]+:{port} comes about"),
    ):
        provider.machines()


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    for text in ("no certificate", "-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n", "ü"):
        with client(tmp_path, 1, text) as provider:
            with pytest.raises(FabricDenied, match="the file certificate holds no certificate in PEM form") as caught:
                provider.machines()
            assert "Zm9v" not in str(caught.value)
            assert scrub(str(caught.value)) == str(caught.value), "as it stands in the log"


def test_once_it_is_closed_nothing_is_asked_any_more(tmp_path: Path) -> None:
    """By a question that was left behind, between two tries of it."""
    authority = Authority.made()
    with served(authority.server(tmp_path)) as server:
        with client(tmp_path, server.port, authority.pem) as provider:
            provider.machines()
        with pytest.raises(FabricAway, match="nothing is asked any more"):
            provider.machines()
        assert len(server.asked) == 2


def test_a_certificate_that_is_given_is_trusted_whatever_it_is(tmp_path: Path) -> None:
    """The reference driver trusts what it is given: also the server's own certificate, and text around it."""
    authority = Authority.made()
    with served(authority.server(tmp_path)) as server:
        shown = ssl.get_server_certificate(("127.0.0.1", server.port))
        for pem in (shown, authority.pem.replace("\n", "\r\n"), f"\ufeff# Prüfstelle\n{authority.pem}"):
            with client(tmp_path, server.port, pem) as provider:
                assert provider.machines() == ()
    with (
        served(Authority.made().server(tmp_path)) as server,
        client(tmp_path, server.port, shown) as provider,
        pytest.raises(FabricAway, match="the manager's certificate is not trusted"),
    ):
        provider.machines()


def test_d10_a_new_certificate_counts_from_the_next_call_on(tmp_path: Path) -> None:
    old, new = Authority.made("old"), Authority.made("new")
    with served(old.server(tmp_path)) as server, client(tmp_path, server.port, old.pem) as provider:
        provider.machines()
        server.context = new.server(tmp_path)
        folder(tmp_path / "credentials", certificate=new.pem)
        assert provider.machines() == ()
        server.context = old.server(tmp_path)
        folder(tmp_path / "credentials", certificate=old.pem)
        assert provider.machines() == ()
        assert server.connections == 3


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
def test_a_proxy_sees_a_name_and_a_port_and_the_tls_is_the_managers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    authority = Authority.made()
    with served(authority.server(tmp_path)) as server, tunnels("dds:a secret") as proxy:
        monkeypatch.setenv(name, proxy.url.replace("//", "//dds:a%20secret@"))
        with client(tmp_path, server.port, authority.pem) as provider:
            assert provider.machines() == provider.machines() == ()
        assert (proxy.asked, len(server.asked)) == ([f"127.0.0.1:{server.port}"], 3)
        another = client(tmp_path, server.port, Authority.made("another").pem)
        with another as provider, pytest.raises(FabricAway, match="the manager's certificate is not trusted"):
            provider.machines()


@pytest.mark.parametrize(
    "names", [{"ALL_PROXY": ""}, {"HTTP_PROXY": ""}, {"HTTPS_PROXY": "", "NO_PROXY": "127.0.0.0/8"}]
)
def test_proxies_for_others_are_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: dict[str, str]
) -> None:
    authority = Authority.made()
    with served(authority.server(tmp_path)) as server, tunnels() as proxy:
        for name, value in names.items():
            monkeypatch.setenv(name, value or proxy.url)
        with client(tmp_path, server.port, authority.pem) as provider:
            assert provider.machines() == ()
        assert proxy.asked == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://dds:wrong@127.0.0.1:{port}", "the proxy opens no way to .* \\(407 Proxy Authentication Required\\)"),
        ("socks5://dds:wrong@127.0.0.1:{port}", "HTTPS_PROXY: is not http://host:port"),
        ("http://dds:wrong@127.0.0.1:1", "no connection to .* comes about"),
    ],
)
def test_a_proxy_that_does_not_help_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    authority = Authority.made()
    with served(authority.server(tmp_path)) as server, tunnels("dds:right") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", url.format(port=proxy.server_address[1]))
        with client(tmp_path, server.port, authority.pem) as provider, pytest.raises(FabricError, match=words) as told:
            provider.machines()
        assert "wrong" not in str(told.value)
        assert server.asked == []


def test_authorities_of_the_whole_image_are_trusted_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.made()
    (tmp_path / "bundle.pem").write_text(authority.pem, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.pem"))
    with served(authority.server(tmp_path)) as server, client(tmp_path, server.port) as provider:
        assert provider.machines() == ()


def test_a_certificate_that_changes_while_others_ask_breaks_nobody_off(tmp_path: Path) -> None:
    authority, another = Authority.made(), Authority.made("another")
    with (
        served(authority.server(tmp_path)) as server,
        client(tmp_path, server.port, authority.pem) as provider,
        ThreadPoolExecutor(4) as pool,
    ):
        asking = [pool.submit(lambda: [provider.machines() for _ in range(25)]) for _ in range(4)]
        for turn in range(20):
            written = tmp_path / "credentials" / "certificate.new"
            written.write_text(authority.pem + another.pem * (turn % 2))
            written.replace(tmp_path / "credentials" / "certificate")
            provider.machines()
        assert all(one.result() == [()] * 25 for one in asking)
