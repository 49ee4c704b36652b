"""How many devices each pool had free over time: listed in it, without a taint that keeps the scheduler away, and in no claim;
and how many of those that it shows are ordered."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import NamedTuple

from dds_core.model import DeviceKey, Slice
from dds_core.scaler.model import Cell, PoolKey, is_tainted


class Stocked(NamedTuple):
    """From an instant (microseconds) on the pool has so many free devices."""

    at: int
    pool: PoolKey
    free: int


class _Part(NamedTuple):
    """A slice of a pool: its open devices, and how many of them are in no claim."""

    generation: int
    slices: int
    open: frozenset[str]
    free: int


class Stock:
    """`changes`: in order of time. A pool that the scheduler sees incomplete keeps its last number until it is complete."""

    def __init__(self) -> None:
        self.changes: list[Stocked] = []
        self._parts: dict[PoolKey, dict[str, _Part]] = defaultdict(dict)
        self._taken: set[DeviceKey] = set()
        self._last: dict[PoolKey, int] = {}
        self._shown: dict[PoolKey, int] = {}
        self._ordered = Counter[PoolKey]()
        self._ordered_at: dict[Cell, tuple[PoolKey, int]] = {}

    def ordered(self, cell: Cell, pool: PoolKey, number: int) -> bool:
        """So many devices of the pool are ordered at a node and have not come yet; whether that is news."""
        before, last = self._ordered_at.pop(cell, (pool, 0))
        self._ordered[before] -= last
        if number:
            self._ordered_at[cell] = pool, number
            self._ordered[pool] += number
        return (before, last) != (pool, number)

    def lacks(self, pool: PoolKey, number: int) -> bool:
        """Whether the pool, if it is whole, shows fewer than so many devices that are not ordered, in a claim or not."""
        return pool in self._shown and self._shown[pool] < self._ordered[pool] + number

    def listed(self, before: Slice | None, now: Slice | None, at: int) -> None:
        """A slice was made, has changed, or was deleted. Those of nodes do not count."""
        for row in (before, now):
            if row is None or row.node:
                continue
            pool = (row.driver, row.pool)
            if row is before:
                self._parts[pool].pop(row.uid, None)
            else:
                names = frozenset(name for name, one in row.devices.items() if not (one.taints and is_tainted(one)))
                free = sum((*pool, name) not in self._taken for name in names)
                self._parts[pool][row.uid] = _Part(row.generation, row.slices, names, free)
        for row in (before, now):
            if row is not None and not row.node:
                self._count((row.driver, row.pool), at)

    def held(self, key: DeviceKey, taken: bool, at: int) -> None:
        """A claim has got the device, or the last one has given it back."""
        (self._taken.add if taken else self._taken.discard)(key)
        parts = self._parts.get(key[:2], {})
        for uid, part in parts.items():
            if key[2] in part.open:
                parts[uid] = part._replace(free=part.free + (-1 if taken else 1))
                return self._count(key[:2], at)

    def cut(self, before: int) -> None:
        """Forget what was before an instant, except the last number of each pool, which stays in force."""
        place = bisect_left(self.changes, before, key=lambda one: one.at)
        last = {one.pool: one for one in self.changes[:place]}
        self.changes[:place] = sorted(last.values(), key=lambda one: one.at)

    def _count(self, pool: PoolKey, at: int) -> None:
        parts = self._parts[pool].values()
        newest = max((one.generation for one in parts), default=0)
        current = [one for one in parts if one.generation == newest]
        self._shown.pop(pool, None)
        if parts and len(current) != max(one.slices for one in current):
            return
        if parts:
            self._shown[pool] = sum(len(one.open) for one in current)
        free = sum(one.free for one in current)
        if self._last.get(pool) == free:
            return
        self._last[pool] = free
        if self.changes and self.changes[-1].at == at and self.changes[-1].pool == pool:
            self.changes.pop()
        self.changes.append(Stocked(at, pool, free))
