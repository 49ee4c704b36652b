"""How often dds asks a failing server: `Backoff` says when to try again, `Limiter` how many requests may be sent meanwhile.

A sound server is never slowed down, and one failure among many answers costs nothing. A failing server gets at most ten requests
in ten seconds for one resource, until three good answers in a row or the window's end. Pure, not thread-safe; the caller gives
the instants (seconds of a monotonic clock) and the source of randomness, and does the waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random

FIRST, LONGEST = 0.8, 30.0
"""Seconds: the longest wait after the first failure, and after any."""
LASTING = 10.0
"""Seconds: after a success that lasted this long, the waits start again with the first."""
LONGEST_ASKED = 300.0
"""Seconds: the longest Retry-After that dds obeys."""
MOST, WINDOW = 10, 10.0
"""Requests that a whole process may send a failing server for one resource, in a window of so many seconds."""
REQUESTS = MOST - 1
"""The same for one sender: one request is left for the repetition with new credentials."""
RECOVERED = 3
"""So many good answers in a row end the limit before its time."""
MOMENT = 0.001
"""Seconds: no wait is shorter."""


class Backoff:
    """Waits between attempts: full jitter below a ceiling that doubles, from `first` to `longest` seconds."""

    def __init__(
        self, random: Random, first: float = FIRST, longest: float = LONGEST, lasting: float = LASTING
    ) -> None:
        self._random = random
        self._first, self._longest, self._lasting = first, longest, lasting
        self._ceiling = first
        self._since: float | None = None

    def succeeded(self, now: float) -> None:
        """An attempt succeeded, and what it began (an open watch) goes on from now."""
        if self._since is None:
            self._since = now

    def failed(self, now: float, asked: float = 0.0) -> float:
        """Seconds to wait before the next attempt; `asked` is the server's Retry-After, to which the jitter is added."""
        if self._since is not None and now - self._since >= self._lasting:
            self._ceiling = self._first
        self._since = None
        wait = self._random.uniform(0.0, self._ceiling)
        self._ceiling = min(self._longest, self._ceiling * 2)
        return min(asked, LONGEST_ASKED) + wait


class Limiter:
    """The limit for one resource. While the window has failed requests, these and the running ones together stay within
    `most`."""

    __slots__ = ("_failed", "_good", "_most", "_window", "running")

    def __init__(self, most: int = REQUESTS, window: float = WINDOW) -> None:
        self.running = 0
        """Number of unanswered requests; the sender counts them up and down."""
        self._most, self._window = most, window
        self._failed: deque[float] = deque()
        self._good = 0

    def wait(self, now: float, more: int = 1) -> float:
        """Seconds until `more` requests may be sent, if no running request ends before."""
        while self._failed and now - self._failed[0] >= self._window:
            self._failed.popleft()
        over = len(self._failed) + self.running + more - self._most
        if not self._failed or over <= 0:
            return 0.0
        return max(MOMENT, self._failed[min(over, len(self._failed)) - 1] + self._window - now)

    def failed(self, instants: Iterable[float]) -> None:
        """Requests failed; each counts from its instant."""
        self._failed.extend(instants)
        self._good = 0

    def succeeded(self) -> None:
        self._good += 1
        if self._good >= RECOVERED:
            self._failed.clear()
