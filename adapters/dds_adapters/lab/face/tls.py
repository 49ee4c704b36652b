"""A certificate authority and a server certificate of its own for each start; keys never leave the process.

(For an instant the server's key is a file that only this user can read: there is no other way to hand it to OpenSSL.)
"""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dds_core.errors import InputError

LIFETIME = timedelta(days=365)
ALWAYS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Identity:
    """What a server shows, and what a client needs to believe it (`ca`, PEM)."""

    context: ssl.SSLContext
    ca: bytes


def identity(hosts: Iterable[str] = (), *, always: Iterable[str] = ALWAYS, lifetime: timedelta = LIFETIME) -> Identity:
    """A new server certificate for these names and addresses (and `always`), signed by a new authority. One with a negative
    `lifetime` has expired."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID
    except ImportError:
        raise InputError("the package cryptography is not installed", fix="pip install 'dds-core[lab]'") from None
    now = datetime.now(UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def certificate(name: str, public: ec.EllipticCurvePublicKey, issuer: str) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + lifetime) - timedelta(days=1))
            .not_valid_after(now + lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    authority = (
        certificate("dds-lab-ca", ca_key.public_key(), "dds-lab-ca")
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys((*always, *hosts)):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    server = (
        certificate("dds-lab", key.public_key(), "dds-lab-ca")
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(_context(server.public_bytes(pem) + secret), authority.public_bytes(pem))


def _context(chain: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="dds-lab-") as folder:
        path = Path(folder) / "server.pem"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(chain)
        context.load_cert_chain(path)
    return context
