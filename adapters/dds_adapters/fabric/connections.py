"""Connections to a manager: one pool, made anew when the certificate that it is trusted by is another.

A pool that is still in use when its certificate goes is closed by its last user. System roots are trusted when no certificate is
given, and never besides one that is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from dds_adapters.fabric.network import Network
from dds_adapters.fabric.provider import FabricAway
from dds_adapters.fabric.trust import trusting


class _Pool:
    def __init__(self, certificate: str) -> None:
        self.certificate = certificate
        self.users = 0
        self.transport = Network(trusting(certificate))


class Connections:
    """Transports for `Http`; `certificate` gives the PEM to trust, "" for the system's roots. Over `given` when that is not None:
    it stays its owner's."""

    def __init__(self, certificate: Callable[[], str], given: httpx.BaseTransport | None = None) -> None:
        self._certificate = certificate
        self._given = given
        self._lock = threading.Lock()
        self._pool: _Pool | None = None
        self._closed = False

    @contextmanager
    def way(self) -> Iterator[httpx.BaseTransport]:
        """For one try. Raises FabricDenied for a certificate that is none, FabricAway once it is closed."""
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
            if self._closed:  # a question that nobody waits for any more
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
