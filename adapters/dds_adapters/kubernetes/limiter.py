"""How often a server in trouble is asked: `Backoff` says when somebody may try again, `Limiter` how much all may send meanwhile.

A sound server is never held up, and one failure among many answers costs nothing. In trouble a resource costs it at most ten
requests in ten seconds, until three good answers in a row or the window's end. Pure: instants are seconds of any clock that does
not go back, and are given; so is the source of randomness. Nothing here waits, and nothing is for two threads at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random

FIRST, LONGEST = 0.8, 30.0
"""Seconds: the most that is waited after the first failure, and after any."""
LASTING = 10.0
"""A success that held for so many seconds lets the waits begin anew."""
LONGEST_ASKED = 300.0
"""The server's own wish is followed up to here."""
MOST, WINDOW = 10, 10.0
"""Requests for one resource that a server in trouble gets in so many seconds from a whole process."""
REQUESTS = MOST - 1
"""The same for one sender within it: one is left for a request that is repeated with new credentials."""
RECOVERED = 3
"""So many good answers in a row end a trouble before its time."""
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
        """An attempt has come to something that is going on (a watch is open) from now."""
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
    """For one resource. While some requests have failed within the window, these and those that are on their way stay within
    `most`, which no luck of the dice can lift."""

    __slots__ = ("_failed", "_good", "_most", "_window", "running")

    def __init__(self, most: int = REQUESTS, window: float = WINDOW) -> None:
        self.running = 0
        """How many are on their way: whoever sends them adds them, and takes them off again."""
        self._most, self._window = most, window
        self._failed: deque[float] = deque()
        self._good = 0

    def wait(self, now: float, more: int = 1) -> float:
        """Seconds until so many more may be sent, if none of those on their way comes to an end before."""
        while self._failed and now - self._failed[0] >= self._window:
            self._failed.popleft()
        over = len(self._failed) + self.running + more - self._most
        if not self._failed or over <= 0:
            return 0.0
        return max(MOMENT, self._failed[min(over, len(self._failed)) - 1] + self._window - now)

    def failed(self, instants: Iterable[float]) -> None:
        """Requests came to nothing; each counts from its instant."""
        self._failed.extend(instants)
        self._good = 0

    def succeeded(self) -> None:
        """One was answered well."""
        self._good += 1
        if self._good >= RECOVERED:
            self._failed.clear()
