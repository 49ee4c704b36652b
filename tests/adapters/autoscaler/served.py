"""A server over TLS for the tests, and the files that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dds_adapters.autoscaler.grpc_frontend import GrpcFrontend
from dds_adapters.autoscaler.server import Server, TlsFiles
from tests.support.certificates import Authority


@dataclass(frozen=True)
class Pki:
    """An authority that both sides believe, what it issued for them, and the server's files."""

    ca: Authority
    own: tuple[bytes, bytes]
    files: TlsFiles


def write(files: TlsFiles, server: tuple[bytes, bytes], ca: Authority) -> None:
    """Put a certificate and its key, and the authority of the clients, into the server's files."""
    files.certificate.write_bytes(server[0])
    files.key.write_bytes(server[1])
    files.client_ca.write_text(ca.pem)


@contextmanager
def serving(face: GrpcFrontend, tls: TlsFiles | None, address: str = "127.0.0.1:0") -> Iterator[Server]:
    server = Server(face, address, tls=tls)
    server.start()
    try:
        yield server
    finally:
        server.stop(0)
