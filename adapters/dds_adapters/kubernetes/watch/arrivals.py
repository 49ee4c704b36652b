"""The one queue between the threads that listen to the API server and the one thread that decides.

It holds the newest state of each object that the taker has not seen yet, never a history: while nobody takes (the log is away),
it grows with the number of objects and not with what happens to them, so that listening goes on. What an object's last
change was decides its place; a marker never overtakes an object of its resource. Nothing here reads an object.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

SYNCED = "SYNCED"
"""All that a full list of the resource told has come before this."""
STALE = "STALE"
"""Nothing was heard of the resource for longer than is usual; what is known of it may be old until the next SYNCED."""
LOST = "LOST"
"""The resource is not served, or may not be read: nothing comes until SYNCED. What was known of it is not gone for that."""


class Arrival(NamedTuple):
    """What came: an object (`type` ADDED, MODIFIED or DELETED, `raw` its JSON) or a marker (`raw` empty).

    `at` is the instant in microseconds at which it came; of arrivals in the order in which they are taken it never goes back.
    STALE came when the silence had lasted too long, also when nobody took anything then.
    `age`: for STALE, the seconds since something was heard. `since`: for SYNCED, an instant
    before anything of that list was asked; for STALE, the one from which a list has to be asked to make it good. `anew`: that a
    list was made because what was followed had come to an end.
    """

    resource: str
    type: str
    raw: bytes
    at: int
    age: int = 0
    since: int = 0
    anew: bool = False


class _Heard:
    """When a resource was last heard of, until when its silence means nothing (instants of the steady clock), and whether the
    taker has been told that it was silent for longer."""

    __slots__ = ("at", "told", "until")

    def __init__(self, at: float, until: float, told: bool) -> None:
        self.at = at
        self.until = until
        self.told = told


_Key = tuple[str, str]
_MARK = "\0"
"""Begins the second half of a marker's key, where an object has its uid."""


class DeltaQueue:
    """The queue. `put`, `mark` and `heard` are called by those who listen, `take` by the one who decides."""

    def __init__(
        self,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` gives microseconds since 1970-01-01 UTC, `steady` seconds of a clock that nobody sets."""
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
        """An object's newest state. ADDED says that the taker has never been told of this uid."""
        key = (resource, uid)
        with self._changed:
            before = self._waiting.pop(key, None)
            if before is not None:
                if type == DELETED and before.type == ADDED:
                    return  # came and went while nobody looked
                type = _joined(before.type, type)
            self._waiting[key] = Arrival(resource, type, raw, self._instant())
            if before is not None:
                self._behind(resource)
            self._changed.notify()

    def instant(self) -> int:
        """The instant now, in microseconds, as arrivals have it."""
        with self._changed:
            return self._instant()

    def mark(self, resource: str, marker: str, since: int = 0, *, anew: bool = False) -> None:
        """SYNCED (of a list that was begun at the instant `since`; `anew` as of an arrival) or LOST, after everything of the
        resource that was put so far."""
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
        """There was a sign of life just now; the next one is due within so many seconds. True when the taker has been told of a
        silence: only a full list, and SYNCED after it, makes that good."""
        at = self._steady()
        with self._changed:
            known = self._heard.get(resource)
            told = known is not None and known.told
            if known is None or at + within < known.until:  # the taker waits for too late an instant
                self._changed.notify()
            self._heard[resource] = _Heard(at, at + within, told)
            return told

    def ages(self) -> dict[str, float]:
        """By resource the seconds since something was heard of it."""
        with self._changed:
            at = self._steady()
            return {resource: at - one.at for resource, one in self._heard.items()}

    def take(self, timeout: float | None = None, limit: int | None = None) -> list[Arrival]:
        """What waits, the oldest first, at most `limit`; when there is nothing, wait for it at most so many seconds. Empty when
        the time is up, or after `wake`."""
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
        """Let the `take` that waits, or the next one, come back at once."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def _taken(self, limit: int | None) -> list[Arrival]:
        if limit is None or limit >= len(self._waiting):
            taken = list(self._waiting.values())
            self._waiting = OrderedDict()
        else:
            taken = [self._waiting.popitem(last=False)[1] for _ in range(limit)]
        self._given = taken[-1].at if taken else self._given
        return taken

    def _instant(self) -> int:
        self._last = max(self._last, self._now())
        return self._last

    def _behind(self, resource: str) -> None:
        """An object has moved back: a SYNCED of its resource that waits moves behind it."""
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
        """Seconds until `until` or the next silence that has to be told; None for ever."""
        instants = [one.until for one in self._heard.values() if not one.told]
        if until is not None:
            instants.append(until)
        at = self._steady()
        passed = until is not None and at >= until
        return 0.0 if passed else min((max(0.001, one - at) for one in instants), default=None)


def _joined(before: str, type: str) -> str:
    """What became of an object that waited, as the taker has to see it who has not seen that."""
    if type == DELETED:
        return DELETED
    return ADDED if before == ADDED else MODIFIED
