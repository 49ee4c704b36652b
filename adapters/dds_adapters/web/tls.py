"""Certificates of dds's pages: files that are read again when they change, or one of dds's own, made anew before it ends. TLS 1.2
at least. No key is ever logged.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from dds_core.errors import InputError, install_hint

LOG = logging.getLogger("dds.web")

_FIX = "give a certificate and its key, in PEM, that this process may read"
_Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    """A certificate and its key in files, which may be renewed at any time (by cert-manager, with links). Call it for the context
    of a new connection."""

    def __init__(self, cert: Path, key: Path) -> None:
        """Raises InputError if they are unusable."""
        self._cert = cert
        self._key = key
        self._lock = threading.Lock()
        self._seen: _Stamp = ()
        try:
            self._seen = self._stamp()
            self._context = _context(cert, key)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise InputError(f"cannot be used ({_why(error)})", where=f"{cert} and {key}", fix=_FIX) from None

    def __call__(self) -> ssl.SSLContext:
        """The context for the files' content; for the content before while that is unusable (a file is just being changed)."""
        with self._lock:
            try:
                stamp = self._stamp()
                if stamp != self._seen:
                    self._context = _context(self._cert, self._key)
                    self._seen = stamp
                    LOG.info("the certificate %s was renewed", self._cert)
            except (OSError, ValueError) as error:
                LOG.warning("the new certificate %s cannot be used yet (%s)", self._cert, _why(error))
            return self._context

    def _stamp(self) -> _Stamp:
        return tuple((s.st_ino, s.st_mtime_ns, s.st_size) for s in (self._cert.stat(), self._key.stat()))


def certificate(cert: Path | str, key: Path | str, hosts: Iterable[str]) -> Callable[[], ssl.SSLContext]:
    """Gives the function that makes the context of each new connection: from these files, or with a certificate of dds's own."""
    if cert and key:
        return Certificate(Path(cert), Path(key))
    return OwnCertificate(tuple(filter(None, hosts)))


LIFE = timedelta(days=365)
"""Of a certificate of dds's own."""
EARLY = timedelta(days=30)
"""Before its end it is made anew."""


class OwnCertificate:
    """A certificate of dds's own, made anew in time. Call it for the context of a new connection."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        """Raises InputError if the package cryptography is not installed."""
        self._hosts = tuple(hosts)
        self._lock = threading.Lock()
        self._make()

    def __call__(self) -> ssl.SSLContext:
        with self._lock:
            if datetime.now(UTC) >= self._until:
                try:
                    self._make()
                    LOG.info("the own certificate was renewed")
                except OSError as error:
                    LOG.warning("the own certificate cannot be renewed yet (%s)", _why(error))
            return self._context

    def _make(self) -> None:
        self._context, self._until = self_signed(self._hosts), datetime.now(UTC) + LIFE - EARLY


def self_signed(hosts: Iterable[str] = ()) -> ssl.SSLContext:
    """A certificate of dds's own for one year, for clients that do not check it: better than none, and usual for metrics. Raises
    InputError if the package cryptography is not installed."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        fix = f"{install_hint('serve')}, or give a certificate and its key"
        raise InputError("the package cryptography is not installed", fix=fix) from None
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dds")])
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(("localhost", *hosts)):
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with tempfile.TemporaryDirectory(prefix="dds-web-") as folder:  # OpenSSL takes it only from a file
        path = Path(folder) / "own.pem"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(certificate.public_bytes(pem) + secret)
        return _context(path, path)


def _context(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(cert, key, password="")  # refuse a key with a password instead of asking for it
    return context


def _why(error: Exception) -> str:
    """Without the content of the files."""
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "not PEM").replace("_", " ").lower()
    return getattr(error, "strerror", None) or type(error).__name__
