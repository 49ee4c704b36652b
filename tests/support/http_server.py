"""A real HTTP server that answers what a test says and keeps what it was asked: for what no API server would answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """A request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Said:
    """An answer. `closed` leaves the length open: the end of the connection is the end of the body."""

    code: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    closed: bool = False


@dataclass
class HttpServer:
    """Where it listens, and what it was asked."""

    url: str
    asked: list[Asked]

    def kubeconfig(self, path: Path, token: str = "a-token") -> str:
        """Write a kubeconfig that leads here; gives its path."""
        path.write_text(
            f"apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{self.url}'}}}}]\n"
            f"users: [{{name: u, user: {{token: '{token}'}}}}]\n"
            "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
        )
        return str(path)


@contextmanager
def http_server(answer: Callable[[Asked], Said]) -> Iterator[HttpServer]:
    """Serve on a free port of loopback until the block ends."""
    asked: list[Asked] = []

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked.append(Asked(self.command, self.path, headers, body))
            said = answer(asked[-1])
            self.send_response(said.code)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.close_connection = said.closed
            if not said.closed:
                self.send_header("Content-Length", str(len(said.body)))
            with suppress(ConnectionError):  # whoever asked may have gone, on purpose
                self.end_headers()
                self.wfile.write(said.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield HttpServer(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
