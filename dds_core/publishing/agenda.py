"""The instants that the publisher's picture waits for: a pure function of it, in every mode.

Kinds: readback (a pool that does not show what was written may be written again), gone (a fabric or machine that answers leave
out counts as gone), retry (a refused write may be tried again), level (a pass over everything).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from dds_core.deadline import Deadline
from dds_core.publishing.fold import SECOND
from dds_core.publishing.picture import Dirty, PoolPicture, stream_of
from dds_core.publishing.rows import PoolKey
from dds_core.publishing.rules.pools import again_due

_FLEET = "fleet"


def of_pool(picture: PoolPicture, key: PoolKey) -> Iterator[Deadline]:
    row = picture.pools.get(key)
    due = again_due(picture, key, row) if row is not None else None
    if due is not None:
        yield Deadline(due, "readback", stream_of(key))


def of_fleet(picture: PoolPicture) -> Iterator[Deadline]:
    """Those that are few: of what is absent, of refused writes, of the level pass."""
    grace = picture.policy.gone_seconds * SECOND
    for name, row in picture.absent.rows.items():
        yield Deadline(row.since + grace, "gone", name)
    if picture.listed:
        yield Deadline(picture.listed_at + grace, "gone", "unknown")
    for (action, target), refusal in picture.refusals.rows.items():
        yield Deadline(refusal.until, "retry", f"{action}/{target}")
    if picture.policy.scan_interval_seconds:
        yield Deadline(picture.level_at + picture.policy.scan_interval_seconds * SECOND, "level", _FLEET)


def deadlines(picture: PoolPicture) -> set[Deadline]:
    """Every deadline of the picture that has not come back yet."""
    found = set(of_fleet(picture))
    for key in picture.pools:
        found.update(of_pool(picture, key))
    return {one for one in found if picture.passed.get((one.kind, one.of)) != one.due}


class Agenda:
    """The deadlines of a picture in order; `refresh` after each group."""

    def __init__(self, picture: PoolPicture) -> None:
        self._picture = picture
        self.rebuild()

    def rebuild(self) -> None:
        """Look at everything again."""
        self._due = {(one.kind, one.of): one.due for one in deadlines(self._picture)}
        self._fleet = {key for key in self._due if key[0] != "readback"}
        self._heap = [Deadline(due, *key) for key, due in self._due.items()]
        heapq.heapify(self._heap)

    def refresh(self, touched: Dirty) -> None:
        """Look again at what a group touched."""
        if touched.everything:
            self.rebuild()
            return
        for key in touched.pools:
            self._replace({("readback", stream_of(key))}, of_pool(self._picture, key))
        self._fleet = self._replace(self._fleet, of_fleet(self._picture))

    def _replace(self, keys: Iterable[tuple[str, str]], now: Iterable[Deadline]) -> set[tuple[str, str]]:
        """Of these keys, only what is in `now` stays due; gives the keys of that."""
        left, there = {key for key in keys if key in self._due}, set()
        for one in now:
            key = (one.kind, one.of)
            if self._picture.passed.get(key) == one.due:
                continue
            there.add(key)
            left.discard(key)
            if self._due.get(key) != one.due:
                self._due[key] = one.due
                heapq.heappush(self._heap, one)
        for key in left:
            del self._due[key]
        return there

    def has(self, one: Deadline) -> bool:
        """Whether this very deadline is still to come back."""
        return self._due.get((one.kind, one.of)) == one.due

    def next(self) -> Deadline | None:
        """The earliest deadline, None when there is none, or while the picture is not whole or a view is stale."""
        if not self._picture.synced or self._picture.stale:
            return None
        while self._heap:
            first = self._heap[0]
            if self._due.get((first.kind, first.of)) == first.due:
                return first
            heapq.heappop(self._heap)
        return None
