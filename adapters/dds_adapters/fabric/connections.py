"""Connections to a manager: one pool, made anew when the certificate that it is trusted by is another.

A pool that is still in use when its certificate goes is closed by its last user. System roots are trusted when no certificate is
given, and never besides one that is.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from dds_adapters.fabric.provider import FabricDenied

KEPT_SECONDS = 30.0
"""A connection that nobody uses is kept so long for the next round."""


class _Pool:
    def __init__(self, certificate: str) -> None:
        self.certificate = certificate
        self.users = 0
        limits = httpx.Limits(max_connections=32, max_keepalive_connections=8, keepalive_expiry=KEPT_SECONDS)
        self.transport = httpx.HTTPTransport(verify=_trusting(certificate), trust_env=False, limits=limits)


class Connections:
    """Transports for `Http`; `certificate` gives the PEM to trust, "" for the system's roots. Over `given` when that is not None:
    it stays its owner's."""

    def __init__(self, certificate: Callable[[], str], given: httpx.BaseTransport | None = None) -> None:
        self._certificate = certificate
        self._given = given
        self._lock = threading.Lock()
        self._pool: _Pool | None = None

    @contextmanager
    def way(self) -> Iterator[httpx.BaseTransport]:
        """For one try. Raises FabricDenied for a certificate that is none."""
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
            pool, self._pool = self._pool, None
        if pool is not None and not pool.users:
            pool.transport.close()

    def _taken(self, certificate: str) -> _Pool:
        with self._lock:
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


def _trusting(certificate: str) -> ssl.SSLContext:
    """A context that checks chain and name, TLS 1.2 or newer."""
    try:
        context = ssl.create_default_context(cadata=certificate or None)
    except (ssl.SSLError, TypeError, ValueError):  # TypeError: text that is not ASCII
        raise FabricDenied(
            "the file certificate holds no certificate in PEM form",
            where="trust in the manager",
            fix="put the PEM text of the authority there, from its BEGIN line to its END line",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
