"""HTTP/1.1 connections and their listener: reads requests and sends answers, in order. llhttp does all parsing.

Whatever a client sends, it gets an answer or a closed connection; memory is bounded, and clients cannot affect each other.
Everything runs on the thread of the listener's loop. Subclasses of `Listener` answer the requests.
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeVar, cast
from urllib.parse import unquote

import httptools

from dds_core.errors import InputError
from dds_lab.api.requests import Request, Response
from dds_lab.faults.wire import Lines
from dds_lab.http_frontend.credentials import Identity
from dds_lab.http_frontend.delivery import Delivery, Pulse
from dds_lab.time import Time

CHUNK_END = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_NO_BODY = (204, 304)


@lru_cache(maxsize=4)
def date(second: int) -> str:
    """The value of the header Date for a second since 1970-01-01 UTC."""
    return formatdate(second, usegmt=True)


def whole(response: Response, *, keep: bool, head: bool = False, now: int) -> bytes:
    """The bytes of a complete answer; with `head` without the body. `now` in microseconds."""
    body = b"" if response.code in _NO_BODY else response.body
    lines = _head(response.code, response.headers, keep, now)
    if response.code not in _NO_BODY:
        lines.append(f"Content-Length: {len(body)}")
    return _joined(lines) + (b"" if head else body)


def stream_head(code: int, headers: Mapping[str, str], *, keep: bool, chunked: bool, now: int) -> bytes:
    """The head of an answer whose length is not known yet."""
    lines = _head(code, headers, keep, now)
    if chunked:
        lines.append("Transfer-Encoding: chunked")
    return _joined(lines)


def _head(code: int, headers: Mapping[str, str], keep: bool, now: int) -> list[str]:
    lines = [f"HTTP/1.1 {code} {_REASONS.get(code, 'Unknown')}"]
    lines.append(f"Date: {date(now // 1_000_000)}")
    lines += [f"{name}: {_one_line(value)}" for name, value in headers.items()]
    if not keep:
        lines.append("Connection: close")
    return lines


def _joined(lines: Iterable[str]) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1", "replace")


def _one_line(value: str) -> str:
    """A header may quote a client's text; a line break in it must not start another header."""
    return value.replace("\r", " ").replace("\n", " ") if "\n" in value or "\r" in value else value


BODY_BYTES = 3 * 1024 * 1024
"""The API server's limit. Of a longer body one more byte is kept, so that the server sees that it is too long."""
HEAD_BYTES = 64 * 1024
PIPELINED = 32
"""Most requests that may wait for the answers to earlier ones."""


