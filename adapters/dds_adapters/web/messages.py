"""What comes in and what goes out: requests, responses, and the routes that make one of the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """A GET or HEAD. `rest` is what follows the route in the path; names of `headers` are in lower case."""

    path: str
    rest: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]


class Response(NamedTuple):
    """A whole answer."""

    code: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


Route = Callable[[Request], Response]
"""Makes an answer. It is called from the connection's thread, by several at a time."""


def plain(code: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in plain text."""
    return Response(code, TEXT, text.encode(), headers or {})
