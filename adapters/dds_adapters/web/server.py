"""A small HTTP server for a few read-only pages.

It uses one thread for each connection, the standard library's parser, and a limited number of connections. A page may have to
wait for the API server (a review); its thread then blocks no other. Probes and scrapes are rare, so nothing faster is needed.
Each connection serves one request, in a limited time from the first byte to the last. If all places are taken, the connection
with the oldest unfinished request is cut, or without any that whose reader has taken nothing for the longest time: neither a slow
sender nor a slow reader of a big page ever blocks a probe.

Headers and queries never go into a log line. Only the given routes are served.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from dds_adapters.web.messages import Request, Response, Route, plain
from dds_core.errors import InputError

LOG = logging.getLogger("dds.web")

MOST_BODY = 65_536
"""Bytes of a request's unused body that are read, so that its sender gets the answer."""
_METHODS = ("GET", "HEAD")

Find = Callable[[str], tuple[Route, str] | None]
"""The route of a path, and the rest of the path."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request on one connection, by a route. `complete` is called when the request was read, when its answer is
    there, and before each piece of an answer that comes in pieces."""

    protocol_version = "HTTP/1.1"

    def __init__(self, connection: Any, peer: Any, find: Find, complete: Callable[[], None]) -> None:
        self._find = find
        self._complete = complete
        super().__init__(connection, peer, None)  # type: ignore[arg-type] # it never uses its server

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # the parser asks for one function for each method
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        self._drop_body()
        self._complete()
        if self.command not in _METHODS:
            self._send(plain(405, "405 method not allowed\n", {"Allow": ", ".join(_METHODS)}))
            return
        self._send(self._routed())

    def _drop_body(self) -> None:
        length = self.headers.get("Content-Length", "")
        if length.isascii() and length.isdigit():
            self.rfile.read(min(int(length), MOST_BODY))

    def _routed(self) -> Response:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        found = self._find(path)
        if found is None:
            return plain(404, "404 page not found\n")
        route, rest = found
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            return plain(400, "400 too many parameters\n")
        try:
            return route(Request(path, rest, query, headers))
        except Exception as error:  # a failing page must not end the connection
            LOG.error("%s failed with %s", path, type(error).__name__)
            return plain(500, "500 internal error\n")

    def _send(self, response: Response) -> None:
        self.send_response(response.code)
        self.send_header("Content-Type", response.content_type)
        body = response.body
        self._complete()
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not isinstance(body, bytes):
            self._send_pieces(body)
        elif self.command != "HEAD":
            self.wfile.write(body)

    def _send_pieces(self, pieces: Iterator[bytes]) -> None:
        """Each piece has the full time limit."""
        try:
            while self.command != "HEAD" and (piece := next(pieces, None)) is not None:
                self._complete()
                self.wfile.write(piece)
        finally:
            if isinstance(pieces, Generator):
                pieces.close()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For requests that the parser refuses; its own text may quote the request."""
        self._complete()
        self.command = self.command or "GET"
        self.request_version = self.protocol_version
        self._send(plain(code, f"{int(code)} {self.responses.get(code, ('refused', ''))[0].lower()}\n"))

    def version_string(self) -> str:
        return "dds"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        path = urlsplit(getattr(self, "path", "")).path
        LOG.debug("%s %.200r: %s", self.command, path, int(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing else is logged: it could quote what a client sent."""


# -- server ------------------------------------------------------------------------------------------------------------

LOOPBACK = "127.0.0.1"
MOST = 32
"""Connections at once."""
READING_SECONDS = 10.0
"""Time limit for a client's handshake and request together."""
ANSWERING_SECONDS = 30.0
"""Time limit for an answer, until the client has all of it."""
TICK_SECONDS = 0.5


class _Connection:
    """A client's connection and its deadline."""

    __slots__ = ("due", "peer", "reading", "sock", "writing")

    def __init__(self, sock: socket.socket, peer: object, due: float) -> None:
        self.sock = sock
        self.peer = peer
        self.due = due
        self.reading = True
        self.writing = False

    def cut(self) -> None:
        """End it, with or without TLS: the thread that serves it gets an error."""
        with suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class Unbound(InputError):
    """The server cannot listen on the address."""


