"""One client's connection: HTTP/1.1 requests in, answers out, in order. All parsing is llhttp's, all answering the server's.

Whatever a client sends, it gets an answer or a closed connection, within bounds of memory; nothing it does reaches another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import unquote

import httptools

from dds_lab.api.requests import Request, Response
from dds_lab.face.pulse import Pulse
from dds_lab.time import MICROSECONDS, Time, Timer

# -- messages ----------------------------------------------------------------------------------------------------------

# Bytes of HTTP/1.1 answers. Knows the framing and nothing of what is framed.


CHUNK_END = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_NO_BODY = (204, 304)


@lru_cache(maxsize=4)
def date(second: int) -> str:
    """The header Date for a second since 1970-01-01 UTC."""
    return formatdate(second, usegmt=True)


def whole(response: Response, *, keep: bool, head: bool = False, now: int) -> bytes:
    """An answer with all of its body; only the head of it when `head` is asked for. `now` in microseconds."""
    body = b"" if response.code in _NO_BODY else response.body
    lines = _head(response.code, response.headers, keep, now)
    if response.code not in _NO_BODY:
        lines.append(f"Content-Length: {len(body)}")
    return _joined(lines) + (b"" if head else body)


def stream_head(code: int, headers: Mapping[str, str], *, keep: bool, chunked: bool, now: int) -> bytes:
    """The beginning of an answer whose length nobody knows yet."""
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
    """A header may quote what a client sent; it must not become two headers by that."""
    return value.replace("\r", " ").replace("\n", " ") if "\n" in value or "\r" in value else value


# -- delivery ----------------------------------------------------------------------------------------------------------

# A watch on its way to one client, at the beat of the face. It never blocks.
#
# A reader that is too slow is given up; what waits for it are bundles that watches which see the same share.


WAITING_BYTES = 16 * 1024 * 1024
"""How much may wait for a reader, beyond what was there when it began."""
STUCK_S = 10.0
"""How long the end of a watch waits for a reader that does not read."""


class Lines(Protocol):
    """A stream of lines, as the API server gives it or as faults make of it."""

    @property
    def closed(self) -> bool: ...
    @property
    def due(self) -> int | None: ...
    def take(self) -> list[bytes]: ...
    def on_ready(self, call: Callable[[], None] | None) -> None: ...
    def tick(self) -> None: ...
    def close(self) -> None: ...


class Outlet(Protocol):
    """Where the lines go."""

    def write(self, lines: bytes) -> None: ...
    def finish(self) -> None:
        """All that there was has been written."""
        ...

    def give_up(self) -> None:
        """The client does not take it: drop the connection."""
        ...


class Delivery:
    """From a stream to an outlet, until either ends."""

    def __init__(
        self,
        stream: Lines,
        outlet: Outlet,
        pulse: Pulse,
        now: Callable[[], int],
        time: Time,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`now` is the clock that the stream's `due` is told by."""
        self._stream = stream
        self._outlet = outlet
        self._pulse = pulse
        self._now = now
        self._time = time
        self._loop = loop
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._allowed = WAITING_BYTES
        self._paused = False
        self._asked = False
        self._timer: Timer | None = None
        self._armed: int | None = None
        self._stuck: asyncio.Handle | None = None
        self._over = False

    def start(self) -> None:
        """Send what there is, and go on."""
        self._collect(beginning=True)
        if not self._over:
            self._stream.on_ready(self._ready)

    def pause(self) -> None:
        """The client's buffers are full."""
        self._paused = True

    def resume(self) -> None:
        """There is room again."""
        self._paused = False
        self._push()

    def end(self) -> None:
        """The server's wish: no more events, and a proper end."""
        self._stream.close()
        self._collect()

    def drop(self) -> None:
        """The client is gone."""
        self._over = True
        self._stream.on_ready(None)
        self._stream.close()
        for each in (self._timer, self._stuck):
            if each is not None:
                each.cancel()
        self._waiting.clear()

    def _ready(self) -> None:
        if not self._asked and not self._over:
            self._asked = True
            self._pulse.ask(self._beat)

    def _beat(self) -> None:
        self._asked = False
        if not self._over:
            self._collect()

    def _collect(self, beginning: bool = False) -> None:
        lines = self._stream.take()
        self._arm()
        if lines:
            for bundle in self._pulse.bundles(lines):
                self._waiting.append(bundle)
                self._size += len(bundle)
        if beginning:
            self._allowed += self._size
        if self._paused and self._size > self._allowed:
            self._outlet.give_up()
        else:
            self._push()

    def _push(self) -> None:
        waiting = self._waiting
        while waiting and not self._paused and not self._over:
            bundle = waiting.popleft()
            self._size -= len(bundle)
            self._outlet.write(bundle)
        if not self._stream.closed or self._over:
            return
        if not waiting:
            self.drop()
            self._outlet.finish()
        elif self._stuck is None:
            self._stuck = self._loop.call_later(STUCK_S, self._outlet.give_up)

    def _arm(self) -> None:
        """Be called when the stream wants it; that may come closer with what was taken."""
        due = self._stream.due
        if due == self._armed or due is None or self._over:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed = due
        self._timer = self._time.after(max(0.0, (due - self._now()) / MICROSECONDS), self._tick)

    def _tick(self) -> None:
        self._timer = self._armed = None
        if not self._over:
            self._stream.tick()
            self._arm()


