"""The HTTP frontend of the API server. It also applies wire faults to what clients see.

Everything runs on the thread of its loop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time as wall
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from dds_lab.api.access import Access
from dds_lab.api.paths import Query, place
from dds_lab.api.requests import Request, Response
from dds_lab.api.server import ApiServer
from dds_lab.api.status import ApiError
from dds_lab.api.watches import Stream
from dds_lab.faults.wire import NOTHING, Asked, Effects, FaultyStream, WireFaults
from dds_lab.http_frontend.connection import (
    LOOPBACK,
    Connection,
    Exposed,
    InThread,
    Listener,
    in_thread,
    is_loopback,
    names,
    run,
)
from dds_lab.http_frontend.credentials import Credentials, identity, write_kubeconfig
from dds_lab.time import RealTime, Time

__all__ = ["LOOPBACK", "Exposed", "HttpFrontend", "Served", "calm_collector", "run", "serving"]

LOG = logging.getLogger("dds.lab")

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


def effects_of(faults: WireFaults, access: Access, request: Request) -> Effects:
    """The effects of the faults on a request; none if it names no resource (discovery, health) or has no known user."""
    where = place(request.path)
    if where is None:
        return NOTHING
    try:
        user = access.authenticate(request.headers).name
    except ApiError:
        return NOTHING
    verb = _VERBS.get(request.method, "")
    version = ""
    if verb == "get":
        query = Query(request.query)
        if query.flag("watch"):
            verb, version = "watch", query.text("resourceVersion")
        elif not where.name:
            verb = "list"
    elif verb == "delete" and not where.name:
        verb = "deletecollection"
    return faults.for_request(Asked(user, verb, where.plural, version not in ("", "0")))


def refusal(error: ApiError) -> Response:
    headers = {"Content-Type": "application/json", **error.headers}
    return Response(error.code, msgspec.json.encode(error.status), headers)


class HttpFrontend(Listener):
    """Serves one API server over HTTP on a running loop."""

    def __init__(
        self, server: ApiServer, time: Time, credentials: Credentials, faults: WireFaults | None = None
    ) -> None:
        """Registers the credentials with the server. `faults` apply to all requests through this frontend."""
        super().__init__(time)
        self.server = server
        self.credentials = credentials
        self.faults = faults
        self.ca: bytes | None = None
        credentials.register(server.access)

    async def listen(self, host: str = LOOPBACK, port: int = 0, tls: bool = True) -> None:
        """Serve on host and port (0: any free port) and set `url` and `ca`.

        Raises Exposed for a host that other machines can reach, unless with TLS and tokens; InputError if it cannot listen.
        """
        _refuse_exposure(host, tls, self.credentials)
        own = identity(names(host)) if tls else None
        await self._open(host, port, own)
        self.ca = own.ca if own is not None else None

    def now(self) -> int:
        return self.server.clock.now()

    def kubeconfig(self, path: str | Path) -> None:
        """Write a kubeconfig with a context for each user."""
        write_kubeconfig(path, self.url, self.credentials.tokens, self.ca)

    def answer(self, connection: Connection, request: Request) -> None:
        """Pass the request to the server; an exception in it becomes a Status 500."""
        effects = effects_of(self.faults, self.server.access, request) if self.faults is not None else NOTHING
        outcome = refusal(effects.refused.error()) if effects.refused is not None else self._respond(request)
        if effects.lost:
            connection.cut()
        elif effects.slow:
            self.time.after(effects.slow, lambda: self._give(outcome, effects, connection))
        else:
            self._give(outcome, effects, connection)

    def _give(self, outcome: Response | Stream, effects: Effects, connection: Connection) -> None:
        """Send the answer, changed by the effects. The server's own state and answer are not affected."""
        if isinstance(outcome, Response):
            connection.reply(outcome)
        elif self.faults is not None and effects.watch.any:
            stream = FaultyStream(outcome, effects.watch, self.now, self.faults.random, connection.cut)
            connection.stream(outcome.code, outcome.headers, stream)
        else:
            connection.stream(outcome.code, outcome.headers, outcome)

    def _respond(self, request: Request) -> Response | Stream:
        try:
            return self.server.respond(request)
        except Exception:
            LOG.exception("the API server failed at %s %s", request.method, request.path)
            words = "Internal error occurred: the request could not be answered"
            return refusal(ApiError(500, "InternalError", words, {}))


class Served(InThread):
    """An `HttpFrontend` that runs in another thread."""

    def __init__(self, face: HttpFrontend) -> None:
        super().__init__(face)
        self.face = face
        self.server = face.server
        self.ca = face.ca
        self.tokens = face.credentials.tokens

    def kubeconfig(self, path: str | Path) -> str:
        """Write a kubeconfig; returns its path."""
        self.face.kubeconfig(path)
        return str(path)


@contextmanager
def serving(
    server: ApiServer,
    credentials: Credentials | None = None,
    *,
    tls: bool = True,
    host: str = LOOPBACK,
    port: int = 0,
    faults: WireFaults | None = None,
) -> Iterator[Served]:
    """Serve in a separate thread, on real time, until the block ends."""

    async def begin() -> HttpFrontend:
        time = RealTime(asyncio.get_running_loop(), lambda: wall.time_ns() // 1000, 0)
        face = HttpFrontend(server, time, credentials or Credentials(), faults)
        await face.listen(host, port, tls)
        return face

    with in_thread(begin) as face:
        yield Served(face)


def calm_collector() -> None:
    """Make garbage collections rare; for a process that only serves, after its objects are created. The store's objects have no
    cycles, and a collection over a million of them stops everything for half a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 200)


def _refuse_exposure(host: str, tls: bool, credentials: Credentials) -> None:
    if is_loopback(host) or (tls and credentials.tokens):
        return
    missing = "TLS" if not tls else "tokens"
    fix = f"listen on {LOOPBACK}, or serve with TLS and tokens"
    raise Exposed(f"not without {missing}: others than this machine could reach it", where=host, fix=fix)
