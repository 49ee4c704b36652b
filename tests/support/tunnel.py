"""A proxy on loopback that opens tunnels, as those of companies do."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer


class Tunnels(ThreadingTCPServer):
    """`asked` are the hosts with ports that tunnels were asked for; with `login` (user:password) only who says it gets one."""

    daemon_threads = True
    request_queue_size = 128  # a client begins all its watches at once

    def __init__(self, login: str = "") -> None:
        self.asked: list[str] = []
        self.wanted = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        super().__init__(("127.0.0.1", 0), _Tunnel)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Tunnel(BaseRequestHandler):
    server: Tunnels

    def handle(self) -> None:
        text = b""
        while b"\r\n\r\n" not in text and (piece := self.request.recv(4096)):
            text += piece
        method, target, *_ = text.decode().split(" ")
        assert method == "CONNECT", text
        self.server.asked.append(target)
        if self.server.wanted and f"proxy-authorization: {self.server.wanted}".lower() not in text.decode().lower():
            self.request.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = target.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), 5) as far, suppress(OSError):
            far.settimeout(None)  # a watch may be silent for long
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(far, self.request), daemon=True)
            back.start()
            _pump(self.request, far)
            back.join(5)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def tunnels(login: str = "") -> Iterator[Tunnels]:
    """The proxy, until the block ends."""
    with Tunnels(login) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