class Server:
    """Serves `routes` from `start` until `stop`. A route that ends in "/" serves all paths that begin with it and have no other
    route."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        host: str = LOOPBACK,
        port: int = 0,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        name: str = "web",
        most: int = MOST,
        reading: float = READING_SECONDS,
        answering: float = ANSWERING_SECONDS,
    ) -> None:
        """Binds at once. An empty `host` means all addresses, port 0 any free port. `tls` gives the context for each new
        connection. Raises Unbound if it cannot listen on the address."""
        self._routes = dict(routes)
        self._prefixes = sorted((path for path in routes if path.endswith("/")), key=len, reverse=True)
        self._tls = tls
        self._name = name
        self._most = most
        self._reading = reading
        self._answering = answering
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._empty = threading.Condition(self._lock)
        self._stopping = False
        self._listening = _listen(host, port)
        self.host, self.port = self._listening.getsockname()[:2]
        self._thread = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)

    @property
    def url(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls is not None else 'http'}://{shown}:{self.port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float = 2.0) -> None:
        """Take no new connection, give running answers `grace` seconds, then cut the rest."""
        self._stopping = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        if self._thread.ident is not None:
            self._thread.join(TICK_SECONDS * 4)
        self._listening.close()
        with self._lock:
            for connection in self._connections:
                if connection.reading:
                    connection.cut()
            self._empty.wait_for(lambda: not self._connections, grace)
            for connection in self._connections:
                connection.cut()
            self._empty.wait_for(lambda: not self._connections, grace)

    # -- the thread that accepts -----------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._stopping:
            self._cut_overdue()
            try:
                sock, peer = self._listening.accept()
            except TimeoutError:
                continue
            except OSError:  # out of descriptors for a moment, or stopped
                if not self._stopping:
                    time.sleep(TICK_SECONDS)
                continue
            self._take(sock, peer)

    def _cut_overdue(self) -> None:
        now = time.monotonic()
        with self._lock:
            for connection in self._connections:
                if now >= connection.due:
                    connection.cut()

    def _take(self, sock: socket.socket, peer: object) -> None:
        connection = _Connection(sock, peer, time.monotonic() + self._reading)
        sock.settimeout(max(self._reading, self._answering))
        with self._lock:
            if len(self._connections) >= self._most and not self._make_room():
                sock.close()
                return
            self._connections.add(connection)
        thread = threading.Thread(target=self._serve, args=(connection,), name=f"{self._name}-connection", daemon=True)
        thread.start()

    def _make_room(self) -> bool:
        """Cut the connection that its client has held up for the longest time; False if every answer is still being made."""
        held_up = [one for one in self._connections if one.reading or one.writing]
        slow = min(held_up, key=lambda one: (one.writing, one.due), default=None)
        if slow is None:
            return False
        slow.cut()
        self._connections.discard(slow)
        return True

    # -- a connection's thread -------------------------------------------------------------------------------------------

    def _serve(self, connection: _Connection) -> None:
        try:
            self._secure(connection)
            Handler(connection.sock, connection.peer, self._find, lambda: self._complete(connection))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            LOG.debug("a connection ended with %s", type(error).__name__)
        except Exception as error:
            LOG.error("a connection failed with %s", type(error).__name__)
        finally:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_WR)
            connection.sock.close()
            with self._lock:
                self._connections.discard(connection)
                if not self._connections:
                    self._empty.notify_all()

    def _secure(self, connection: _Connection) -> None:
        if self._tls is None:
            return
        with self._lock:  # from now on `cut` must use the wrapped socket
            connection.sock = self._tls().wrap_socket(connection.sock, server_side=True, do_handshake_on_connect=False)
        connection.sock.do_handshake()

    def _complete(self, connection: _Connection) -> None:
        """The request was read: from now on the time limit of the answer counts. The next time, the answer is there."""
        with self._lock:
            connection.writing = not connection.reading
            connection.reading = False
            connection.due = time.monotonic() + self._answering

    def _find(self, path: str) -> tuple[Route, str] | None:
        route = self._routes.get(path)
        if route is not None:
            return route, ""
        for prefix in self._prefixes:
            if path.startswith(prefix):
                return self._routes[prefix], path[len(prefix) :]
        return None


def _listen(host: str, port: int) -> socket.socket:
    everywhere = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=everywhere)
    except (OSError, OverflowError) as error:
        what = f"cannot listen ({getattr(error, 'strerror', None) or error})"
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise Unbound(what, where=shown, fix="choose another address, or end what listens there") from None
    listening.settimeout(TICK_SECONDS)
    return listening
