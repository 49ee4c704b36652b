"""Finds the reference scaler's interval in the instants at which it wrote.

It scans after each change of a claim or slice. Besides, each claim and slice ever seen has a timer, which begins with its first
scan. So a write that answers no change comes some intervals after an object was first seen. Of many objects one has a timer near
any instant: then nothing is found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import log

from dds_core.kit.policy import MICROSECONDS

ANSWERED = 0.3
"""A scan that begins within so many seconds of a change of a claim or slice answers that change."""
FIRST, DRIFT = 0.3, 0.006
"""An object's timer begins within so many seconds; an interval lasts so much longer (as part of it) than is configured."""
STRAY = 0.1
"""Part of the scans that other reasons may have."""
LONGEST, MOST = 300, 50
"""The longest interval that is looked for, in seconds; more scans, or more timers, tell nothing new."""
MUCH = 2.0
"""How much likelier (logarithm) something has to be than what is assumed otherwise."""


@dataclass
class Scans:
    """Instants in microseconds: when claims and slices were first `seen`, `changes` of them by others than the scaler, both in
    order, and when it wrote. What comes after more than `MOST` objects is not kept."""

    seen: list[int] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)

    def changed(self, at: int, new: bool) -> None:
        if len(self.seen) <= MOST:
            self.changes.append(at)
            self.seen += [at] * new

    def wrote(self, at: int) -> None:
        if len(self.seen) <= MOST:
            self.writes.append(at)

    @cached_property
    def unasked(self) -> Sequence[Sequence[float]]:
        """For each scan that answers no change, as far as its first write tells, the seconds since each object was seen."""
        rows = ([(at - one) / MICROSECONDS for one in self.seen if one < at] for at in self._unasked())
        return tuple(islice((row for row in rows if len(row) <= MOST), MOST))

    def _unasked(self) -> Iterator[int]:
        answered, last = round(ANSWERED * MICROSECONDS), 0
        for at in sorted(self.writes):
            place = bisect_left(self.changes, at)
            changed = self.changes[place - 1] if place else 0
            if at - max(last, changed) >= answered:
                yield at
            last = at

    @cached_property
    def interval(self) -> int | None:
        """In seconds. None if several are about as likely."""
        likely = sorted((sum(_likely(every, row) for row in self.unasked), -every) for every in range(1, LONGEST + 1))
        (second, _), (best, every) = likely[-2:]
        return -every if best > max(0.0, second) + MUCH else None

    def begin(self, every: int) -> list[float]:
        """How long after objects were seen their timers began, in seconds, ascending: for each object the least of its scans."""
        found: dict[int, float] = {}
        for row in self.unasked:
            hits = [(age % every, place) for place, age in enumerate(row) if age >= every and _ended(every, age)]
            if hits:
                late, place = min(hits)
                found[place] = min(late, found.get(place, late))
        return sorted(found.values())


def _ended(every: int, age: float) -> bool:
    """Whether an object's timer ended, so many seconds after the object was seen."""
    return age % every <= FIRST + DRIFT * age


def _likely(every: int, ages: Sequence[float]) -> float:
    """The logarithm of how much likelier a scan is with this interval than at any instant, by the seconds since each object was
    first seen."""
    begun = [age for age in ages if age >= every]
    windows = [(-age % every, FIRST + DRIFT * age) for age in begun]  # from the scan on, in the circle of an interval
    covered = end = min(float(every), max((0.0, *(ahead + wide - every for ahead, wide in windows))))
    for ahead, wide in sorted(windows):
        covered += max(0.0, min(every, ahead + wide) - max(ahead, end))
        end = max(end, ahead + wide)
    hit = any(_ended(every, age) for age in begun)
    return log(STRAY + ((1 - STRAY) * every / covered if hit else 0.0))
