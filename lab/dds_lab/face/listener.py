"""What listens, whatever it serves: connections, their end in good order, and a thread for those who have no loop.

Everything runs on the thread of its loop. Nothing here knows what is asked.
"""

import asyncio
import importlib
import ipaddress
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from dds_core.errors import InputError
from dds_lab.api.requests import Request
from dds_lab.face.connection import Connection
from dds_lab.face.credentials import Identity
from dds_lab.face.pulse import Pulse
from dds_lab.time import Time

LOOPBACK = "127.0.0.1"
IDLE_S = 120.0
"""A connection on which nothing happened for so long is closed."""
GRACE_S = 2.0

_Found = TypeVar("_Found")
_ListenerT = TypeVar("_ListenerT", bound="Listener")


class Exposed(InputError):
    """The lab would be open to others than this machine without TLS or without tokens."""


class Listener(ABC):
    """HTTP on a running loop; what is asked is answered by whoever extends it."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.loop = asyncio.get_running_loop()
        self.pulse = Pulse(self.loop)
        self.connections: set[Connection] = set()
        self.stopping = False
        self.url = ""
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.Handle | None = None
        self._empty = asyncio.Event()

    @abstractmethod
    def answer(self, connection: Connection, request: Request) -> None:
        """Reply on the connection, now or later, once."""

    def now(self) -> int:
        """The instant that answers are dated with, in microseconds."""
        return self.time.now()

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

    def gone(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    async def _open(self, host: str, port: int, own: Identity | None) -> None:
        """Listen, with TLS when there is an identity; `url` then says where. Raises InputError when it cannot be had."""
        try:
            self._listener = await self.loop.create_server(
                lambda: Connection(self),
                host,
                port,
                ssl=own.context if own is not None else None,
                backlog=512,
                start_serving=True,
            )
        except OSError as error:
            fix = "choose another host or port"
            raise InputError(f"cannot listen ({error.strerror or error})", where=f"{host}:{port}", fix=fix) from error
        bound = self._listener.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if own is not None else 'http'}://{shown}:{bound}"
        self._sweep = self.loop.call_later(IDLE_S / 4, self._close_idle)

    def _close_idle(self) -> None:
        before = self.loop.time() - IDLE_S
        for connection in list(self.connections):
            if connection.idle_since(before):
                connection.close()
        self._sweep = self.loop.call_later(IDLE_S / 4, self._close_idle)


def called(listener: Listener, call: Callable[[], _Found]) -> _Found:
    """Call in the listener's thread (the only one that may touch what it serves) and wait for what comes of it."""
    done: Future[_Found] = Future()

    def calling() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    listener.loop.call_soon_threadsafe(calling)
    return done.result(timeout=30)


@contextmanager
def in_thread(begin: Callable[[], Awaitable[_ListenerT]]) -> Iterator[_ListenerT]:
    """What `begin` makes listen, in a thread of its own until the block ends."""
    ready: Future[_ListenerT] = Future()
    stop: list[Callable[[], object]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(over.set))
        try:
            listener = await begin()
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(listener)
        await over.wait()
        await listener.stop()

    thread = threading.Thread(target=lambda: run(main), name="lab-face", daemon=True)
    thread.start()
    try:
        yield ready.result(timeout=30)
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


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names(host: str) -> list[str]:
    """What clients may call a server by; where it listens everywhere, by the machine's name too."""
    return [host, socket.gethostname()] if host in ("0.0.0.0", "::") else [host]
