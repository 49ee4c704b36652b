"""When to ask a server in trouble again: later each time, at random, never more often than it asks for.

Pure: instants are seconds of any clock that does not go back, and are given; so is the source of randomness.
"""

from __future__ import annotations

from collections import deque
from random import Random

FIRST, LONGEST = 0.8, 30.0
"""Seconds: the most that is waited after the first failure, and after any."""
LASTING = 10.0
"""A success that held for so many seconds ends the trouble."""
LONGEST_ASKED = 300.0
"""The server's own wish is followed up to here."""
REQUESTS, WINDOW = 9, 10.0
"""A server in trouble gets at most so many requests in so many seconds; a tenth is left for the one that is repeated with new
credentials."""


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


class Pace:
    """Holds requests to a server in trouble under a ceiling that no luck of the dice can lift; a sound server is asked freely."""

    def __init__(self, requests: int = REQUESTS, window: float = WINDOW) -> None:
        self._window = window
        self._asked: deque[float] = deque(maxlen=requests)
        self._failed: float | None = None

    def failed(self, now: float) -> None:
        """A request came to nothing, now."""
        self._failed = now

    def wait(self, now: float) -> float:
        """Seconds until the next request may be sent; call `sent` when it is."""
        if self._failed is None or now - self._failed >= self._window or len(self._asked) < (self._asked.maxlen or 0):
            return 0.0
        return max(0.0, self._asked[0] + self._window - now)

    def sent(self, now: float) -> None:
        """A request is sent, now."""
        self._asked.append(now)
