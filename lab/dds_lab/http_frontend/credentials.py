"""Users with bearer tokens, kubeconfigs, and a certificate authority with the server's certificate, all new at each start.

Tokens appear only in a kubeconfig. Keys never leave the process, except that the server's key is for an instant in a file that
only this user can read: OpenSSL takes it in no other way.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import secrets
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from dds_adapters.files import new_file
from dds_lab.api.access import Access
from dds_lab.api.requests import MASTERS, User

LIFETIME = timedelta(days=365)
ALWAYS = ("localhost", "127.0.0.1", "::1")
CLUSTER = "dds-lab"
ADMIN = User("admin", (MASTERS,))


@dataclass(frozen=True)
class Identity:
    """A server's TLS context, and the CA certificate for its clients (`ca`, PEM)."""

    context: ssl.SSLContext
    ca: bytes


def identity(hosts: Iterable[str] = (), *, always: Iterable[str] = ALWAYS, lifetime: timedelta = LIFETIME) -> Identity:
    """A new server certificate for these names and addresses (and `always`), signed by a new CA. With a negative `lifetime` it
    has expired."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

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


class Credentials:
    """A token for each user, by the name of the user's context in the kubeconfig."""

    def __init__(self, users: Mapping[str, User] | None = None) -> None:
        """`users` by context; by default only `admin`, with all permissions."""
        self.users = dict(users) if users is not None else {"admin": ADMIN}
        self.tokens = {context: secrets.token_urlsafe(24) for context in self.users}

    def register(self, access: Access) -> None:
        for context, user in self.users.items():
            access.register(self.tokens[context], user)


def write_kubeconfig(path: str | Path, url: str, tokens: Mapping[str, str], ca: bytes | None = None) -> None:
    """Write a new file (mode 0600, because of the tokens). The keys of `tokens` are the contexts' names; the first is current."""
    cluster: dict[str, str] = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    shape = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [{"name": name, "context": {"cluster": CLUSTER, "user": name}} for name in tokens],
        "current-context": next(iter(tokens), ""),
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_file(str(target), replace=True, mode=0o600) as file:
        file.write(yaml.safe_dump(shape, sort_keys=False).encode())
