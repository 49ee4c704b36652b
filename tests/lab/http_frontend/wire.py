"""A client that sends bytes as they are, and reads answers as they come."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from types import TracebackType

from dds_lab.http_frontend import Served

CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"


@dataclass
class Answered:
    code: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """One connection to a served lab."""

    def __init__(self, served: Served) -> None:
        host, _, port = served.url.partition("://")[2].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.reader = self.socket.makefile("rb")
        self.token = served.tokens["admin"]

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reader.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, method: str, path: str, *lines: str, body: bytes = b"", version: str = "1.1") -> bytes:
        """The bytes of a request of the administrator."""
        head = [f"{method} {path} HTTP/{version}", "Host: lab", f"Authorization: Bearer {self.token}", *lines]
        if body:
            head.append(f"Content-Length: {len(body)}")
        return "\r\n".join((*head, "", "")).encode("latin-1") + body

    def head(self) -> Answered:
        """The head of the next answer."""
        line = self.reader.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {}
        while (header := self.reader.readline().strip()) != b"":
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return Answered(int(line.split()[1]), headers, b"")

    def answer(self) -> Answered:
        """The next answer."""
        found = self.head()
        found.body = self.reader.read(int(found.headers.get("content-length", "0")))
        return found

    def chunk(self) -> bytes:
        """The next chunk of a stream; empty for the last one."""
        size = int(self.reader.readline(), 16)
        data = self.reader.read(size)
        assert self.reader.readline() == b"\r\n"
        return data

    def ended(self) -> bool:
        """Whether the server has closed the connection."""
        try:
            return self.reader.read(1) == b""
        except ConnectionResetError:
            return True
