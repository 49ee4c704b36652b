"""What comes over the wire to a lab, counted as it arrives; and a wire that is cut and joined again.

traffic = Traffic(lab)
...
assert traffic.most() <= 10        # requests for any one resource within ten seconds
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from dds_lab.api.paths import Query, place
from dds_lab.api.requests import Request
from dds_lab.http_frontend import HttpFrontend
from tests.support.live_lab import LiveLab

WINDOW = 10.0
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Came(NamedTuple):
    """A request: the instant in seconds of a clock that nobody sets, verb, resource with its part, the object's name, and whether
    a fault struck it."""

    at: float
    verb: str
    resource: str
    name: str
    struck: bool


class Traffic:
    """All requests for resources that reached the face of a lab since this was made."""

    def __init__(self, lab: LiveLab) -> None:
        self.came: list[Came] = []
        self.follow(lab.face)

    def follow(self, face: HttpFrontend) -> None:
        """Count what comes to this face too."""
        answer: Callable[[Any, Request], None] = face.answer

        def counted(connection: Any, request: Request) -> None:
            before = _strokes(face)
            answer(connection, request)
            self._count(request, _strokes(face) > before)

        setattr(face, "answer", counted)  # noqa: B010 - a method of this one face

    def counts(self, since: float = 0.0) -> Counter[tuple[str, str]]:
        """(verb, resource with its part) → how often since an instant."""
        return Counter((one.verb, one.resource) for one in list(self.came) if one.at >= since)

    def writes(self, since: float = 0.0) -> Counter[tuple[str, str]]:
        """The same of what is no reading."""
        reading = ("get", "list", "watch")
        return Counter({key: count for key, count in self.counts(since).items() if key[0] not in reading})

    def most(self, *, struck: bool = False, since: float = 0.0) -> tuple[int, str]:
        """The most requests for one resource, its parts included, that came within ten seconds; and which resource. `struck`:
        only of those that a fault struck."""
        times: defaultdict[str, list[float]] = defaultdict(list)
        for one in list(self.came):
            if one.at >= since and (one.struck or not struck):
                times[one.resource.partition("/")[0]].append(one.at)
        return max(((_densest(found), resource) for resource, found in times.items()), default=(0, ""))

    def _count(self, request: Request, struck: bool) -> None:
        where = place(request.path)
        if where is None:
            return
        verb = _VERBS.get(request.method, request.method)
        if verb == "get" and not where.name:
            verb = "watch" if Query(request.query).flag("watch") else "list"
        resource = "/".join(part for part in (where.plural, where.subresource) if part)
        self.came.append(Came(time.monotonic(), verb, resource, where.name, struck))


def _strokes(face: HttpFrontend) -> int:
    return sum(face.faults.struck) if face.faults is not None else 0


def _densest(times: list[float]) -> int:
    """The most instants within one window."""
    first, most = 0, 0
    for last, at in enumerate(times):
        while times[first] <= at - WINDOW:
            first += 1
        most = max(most, last - first + 1)
    return most


@contextmanager
def away(lab: LiveLab, *followed: Traffic) -> Iterator[None]:
    """The API server is gone for as long as the block lasts: connections are cut, nobody listens. Then it is there again, on the
    same port, with all that it held; what lives in the lab goes on meanwhile."""
    port = int(lab.face.url.rpartition(":")[2])
    _in_lab(lab, lab.face.stop(grace=0.0))
    try:
        yield
    finally:
        _in_lab(lab, _back(lab, port, followed))


async def _back(lab: LiveLab, port: int, followed: tuple[Traffic, ...]) -> None:
    before = lab.face
    face = lab.face = HttpFrontend(before.server, before.time, before.credentials, before.faults)
    for traffic in followed:
        traffic.follow(face)
    await face.listen(port=port, tls=False)


def _in_lab(lab: LiveLab, what: Any) -> None:
    asyncio.run_coroutine_threadsafe(what, lab.loop).result(30)