# -- connection --------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from dds_lab.face.listener import Listener

BODY_BYTES = 3 * 1024 * 1024
"""What the API server accepts; of a longer body one byte more is kept, so that it sees that there was more."""
HEAD_BYTES = 64 * 1024
PIPELINED = 32
"""Requests that may wait for the answers before them."""


class Connection(asyncio.Protocol):
    """A protocol of asyncio; `face` answers."""

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

    # -- the transport's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._face.connections.add(self)

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
            self._close_after_answers()  # the request was answered as if it had not asked for another protocol
        except (httptools.HttpParserError, httptools.HttpParserCallbackError):
            self._refuse(400, b"400 Bad Request")
        if self._in_head and self._head_size > HEAD_BYTES + len(data):
            self._refuse(431, b"431 Request Header Fields Too Large")

    def eof_received(self) -> bool:
        return False  # a client that half-closes is taken to be gone, as a real server does

    def pause_writing(self) -> None:
        self._paused = True
        if self._delivery is not None:
            self._delivery.pause()

    def resume_writing(self) -> None:
        self._paused = False
        if self._delivery is not None:
            self._delivery.resume()

    # -- the parser's side ---------------------------------------------------------------------------------------

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

    # -- answering -----------------------------------------------------------------------------------------------

    def _answer(self, request: Request, keep: bool) -> None:
        self._keep = keep and not self._closing and not self._face.stopping
        self._busy = True
        self._head_only = request.method == "HEAD"
        self._face.answer(self, request)

    def reply(self, response: Response) -> None:
        """Send an answer that is all there; the next request may come."""
        self._send(whole(response, keep=self._keep, head=self._head_only, now=self._now()))
        self._done()

    def stream(self, code: int, headers: dict[str, str], lines: Lines) -> None:
        """Send a watch; of one that was asked for by HEAD only the head."""
        if self._head_only:
            lines.close()
            self.reply(Response(code, b"", headers))
            return
        self._send(
            stream_head(code, headers, keep=self._keep and self._chunked, chunked=self._chunked, now=self._now())
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
        """Cut the connection, whatever is on its way."""
        if self._transport is not None:
            self._transport.abort()

    def cut(self, rest: bytes = b"") -> None:
        """Send the beginning of a line, or nothing, and end the connection without ending the answer."""
        if self._delivery is not None:
            self._delivery.drop()
            self._delivery = None
        if rest:
            self._send(b"%x\r\n%b" % (2 * len(rest), rest) if self._chunked else rest)
        self._close()

    # -- ends ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End: at once when idle, after the answer that is under way, and a watch with a proper end."""
        self._keep = False
        self._waiting.clear()
        if self._delivery is not None:
            self._delivery.end()
        elif not self._busy:
            self._close()

    def idle_since(self, instant: float) -> bool:
        """Whether nothing came and nothing is under way since `instant` (of the loop's clock)."""
        return not self._busy and self.active_at < instant

    def close(self) -> None:
        """Close as soon as what was written is sent."""
        self._close()

    def _done(self) -> None:
        self._busy = False
        self.active_at = self._loop.time()
        if not self._keep:
            self._close()
        elif self._waiting and not self._closing:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if self._waiting and not self._busy and not self._closing:
            self._answer(*self._waiting.popleft())

    def _close_after_answers(self) -> None:
        self._keep = False
        self._closing = True
        if not self._busy:
            self._close()

    def _refuse(self, code: int, text: bytes) -> None:
        """An answer to what is no HTTP, in plain text as a real server's HTTP library gives it; then the end."""
        if self._busy:
            self.give_up()
            return
        self._keep = False
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        self._send(whole(Response(code, text, headers), keep=False, now=self._now()))
        self._close()

    def _now(self) -> int:
        return self._face.now()

    def _close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _path_of(target: bytes) -> bytes:
    """The path of a target in another than the usual form (`http://host/path`, `*`, `host:port`)."""
    try:
        return httptools.parse_url(target).path or b"/"
    except httptools.HttpParserError:
        return b"/"
