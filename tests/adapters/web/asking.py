"""Raw HTTP for tests: requests as they are written, answers as they come."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from typing import NamedTuple

from dds_adapters.web.server import Server


class Said(NamedTuple):
    """What came back; header names are in lower case."""

    code: int
    body: bytes
    headers: dict[str, str]


def ask(
    server: Server,
    path: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    *,
    body: bytes | None = None,
    context: ssl.SSLContext | None = None,
) -> Said:
    """One request on a connection of its own."""
    if context is None:
        connection = HTTPConnection(server.host, server.port, timeout=10)
    else:
        connection = HTTPSConnection(server.host, server.port, timeout=10, context=context)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return Said(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})
    finally:
        connection.close()


def raw(server: Server, data: bytes) -> bytes:
    """All that comes back for these bytes."""
    with socket.create_connection((server.host, server.port), timeout=10) as sock:
        sock.sendall(data)
        parts = []
        while part := sock.recv(65_536):
            parts.append(part)
    return b"".join(parts)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, until the block ends."""
    server.start()
    try:
        yield server
    finally:
        server.stop(grace=1.0)
