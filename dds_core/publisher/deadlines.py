"""The instants that the publisher's picture waits for, and what each of them means."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.kit import deadlines as kit
from dds_core.kit.deadlines import Deadline
from dds_core.publisher.events import pool_of
from dds_core.publisher.indexes import Dirty
from dds_core.publisher.rules.pools import FOREVER, again_due, cooling_until
from dds_core.publisher.state import PoolPicture, stream_of

KINDS = kit.KINDS | {
    "gone": "what the fabric has not named any more for long enough is taken for gone",
    "readback": "what was published should be seen by now",
    "cooling": "the cool-down that a node's label asks for is over",
}

_UNKNOWN = "unknown"
"""Fabrics that no answer since the start has had."""


def _of(picture: PoolPicture, kind: str, of: str) -> Iterator[Deadline]:
    """The deadline of that name, if anything waits for it."""
    if kind == "readback":
        key = pool_of(of)
        row = picture.pools.get(key) if key is not None else None
        due = again_due(picture, key, row) if key is not None and row is not None else None
        if due is not None:
            yield Deadline(due, kind, of)
    elif kind == "gone" and (of == _UNKNOWN or of in picture.absent) and (due := picture.gone_due(of)):
        yield Deadline(due, kind, of)
    elif kind == "cooling" and (host := picture.host(of)) is not None:
        passed = picture.passed.get((kind, of)) or 0
        ends = [cooling_until(picture, host.labels, model) for model in picture.models]
        left = [end for end in ends if passed < end < FOREVER]
        if left:
            yield Deadline(min(left), kind, of)


class Agenda(kit.Agenda[PoolPicture]):
    """The deadlines of a picture in order; `refresh` after each group."""

    @classmethod
    def found(cls, picture: PoolPicture) -> Iterator[Deadline]:
        for name in (_UNKNOWN, *picture.absent):
            yield from _of(picture, "gone", name)
        for key in picture.pools:
            yield from _of(picture, "readback", stream_of(key))
        for host in picture.hosts.rows.values():
            yield from _of(picture, "cooling", host.name)

    def look(self, touched: Dirty) -> None:
        pools = (("readback", stream_of(key)) for key in touched.pools)
        hosts = (("cooling", name) for name in touched.hosts)
        for name in {("gone", _UNKNOWN), *touched.due, *pools, *hosts}:
            if name[0] in ("gone", "readback", "cooling"):
                self._replace((name,), _of(self._picture, *name))


deadlines = Agenda.deadlines
