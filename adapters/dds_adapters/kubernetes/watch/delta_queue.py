"""The queue between the watching threads (one for each resource) and the one thread that decides.

The queue holds the newest state of each changed object, not its history. While the loop takes nothing (the log is unavailable),
the queue grows with the number of objects, not with the number of changes. An object's last change decides its place in the
queue, and a marker never overtakes an object of its resource. This module does not read objects.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

SYNCED = "SYNCED"
"""Every object of the last full list of the resource comes before this marker."""
STALE = "STALE"
"""No answer and no event of the resource for longer than usual: what is known may be out of date until the next SYNCED."""
LOST = "LOST"
"""The resource is not served, or dds may not read it. Nothing comes until SYNCED; the objects known so far still count."""


class Arrival(NamedTuple):
    """An object (`type` ADDED, MODIFIED or DELETED, `raw` its JSON) or a marker (`raw` empty).

    `at` is the arrival's instant in microseconds; it never decreases in the order in which arrivals are taken. A STALE arrives at
    the instant when the silence became too long, even if `take` is called later. `age` (STALE): seconds since the last sign of
    life. `since` (SYNCED): an instant before the list's first request; (STALE): only a list begun after this instant ends the
    staleness. `anew` (SYNCED): the list was made because the watch's history had ended. `first`: the instant of the
    object's first change since the last `take`, if there were several (a part of the object may have changed as early), else 0.
    If `take` leaves such objects behind, the last one taken has the earliest of theirs.
    """

    resource: str
    type: str
    raw: bytes
    at: int
    age: int = 0
    since: int = 0
    anew: bool = False
    first: int = 0


class _Heard:
    """By the steady clock: when the last sign of life came, until when silence is normal, and whether STALE is already in the
    queue."""

    __slots__ = ("at", "told", "until")

    def __init__(self, at: float, until: float, told: bool) -> None:
        self.at = at
        self.until = until
        self.told = told


_Key = tuple[str, str]
_MARK = "\0"
"""Prefix of the second half of a marker's key, where an object's key has the uid."""


class DeltaQueue:
    """The queue. Reflectors call `put`, `mark` and `heard`; the deciding loop calls `take`."""

    def __init__(
        self,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` gives microseconds since 1970-01-01 UTC, `steady` seconds of a monotonic clock."""
        self._now = now
        self._steady = steady
        self._changed = threading.Condition()
        self._waiting: OrderedDict[_Key, Arrival] = OrderedDict()
        self._heard: dict[str, _Heard] = {}
        self._last = self._given = 0
        self._woken = False

    def __len__(self) -> int:
        """How many objects and markers wait."""
        return len(self._waiting)

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        """Add an object's newest state. ADDED: no earlier state of this uid was ever put."""
        key = (resource, uid)
        with self._changed:
            before = self._waiting.pop(key, None)
            if before is not None:
                if type == DELETED and before.type == ADDED:
                    return  # created and deleted between two takes
                type = _joined(before.type, type)
            first = (before.first or before.at) if before is not None else 0
            self._waiting[key] = Arrival(resource, type, raw, self._instant(), first=first)
            if before is not None:
                self._behind(resource)
            self._changed.notify()

    def instant(self) -> int:
        """The instant now, in microseconds, by the clock of the arrivals."""
        with self._changed:
            return self._instant()

    def mark(self, resource: str, marker: str, since: int = 0, *, anew: bool = False) -> None:
        """Add SYNCED (of a list begun at the instant `since`; `anew` as in `Arrival`) or LOST after all that was put for the
        resource."""
        with self._changed:
            self._waiting.pop((resource, _MARK + SYNCED), None)
            if marker == LOST:
                self._heard.pop(resource, None)
            elif resource in self._heard:
                self._heard[resource].told = False
            key = (resource, _MARK + marker)
            self._waiting.pop(key, None)
            self._waiting[key] = Arrival(resource, marker, b"", self._instant(), since=since, anew=anew)
            self._changed.notify()

    def heard(self, resource: str, within: float) -> bool:
        """Note a sign of life; the next one is due within `within` seconds. True when STALE was queued before: then only a full
        list, with SYNCED after it, helps."""
        at = self._steady()
        with self._changed:
            known = self._heard.get(resource)
            told = known is not None and known.told
            if known is None or at + within < known.until:  # a waiting `take` would wake up too late
                self._changed.notify()
            self._heard[resource] = _Heard(at, at + within, told)
            return told

    def ages(self) -> dict[str, float]:
        """Seconds since the last sign of life, by resource."""
        with self._changed:
            at = self._steady()
            return {resource: at - one.at for resource, one in self._heard.items()}

    def take(self, timeout: float | None = None, limit: int | None = None) -> list[Arrival]:
        """Take at most `limit` arrivals, the oldest first; wait at most `timeout` seconds for the first one. Empty after that
        time, or after `wake`."""
        until = None if timeout is None else self._steady() + timeout
        with self._changed:
            while True:
                self._tell_silence()
                if self._waiting or self._woken:
                    self._woken = False
                    return self._taken(limit)
                wait = self._patience(until)
                if wait is not None and wait <= 0:
                    return []
                self._changed.wait(wait)

    def wake(self) -> None:
        """Let the waiting `take`, or the next one, return at once."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def _taken(self, limit: int | None) -> list[Arrival]:
        if limit is None or limit >= len(self._waiting):
            taken = list(self._waiting.values())
            self._waiting = OrderedDict()
        else:
            taken = [self._waiting.popitem(last=False)[1] for _ in range(limit)]
            firsts = [one.first for one in (taken[-1], *self._waiting.values()) if one.first]
            taken[-1] = taken[-1]._replace(first=min(firsts, default=0))
        self._given = taken[-1].at if taken else self._given
        return taken

    def _instant(self) -> int:
        self._last = max(self._last, self._now())
        return self._last

    def _behind(self, resource: str) -> None:
        """Move a waiting SYNCED of the resource behind the object that was just moved to the end."""
        key = (resource, _MARK + SYNCED)
        marker = self._waiting.pop(key, None)
        if marker is not None:
            self._waiting[key] = marker._replace(at=self._instant())

    def _tell_silence(self) -> None:
        at = self._steady()
        for resource, one in self._heard.items():
            if not one.told and at >= one.until:
                one.told = True
                key = (resource, _MARK + STALE)
                self._waiting.pop(key, None)
                since = max(self._given, self._instant() - round((at - one.until) * 1_000_000))
                self._waiting[key] = Arrival(resource, STALE, b"", since, int(one.until - one.at))
                self._waiting = OrderedDict(sorted(self._waiting.items(), key=lambda item: item[1].at))

    def _patience(self, until: float | None) -> float | None:
        """Seconds until `until` or until the next resource becomes stale; None: no limit."""
        instants = [one.until for one in self._heard.values() if not one.told]
        if until is not None:
            instants.append(until)
        at = self._steady()
        passed = until is not None and at >= until
        return 0.0 if passed else min((max(0.001, one - at) for one in instants), default=None)


def _joined(before: str, type: str) -> str:
    """Combine the type of an untaken change with the type of a newer change of the same object."""
    if type == DELETED:
        return DELETED
    return ADDED if before == ADDED else MODIFIED
