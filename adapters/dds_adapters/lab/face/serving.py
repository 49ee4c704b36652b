"""The face: listens, lets the API server answer, and ends in good order. Everything runs on the thread of its loop."""

import asyncio
import gc
import importlib
import ipaddress
import logging
import socket
import ssl
import threading
import time as wall
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dds_adapters.lab.api import status
from dds_adapters.lab.api.requests import Request, Response
from dds_adapters.lab.api.server import ApiServer
from dds_adapters.lab.api.watches import Stream
from dds_adapters.lab.face.connection import Connection
from dds_adapters.lab.face.credentials import Credentials
from dds_adapters.lab.face.faulty import deliver, effects_of, refusal
from dds_adapters.lab.face.kubeconfig import write_kubeconfig
from dds_adapters.lab.face.pulse import Pulse
from dds_adapters.lab.face.tls import Identity, identity
from dds_adapters.lab.faults.wire import NOTHING, FaultPlan
from dds_adapters.lab.time import RealTime, Time
from dds_core.errors import InputError

LOG = logging.getLogger("dds.lab")
LOOPBACK = "127.0.0.1"
IDLE_S = 120.0
"""A connection on which nothing happened for so long is closed."""
GRACE_S = 2.0

_Found = TypeVar("_Found")


class Exposed(InputError):
    """The lab would be open to others than this machine without TLS or without tokens."""


class Face:
    """HTTP over one API server, on a running loop."""

    def __init__(
        self, server: ApiServer, time: Time, credentials: Credentials, faults: FaultPlan | None = None
    ) -> None:
        """Registers the credentials with the server. `faults` strike those who come through this face."""
        self.server = server
        self.time = time
        self.credentials = credentials
        self.faults = faults
        self.loop = asyncio.get_running_loop()
        self.pulse = Pulse(self.loop)
        self.connections: set[Connection] = set()
        self.stopping = False
        self.url = ""
        self.ca: bytes | None = None
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.Handle | None = None
        self._empty = asyncio.Event()
        credentials.register(server.access)

    async def listen(self, host: str = LOOPBACK, port: int = 0, tls: bool = True) -> None:
        """Serve on host and port (0: any that is free); `url` and `ca` then say how to get there.

        Raises Exposed for a host that others can reach, unless with TLS and tokens; InputError when it cannot be had.
        """
        _refuse_exposure(host, tls, self.credentials)
        own: Identity | None = identity(_names(host)) if tls else None
        context: ssl.SSLContext | None = own.context if own is not None else None
        try:
            self._listener = await self.loop.create_server(
                lambda: Connection(self), host, port, ssl=context, backlog=512, start_serving=True
            )
        except OSError as error:
            fix = "choose another host or port"
            raise InputError(f"cannot listen ({error.strerror or error})", where=f"{host}:{port}", fix=fix) from error
        bound = self._listener.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{shown}:{bound}"
        self.ca = own.ca if own is not None else None
        self._sweep = self.loop.call_later(IDLE_S / 4, self._close_idle)

    def kubeconfig(self, path: str | Path) -> None:
        """Write a kubeconfig with a context for each user."""
        write_kubeconfig(path, self.url, self.credentials.tokens, self.ca)

    async def stop(self, grace: float = GRACE_S) -> None:
        """End: no new connection, watches get a proper end, answers under way are finished; what is left after `grace`
        seconds is cut."""
        self.stopping = True
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.stop()
        if self.connections:
            self._empty.clear()
            try:
                await asyncio.wait_for(self._empty.wait(), grace)
            except TimeoutError:
                for connection in list(self.connections):
                    connection.give_up()
                await asyncio.sleep(0)

    # -- what connections ask ------------------------------------------------------------------------------------

    def answer(self, connection: Connection, request: Request) -> None:
        """Let the server answer; whatever goes wrong inside it becomes a Status 500."""
        effects = effects_of(self.faults, self.server.access, request) if self.faults is not None else NOTHING
        outcome = refusal(effects.refused.error()) if effects.refused is not None else self._respond(request)
        if effects is not NOTHING and self.faults is not None:
            deliver(outcome, effects, connection, self.faults, self.server.clock.now, self.time)
        elif isinstance(outcome, Response):
            connection.reply(outcome)
        else:
            connection.stream(outcome.code, outcome.headers, outcome)

    def _respond(self, request: Request) -> Response | Stream:
        try:
            return self.server.respond(request)
        except Exception:
            LOG.exception("the API server failed at %s %s", request.method, request.path)
            return _broken()

    def gone(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def _close_idle(self) -> None:
        before = self.loop.time() - IDLE_S
        for connection in list(self.connections):
            if connection.idle_since(before):
                connection.close()
        self._sweep = self.loop.call_later(IDLE_S / 4, self._close_idle)


class Served:
    """A face that runs in another thread."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self.server = face.server
        self.url = face.url
        self.ca = face.ca
        self.tokens = face.credentials.tokens

    def kubeconfig(self, path: str | Path) -> str:
        """Write a kubeconfig; gives its path as text."""
        self.face.kubeconfig(path)
        return str(path)

    def run(self, call: Callable[[], _Found]) -> _Found:
        """Call in the server's thread (the only one that may touch the server) and wait for what comes of it."""
        done: Future[_Found] = Future()

        def calling() -> None:
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)

        self.face.loop.call_soon_threadsafe(calling)
        return done.result(timeout=30)


@contextmanager
def serving(
    server: ApiServer,
    credentials: Credentials | None = None,
    *,
    tls: bool = True,
    host: str = LOOPBACK,
    port: int = 0,
    faults: FaultPlan | None = None,
) -> Iterator[Served]:
    """Serve in a thread of its own, on real time, until the block ends."""
    ready: Future[Face] = Future()
    stop: list[Callable[[], object]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(over.set))
        try:
            face = Face(server, RealTime(loop, lambda: wall.time_ns() // 1000, 0), credentials or Credentials(), faults)
            await face.listen(host, port, tls)
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(face)
        await over.wait()
        await face.stop()

    thread = threading.Thread(target=lambda: run(main), name="lab-face", daemon=True)
    thread.start()
    try:
        yield Served(ready.result(timeout=30))
    finally:
        if stop:
            stop[0]()
        thread.join(timeout=30)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run on uvloop where it is installed, which is about twice as fast, else on asyncio's own loop."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = None

    async def to_the_last() -> None:
        await main()
        await asyncio.sleep(0.02)  # what was closed is gone a turn later, and uvloop does not close before that

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(to_the_last())


def calm_collector() -> None:
    """For a process that does nothing but serve, once its objects are made: the store's objects hold no cycles, and to look
    for some among a million of them stops everything for half a second at a time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 200)


def _refuse_exposure(host: str, tls: bool, credentials: Credentials) -> None:
    if _is_loopback(host) or (tls and credentials.tokens):
        return
    missing = "TLS" if not tls else "tokens"
    fix = f"listen on {LOOPBACK}, or serve with TLS and tokens"
    raise Exposed(f"not without {missing}: others than this machine could reach it", where=host, fix=fix)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names(host: str) -> list[str]:
    """What clients may call the server by; where it listens everywhere, by the machine's name too."""
    return [host, socket.gethostname()] if host in ("0.0.0.0", "::") else [host]


def _broken() -> Response:
    shape = status.failure(500, "InternalError", "Internal error occurred: the request could not be answered", {})
    return Response(500, msgspec.json.encode(shape), {"Content-Type": "application/json"})