class Connection(asyncio.Protocol):
    """An asyncio protocol for one connection; `face` answers its requests."""

    def __init__(self, face: Listener) -> None:
        self._face = face
        self._loop = face.loop
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._delivery: Delivery | None = None
        self._busy = False
        self._keep = True
        self._chunked = True
        self._closing = False
        self._paused = False
        self._head_only = False
        self.active_at = self._loop.time()
        self._begin()

    def _begin(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0
        self._head_size = 0
        self._in_head = False

    # -- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._face.connections.add(self)
        if self._face.stopping:  # accepted just when the listener closed
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._waiting.clear()
        if self._delivery is not None:
            self._delivery.drop()
            self._delivery = None
        self._transport = None
        self._face.gone(self)

    def data_received(self, data: bytes) -> None:
        self.active_at = self._loop.time()
        if self._closing:
            return
        if self._in_head or not self._target:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._close_after_answers()  # the request is answered, and its upgrade is ignored
        except (httptools.HttpParserError, httptools.HttpParserCallbackError):
            self._refuse(400, b"400 Bad Request")
        if self._in_head and self._head_size > HEAD_BYTES + len(data):
            self._refuse(431, b"431 Request Header Fields Too Large")

    def eof_received(self) -> bool:
        return False  # a half-closed connection counts as closed, as in a real server

    def pause_writing(self) -> None:
        self._paused = True
        if self._delivery is not None:
            self._delivery.pause()

    def resume_writing(self) -> None:
        self._paused = False
        if self._delivery is not None:
            self._delivery.resume()

    # -- the parser's side

    def on_message_begin(self) -> None:
        self._begin()
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before},{text}"

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._headers.get("expect", "").lower() == "100-continue":
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        room = BODY_BYTES + 1 - self._body_size
        if room > 0:
            self._body.append(body[:room])
            self._body_size += min(room, len(body))

    def on_message_complete(self) -> None:
        keep = self._parser.should_keep_alive()
        self._chunked = self._parser.get_http_version() != "1.0"
        path, _, query = self._target.partition(b"?")
        if not path.startswith(b"/"):
            path = _path_of(self._target)
        request = Request(
            self._parser.get_method().decode("latin-1"),
            unquote(path.decode("latin-1")),
            query.decode("latin-1"),
            self._headers,
            self._body[0] if len(self._body) == 1 else b"".join(self._body),
        )
        if self._busy:
            if len(self._waiting) >= PIPELINED:
                self._refuse(429, b"429 Too Many Requests")
            else:
                self._waiting.append((request, keep))
        else:
            self._answer(request, keep)

    # -- answering

    def _answer(self, request: Request, keep: bool) -> None:
        self._keep = keep and not self._closing and not self._face.stopping
        self._busy = True
        self._head_only = request.method == "HEAD"
        self._face.answer(self, request)

    def reply(self, response: Response) -> None:
        """Send a complete answer, and go on with the next request."""
        self._send(whole(response, keep=self._keep, head=self._head_only, now=self._face.now()))
        self._done()

    def stream(self, code: int, headers: dict[str, str], lines: Lines) -> None:
        """Send a watch; for a HEAD request only the head."""
        if self._head_only:
            lines.close()
            self.reply(Response(code, b"", headers))
            return
        self._send(
            stream_head(code, headers, keep=self._keep and self._chunked, chunked=self._chunked, now=self._face.now())
        )
        face = self._face
        self._delivery = Delivery(lines, self, face.pulse, face.now, face.time, self._loop)
        if self._paused:
            self._delivery.pause()
        self._delivery.start()

    def write(self, lines: bytes) -> None:
        """Send lines of a watch as one chunk."""
        if self._transport is not None:
            framed = (b"%x\r\n" % len(lines), lines, CHUNK_END) if self._chunked else (lines,)
            self._transport.writelines(framed)

    def finish(self) -> None:
        """End a watch properly."""
        self._delivery = None
        if self._chunked:
            self._send(LAST_CHUNK)
        else:
            self._keep = False
        self._done()

    def give_up(self) -> None:
        """Abort the connection; unsent data is lost."""
        if self._transport is not None:
            self._transport.abort()

    def cut(self, rest: bytes = b"") -> None:
        """Send `rest` (half a line or nothing) and close the connection without a proper end of the answer."""
        if self._delivery is not None:
            self._delivery.drop()
            self._delivery = None
        if rest:
            self._send(b"%x\r\n%b" % (2 * len(rest), rest) if self._chunked else rest)
        self.close()

    # -- ends

    def stop(self) -> None:
        """Close the connection: at once if it is idle, else after the current answer; a watch gets a proper end."""
        self._keep = False
        self._waiting.clear()
        if self._delivery is not None:
            self._delivery.end()
        elif not self._busy:
            self.close()

    def idle_since(self, instant: float) -> bool:
        """Whether the connection has been idle since `instant` (of the loop's clock)."""
        return not self._busy and self.active_at < instant

    def _done(self) -> None:
        self._busy = False
        self.active_at = self._loop.time()
        if not self._keep:
            self.close()
        elif self._waiting and not self._closing:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if self._waiting and not self._busy and not self._closing:
            self._answer(*self._waiting.popleft())

    def _close_after_answers(self) -> None:
        self._keep = False
        self._closing = True
        if not self._busy:
            self.close()

    def _refuse(self, code: int, text: bytes) -> None:
        """Answer invalid HTTP in plain text, as a real server's HTTP library does, and close the connection."""
        if self._busy:
            self.give_up()
            return
        self._keep = False
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        self._send(whole(Response(code, text, headers), keep=False, now=self._face.now()))
        self.close()

    def close(self) -> None:
        """Close when all written data is sent."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _path_of(target: bytes) -> bytes:
    """The path of a target in an unusual form (`http://host/path`, `*`, `host:port`)."""
    try:
        return httptools.parse_url(target).path or b"/"
    except httptools.HttpParserError:
        return b"/"


LOOPBACK = "127.0.0.1"
IDLE_S = 120.0
"""Seconds after which an idle connection is closed."""
GRACE_S = 2.0

_Found = TypeVar("_Found")
_ListenerT = TypeVar("_ListenerT", bound="Listener")


class Exposed(InputError):
    """The lab would be reachable from other machines without TLS or without tokens."""


class Listener(ABC):
    """Serves HTTP on a running loop; subclasses implement `answer`."""

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
        """The instant for the header Date of answers, in microseconds."""
        return self.time.now()

    async def stop(self, grace: float = GRACE_S) -> None:
        """Accept no more connections, end watches and finish current answers; abort the rest after `grace` seconds."""
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
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    async def _open(self, host: str, port: int, own: Identity | None) -> None:
        """Listen, with TLS if there is an identity, and set `url`. Raises InputError if that is impossible."""
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


class InThread:
    """A listener that runs in another thread."""

    def __init__(self, listener: Listener) -> None:
        self.url = listener.url
        self._loop = listener.loop

    def run(self, call: Callable[[], _Found]) -> _Found:
        """Call in the listener's thread, the only one that may use the served objects, and return the result."""
        done: Future[_Found] = Future()

        def calling() -> None:
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(calling)
        return done.result(timeout=30)


@contextmanager
def in_thread(begin: Callable[[], Awaitable[_ListenerT]]) -> Iterator[_ListenerT]:
    """Run the listener that `begin` starts in a separate thread until the block ends."""
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


def run(main: Callable[[], Coroutine[Any, Any, _Found]]) -> _Found:
    """Run on uvloop if it is installed (about twice as fast), else on asyncio's own loop; gives what `main` gives."""
    try:
        factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        factory = None

    async def to_the_last() -> _Found:
        found = await main()
        await asyncio.sleep(0.02)  # uvloop cannot close before the closed connections are gone, one turn later
        return found

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(to_the_last())


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names(host: str) -> list[str]:
    """Names of the server in its certificate; if it listens on all addresses also the machine's name."""
    return [host, socket.gethostname()] if host in ("0.0.0.0", "::") else [host]
