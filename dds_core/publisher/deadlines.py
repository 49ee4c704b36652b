"""The instants that the publisher's picture waits for: a pure function of it, in every mode.

Kinds: readback (a pool that does not show what was written may be written again), gone (a fabric or machine that answers leave
out counts as gone), retry (a refused write may be tried again), level (a pass over everything).
"""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.kit.deadlines import Deadline, Deadlines
from dds_core.publisher.fold import SECOND, pool_of
from dds_core.publisher.rules.pools import again_due
from dds_core.publisher.state import Dirty, PoolPicture, stream_of

_UNKNOWN = "unknown"
"""Fabrics that no answer since the start has had."""
_ALWAYS = (("gone", _UNKNOWN), ("level", "fleet"))
"""Deadlines that are looked at after every group: what they rest on changes with hardly any."""


def due(picture: PoolPicture, kind: str, of: str) -> int | None:
    """The instant of a deadline, None when nothing waits for it."""
    match kind:
        case "readback":
            key = pool_of(of)
            row = picture.pools.get(key) if key is not None else None
            return again_due(picture, key, row) if key is not None and row is not None else None
        case "gone":
            absent = picture.absent.get(of)
            since = absent.since if absent is not None else picture.listed_at if of == _UNKNOWN else 0
            return since + picture.policy.gone_seconds * SECOND if since else None
        case "retry":
            action, _, target = of.partition("/")
            refusal = picture.refusals.get((action, target))
            return refusal.until if refusal is not None else None
        case _:
            pause = picture.policy.scan_interval_seconds
            return picture.level_at + pause * SECOND if pause else None


def _names(picture: PoolPicture) -> Iterator[tuple[str, str]]:
    """Every deadline that there could be, as (kind, of)."""
    yield from _ALWAYS
    for key in picture.pools:
        yield "readback", stream_of(key)
    for name in picture.absent:
        yield "gone", name
    for refused in picture.refusals:
        yield "retry", "/".join(refused)


def deadlines(picture: PoolPicture) -> set[Deadline]:
    """Every deadline of the picture that has not come back yet."""
    found = {Deadline(at, *name) for name in _names(picture) if (at := due(picture, *name)) is not None}
    return {one for one in found if picture.passed.get((one.kind, one.of)) != one.due}


class Agenda:
    """The deadlines of a picture in order; `refresh` after each group."""

    def __init__(self, picture: PoolPicture) -> None:
        self._picture = picture
        self.rebuild()

    def rebuild(self) -> None:
        """Look at everything again."""
        self._deadlines = Deadlines(deadlines(self._picture))

    def refresh(self, touched: Dirty) -> None:
        """Look again at what a group touched."""
        if touched.everything:
            self.rebuild()
            return
        for name in {*_ALWAYS, *touched.due, *(("readback", stream_of(key)) for key in touched.pools)}:
            self._look(name)

    def _look(self, name: tuple[str, str]) -> None:
        at = due(self._picture, *name)
        if at is None or self._picture.passed.get(name) == at:
            self._deadlines.drop(name)
        else:
            self._deadlines.put(name, at)

    def has(self, one: Deadline) -> bool:
        """Whether this very deadline is still to come back."""
        return self._deadlines.has(one)

    def next(self) -> Deadline | None:
        """The earliest deadline, None when there is none, or while the picture is not whole or a view is stale."""
        return self._deadlines.first() if self._picture.synced and not self._picture.stale else None
