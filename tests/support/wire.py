"""A wire to a lab that is cut and joined again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dds_lab.http_frontend import HttpFrontend
from tests.support.live_lab import LiveLab


@contextmanager
def away(lab: LiveLab) -> Iterator[None]:
    """The API server is gone for as long as the block lasts: connections are cut, nobody listens. Then it is there again, on the
    same port, with all that it held; what lives in the lab goes on meanwhile."""
    port = int(lab.face.url.rpartition(":")[2])
    _in_lab(lab, lab.face.stop(grace=0.0))
    try:
        yield
    finally:
        _in_lab(lab, _back(lab, port))


async def _back(lab: LiveLab, port: int) -> None:
    before = lab.face
    face = lab.face = HttpFrontend(before.server, before.time, before.credentials, before.faults)
    await face.listen(port=port, tls=False)


def _in_lab(lab: LiveLab, what: Any) -> None:
    asyncio.run_coroutine_threadsafe(what, lab.loop).result(30)
