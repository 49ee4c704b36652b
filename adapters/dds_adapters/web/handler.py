"""One request on one connection, read by the standard library's parser and answered by a route."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from dds_adapters.web.messages import Request, Response, Route, plain

LOG = logging.getLogger("dds.web")

MOST_BODY = 65_536
"""So much of a body that nobody wants is read, so that its sender gets to see the answer."""
_METHODS = ("GET", "HEAD")

Find = Callable[[str], tuple[Route, str] | None]
"""The route of a path, and what follows it there."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request. `complete` is called when it was read."""

    protocol_version = "HTTP/1.1"

    def __init__(self, connection: Any, peer: Any, find: Find, complete: Callable[[], None]) -> None:
        self._find = find
        self._complete = complete
        super().__init__(connection, peer, None)  # type: ignore[arg-type] # it never asks for its server

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
        query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=100)
        try:
            return route(Request(path, rest, query, headers))
        except Exception as error:  # a page that fails must not take the connection with it
            LOG.error("%s failed with %s", path, type(error).__name__)
            return plain(500, "500 internal error\n")

    def _send(self, response: Response) -> None:
        self.send_response(response.code)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parser refuses; its own words may quote the request."""
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
