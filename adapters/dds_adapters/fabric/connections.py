"""Connections to a manager: one pool, replaced when the trusted certificate changes.

A replaced pool is closed by its last user. The system's roots are trusted only if no certificate is given.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from dds_adapters.fabric.provider import FabricAway, FabricDenied
from dds_adapters.proxies import Proxy, proxy_to
from dds_core.errors import InputError


def trusting(pem: str) -> ssl.SSLContext:
    """A TLS context that trusts the certificates of this PEM text and nothing else; "" means the system's roots. It checks chain
    and name, TLS 1.2 or newer.

    Like the reference driver, it trusts every given certificate directly, also an intermediate or server certificate, and does
    not require every extension of RFC 5280. Raises FabricDenied for a text without a certificate.
    """
    # The text around the certificates is for people and may have any letters.
    plain = pem.encode("ascii", "ignore").decode()
    try:
        if pem and not plain:
            raise ValueError("not a letter of PEM")
        context = ssl.create_default_context(cadata=plain or None)
    except (ssl.SSLError, ValueError):
        raise FabricDenied(
            "the file certificate holds no certificate in PEM form",
            where="trust in the manager",
            fix="put the PEM text of the authority there, from its BEGIN line to its END line",
        ) from None
    if pem:
        context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


CONNECTIONS = 64
"""The most connections at once."""
KEPT_SECONDS = 30.0
"""An unused connection is kept this long for the next round."""


class Network(httpx.BaseTransport):
    """An httpx transport that limits a request with its answer as a whole, and trusts as `trust` says. Raises
    httpx.TransportError.

    httpcore limits each read alone, so a manager (or a proxy) that sends a byte now and then, or one interim answer after the
    other, would block the caller for ever. Here the time limits of a request become instants. Nothing here retries. Of the
    environment it reads the proxy for https (`dds_adapters.proxies`)."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._trust = trust
        self._lock = threading.Lock()
        self._pools: dict[Proxy | None, httpcore.ConnectionPool] = {}

    def _pool(self, proxy: Proxy | None) -> httpcore.ConnectionPool:
        with self._lock:
            if proxy not in self._pools:
                way = proxy and httpcore.Proxy(
                    httpcore.URL(scheme="http", host=proxy.host, port=proxy.port), proxy.login
                )
                self._pools[proxy] = httpcore.ConnectionPool(
                    ssl_context=self._trust,
                    proxy=way,
                    max_connections=CONNECTIONS,
                    keepalive_expiry=KEPT_SECONDS,
                    network_backend=_Backend(),
                )
            return self._pools[proxy]

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
        try:
            proxy = proxy_to(url.host, url.port or 443) if url.scheme == "https" else None
        except InputError as error:
            raise FabricDenied(error.what, where=error.where, fix=error.fix) from None
        with _told():
            found = self._pool(proxy).handle_request(asked)
        stream = found.extensions["network_stream"]
        if isinstance(stream, _Stream) and not stream.heard:
            stream.close()
            raise httpx.RemoteProtocolError("an answer was there before its question")
        return httpx.Response(found.status, headers=found.headers, stream=_Body(found))

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


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
    """Turns httpcore's errors into httpx's errors of the same name."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError) as error:
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error


def _instants(seconds: dict[str, float]) -> dict[str, float]:
    """Time limits as instants; only the wait for a free connection stays in seconds, as the pool wants it."""
    now = time.monotonic()
    return {what: many if what == "pool" else now + many for what, many in seconds.items()}


def _left(until: float | None, late: type[Exception]) -> float:
    left = (until if until is not None else 0.0) - time.monotonic()
    if left <= 0:
        raise late("it took too long as a whole")
    return left


class _Backend(httpcore.NetworkBackend):
    """Its `timeout` is an instant of the monotonic clock."""

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
    """Its `timeout` is an instant, too."""

    def __init__(self, under: httpcore.NetworkStream) -> None:
        self._under = under
        self.heard = False
        """Whether anything was read since the last write. An answer without it was in the buffer before, one too many, and would
        be taken for the answer to another question."""

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


# -- connections -------------------------------------------------------------------------------------------------------


class _Pool:
    def __init__(self, certificate: str) -> None:
        self.certificate = certificate
        self.users = 0
        self.transport = Network(trusting(certificate))


class Connections:
    """Transports for `Http`; `certificate` gives the PEM to trust, "" for the system's roots. If `given` is not None it is always
    used, and its owner closes it."""

    def __init__(self, certificate: Callable[[], str], given: httpx.BaseTransport | None = None) -> None:
        self._certificate = certificate
        self._given = given
        self._lock = threading.Lock()
        self._pool: _Pool | None = None
        self._closed = False

    @contextmanager
    def way(self) -> Iterator[httpx.BaseTransport]:
        """The transport for one try. Raises FabricDenied for an unusable certificate, FabricAway after `close`."""
        if self._given is not None:
            yield self._given
            return
        pool = self._taken(self._certificate())
        try:
            yield pool.transport
        finally:
            with self._lock:
                pool.users -= 1
                unused = pool is not self._pool and not pool.users
            if unused:
                pool.transport.close()

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None and not pool.users:
            pool.transport.close()

    def _taken(self, certificate: str) -> _Pool:
        with self._lock:
            if self._closed:  # no one waits for this question any more
                raise FabricAway("nothing is asked any more", where="the fabric's client")
            before = self._pool
            if before is None or before.certificate != certificate:
                self._pool = _Pool(certificate)
            pool = self._pool
            assert pool is not None
            pool.users += 1
            unused = before is not None and before is not pool and not before.users
        if before is not None and unused:
            before.transport.close()
        return pool
