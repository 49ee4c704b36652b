"""Certificates: what the files hold is what clients see, also after they were renewed."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from freezegun import freeze_time

from dds_adapters.web import tls
from dds_adapters.web.messages import plain
from dds_adapters.web.server import Server
from dds_adapters.web.tls import Certificate, OwnCertificate, self_signed
from dds_core.errors import InputError
from tests.adapters.web.asking import ask, running

ROUTES = {"/": lambda request: plain(200, "secret page")}


def issue(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a self-signed certificate for loopback and its key; gives both paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain_key = serialization.Encoding.PEM, serialization.NoEncryption()
    cert_path, key_path = folder / "tls.crt", folder / "tls.key"
    cert_path.write_bytes(certificate.public_bytes(pem))
    key_path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain_key))
    return cert_path, key_path


def trusting(cert: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=cert.read_text())


def test_pages_over_tls(tmp_path: Path) -> None:
    cert, key = issue(tmp_path, "one")
    with running(Server(ROUTES, tls=Certificate(cert, key))) as server:
        assert server.url.startswith("https://")
        assert ask(server, "/", context=trusting(cert)).body == b"secret page"


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    cert, key = issue(tmp_path, "one")
    before = trusting(cert)
    with running(Server(ROUTES, tls=Certificate(cert, key))) as server:
        assert ask(server, "/", context=before).code == 200
        issue(tmp_path, "two")
        assert ask(server, "/", context=trusting(cert)).code == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(server, "/", context=before)


def test_while_only_half_is_renewed_the_old_one_is_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = issue(tmp_path, "one")
    before = trusting(cert)
    new = tmp_path / "new"
    new.mkdir()
    new_cert, new_key = issue(new, "two")
    with running(Server(ROUTES, tls=Certificate(cert, key))) as server:
        cert.write_bytes(new_cert.read_bytes())
        assert ask(server, "/", context=before).code == 200
        assert "cannot be used yet (key values mismatch)" in caplog.text
        key.write_bytes(new_key.read_bytes())
        assert ask(server, "/", context=trusting(new_cert)).code == 200
        cert.unlink()
        assert ask(server, "/", context=trusting(new_cert)).code == 200


def test_links_that_move_are_followed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        issue(tmp_path / name, name)
    data = tmp_path / "..data"
    data.symlink_to("a")
    certificate = Certificate(data / "tls.crt", data / "tls.key")
    with running(Server(ROUTES, tls=certificate)) as server:
        assert ask(server, "/", context=trusting(tmp_path / "a" / "tls.crt")).code == 200
        fresh = tmp_path / "..fresh"
        fresh.symlink_to("b")
        fresh.replace(data)
        assert ask(server, "/", context=trusting(tmp_path / "b" / "tls.crt")).code == 200


def test_older_protocols_and_plain_text_get_nothing(tmp_path: Path) -> None:
    cert, key = issue(tmp_path, "one")
    assert Certificate(cert, key)().minimum_version == ssl.TLSVersion.TLSv1_2
    with running(Server(ROUTES, tls=Certificate(cert, key))) as server:
        with pytest.raises((OSError, ConnectionError)):
            ask(server, "/")
        assert ask(server, "/", context=trusting(cert)).code == 200


def test_a_client_that_never_shakes_hands_keeps_nobody_waiting(tmp_path: Path) -> None:
    cert, key = issue(tmp_path, "one")
    with running(Server(ROUTES, tls=Certificate(cert, key), most=2, reading=5.0)) as server:
        socks = [socket.create_connection((server.host, server.port), timeout=5) for _ in range(6)]
        assert ask(server, "/", context=trusting(cert)).code == 200
        for sock in socks:
            sock.close()


def test_many_at_a_time_over_tls(tmp_path: Path) -> None:
    cert, key = issue(tmp_path, "one")
    with running(Server(ROUTES, tls=Certificate(cert, key))) as server:
        codes: list[int] = []
        context = trusting(cert)
        threads = [
            threading.Thread(target=lambda: codes.append(ask(server, "/", context=context).code)) for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert codes == [200] * 12


@pytest.mark.parametrize("broken", ["missing", "rubbish", "swapped"])
def test_files_that_cannot_be_used_are_told_in_one_line(tmp_path: Path, broken: str) -> None:
    cert, key = issue(tmp_path, "one")
    if broken == "missing":
        key.unlink()
    elif broken == "rubbish":
        key.write_text("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n")
    else:
        cert, key = key, cert
    with pytest.raises(InputError) as told:
        Certificate(cert, key)
    assert "cannot be used (" in str(told.value) and "give a certificate and its key" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_a_certificate_of_our_own_is_made_anew_before_it_ends() -> None:
    with freeze_time("2026-01-01") as now:
        own = OwnCertificate()
        first = own()
        now.tick(timedelta(days=334))
        assert own() is first
        now.tick(timedelta(days=2))
        second = own()
        assert second is not first and own() is second


def test_a_certificate_of_our_own_that_nears_its_end_is_replaced_while_it_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client sees a certificate that is valid for longer than the time in which it is renewed early."""

    def shown() -> x509.Certificate:
        anyone = ssl._create_unverified_context()
        with anyone.wrap_socket(socket.create_connection((server.host, server.port), 5)) as secured:
            found = secured.getpeercert(binary_form=True)
        assert found is not None
        return x509.load_der_x509_certificate(found)

    with monkeypatch.context() as sooner:
        sooner.setattr(tls, "LIFE", tls.EARLY - timedelta(minutes=1))  # near its end from the first moment on
        own = OwnCertificate()
    with running(Server(ROUTES, tls=own)) as server:
        first = shown()
        assert first.not_valid_after_utc > datetime.now(UTC) + tls.EARLY
        assert shown() == first


def test_a_certificate_of_our_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    own = self_signed(["dds.example", "127.0.0.1", "::1"])
    trusting_all = ssl.create_default_context()
    trusting_all.check_hostname = False
    trusting_all.verify_mode = ssl.CERT_NONE
    with running(Server(ROUTES, tls=lambda: own)) as server:
        assert ask(server, "/", context=trusting_all).body == b"secret page"
