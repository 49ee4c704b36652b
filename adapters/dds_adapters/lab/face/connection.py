"""One client's connection: HTTP/1.1 requests in, answers out, in order. All parsing is llhttp's, all answering the server's.

Whatever a client sends, it gets an answer or a closed connection, within bounds of memory; nothing it does reaches another.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import httptools

from dds_adapters.lab.api.requests import Request, Response
from dds_adapters.lab.face import messages
from dds_adapters.lab.face.delivery import Delivery, Lines

if TYPE_CHECKING:
    from dds_adapters.lab.face.listener import Listener

BODY_BYTES = 3 * 1024 * 1024
"""What the API server accepts; of a longer body one byte more is kept, so that it sees that there was more."""
HEAD_BYTES = 64 * 1024
PIPELINED = 32
"""Requests that may wait for the answers before them."""


class Connection(asyncio.Protocol):
    """A protocol of asyncio; `face` answers."""

    def __init__(self, face: "Listener") -> None:
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
        self._send(messages.whole(response, keep=self._keep, head=self._head_only, now=self._now()))
        self._done()

    def stream(self, code: int, headers: dict[str, str], lines: Lines) -> None:
        """Send a watch; of one that was asked for by HEAD only the head."""
        if self._head_only:
            lines.close()
            self.reply(Response(code, b"", headers))
            return
        self._send(
            messages.stream_head(
                code, headers, keep=self._keep and self._chunked, chunked=self._chunked, now=self._now()
            )
        )
        face = self._face
        self._delivery = Delivery(lines, self, face.pulse, face.now, face.time, self._loop)
        if self._paused:
            self._delivery.pause()
        self._delivery.start()

    def write(self, lines: bytes) -> None:
        """Send lines of a watch as one chunk."""
        if self._transport is not None:
            framed = (b"%x\r\n" % len(lines), lines, messages.CHUNK_END) if self._chunked else (lines,)
            self._transport.writelines(framed)

    def finish(self) -> None:
        """End a watch properly."""
        self._delivery = None
        if self._chunked:
            self._send(messages.LAST_CHUNK)
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
        self._send(messages.whole(Response(code, text, headers), keep=False, now=self._now()))
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
