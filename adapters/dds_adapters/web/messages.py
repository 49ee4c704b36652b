"""Requests, responses, and the routes that make a response of a request."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """A GET or HEAD. `rest` is the part of the path after the route; names of `headers` are in lower case."""

    path: str
    rest: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]


class Response(NamedTuple):
    """An answer: whole, or in pieces until the last one or until the reader is gone; then the pieces are closed."""

    code: int
    content_type: str
    body: bytes | Iterator[bytes]
    headers: Mapping[str, str] = {}


Route = Callable[[Request], Response]
"""Makes a response. Called from the connections' threads, several at once."""


def plain(code: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(code, TEXT, text.encode(), headers or {})


SMALL = 1024
"""Bytes from which compression pays."""


class Probe(Protocol):
    """Answers a probe: all checks, or one (`runtime.health.Health.readyz`)."""

    def __call__(self, check: str = "", *, verbose: bool = False, exclude: Collection[str] = ()) -> tuple[int, str]: ...


def probes(path: str, probe: Probe) -> dict[str, Route]:
    """The routes of a probe, such as /readyz: the page, and below it one for each check."""

    def route(request: Request) -> Response:
        verbose, exclude = "verbose" in request.query, request.query.get("exclude", [])
        return plain(*probe(request.rest, verbose=verbose, exclude=exclude))

    return {path: route, f"{path}/": route}


def exposition(registry: CollectorRegistry) -> Route:
    """The metrics of a registry, in the format that the scraper asks for."""
    from prometheus_client.exposition import choose_encoder  # only metrics need this package

    def route(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        body = encode(registry)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if len(body) >= SMALL and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(200, content_type, gzip.compress(body, 1), headers | {"Content-Encoding": "gzip"})
        return Response(200, content_type, body, headers)

    return route
