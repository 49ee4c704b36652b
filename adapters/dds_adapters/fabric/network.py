"""The network as the way to a manager: a request with its answer is bounded as a whole, whoever drips.

The library below bounds each read by itself, so that a manager (or what stands before it) that gives a byte now and then, or one
interim answer after the other, would keep whoever asks for ever. Here the seconds that a request carries become instants, and
what comes later is late. Nothing here retries, and nothing looks at the environment.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

CONNECTIONS = 64
"""As many as may ask side by side."""
KEPT_SECONDS = 30.0
"""A connection that nobody uses is kept so long for the next round."""


class Network(httpx.BaseTransport):
    """Connections to whom `trust` trusts. Raises httpx.TransportError."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=trust,
            max_connections=CONNECTIONS,
            keepalive_expiry=KEPT_SECONDS,
            network_backend=_Backend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        url = request.url
        asked = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions={"timeout": _instants(request.extensions["timeout"])},
        )
        with _told():
            found = self._pool.handle_request(asked)
        stream = found.extensions["network_stream"]
        if isinstance(stream, _Stream) and not stream.heard:
            stream.close()
            raise httpx.RemoteProtocolError("an answer was there before its question")
        return httpx.Response(found.status, headers=found.headers, stream=_Body(found))

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, found: httpcore.Response) -> None:
        self._found = found

    def __iter__(self) -> Iterator[bytes]:
        with _told():
            yield from self._found.iter_stream()

    def close(self) -> None:
        with _told():
            self._found.close()


@contextmanager
def _told() -> Iterator[None]:
    """Errors of the library below by the names that they have above it."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error


def _instants(seconds: dict[str, float]) -> dict[str, float]:
    """Until when each may take; to wait for a free connection is the pool's own affair, in seconds."""
    now = time.monotonic()
    return {what: many if what == "pool" else now + many for what, many in seconds.items()}


def _left(until: float | None, late: type[Exception]) -> float:
    left = (until if until is not None else 0.0) - time.monotonic()
    if left <= 0:
        raise late("it took too long as a whole")
    return left


class _Backend(httpcore.NetworkBackend):
    """Whose `timeout` is an instant on the steady clock."""

    def __init__(self) -> None:
        self._under = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._under.connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    """Whose `timeout` is an instant, too."""

    def __init__(self, under: httpcore.NetworkStream) -> None:
        self._under = under
        self.heard = False
        """Whether anything was read since something was written: what answers without it came with an answer before, one too
        many, and would be taken for the answer to another question."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.heard = True
        return self._under.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.heard = False
        self._under.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            left = _left(timeout, httpcore.ConnectTimeout)
        except httpcore.ConnectTimeout:
            self.close()
            raise
        return _Stream(self._under.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._under.get_extra_info(info)

    def close(self) -> None:
        self._under.close()
