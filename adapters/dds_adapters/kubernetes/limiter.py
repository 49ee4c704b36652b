"""How often a process may ask for one resource of a server in trouble, whoever of its threads asks.

Each of them holds back by itself; here is what they come to together. Only requests that failed and those without an answer
yet count, so that a sound server is never held up, and one failure among many answers costs nothing. Never waits.
"""

from __future__ import annotations

from collections import deque
from random import Random
from threading import Lock

# -- backoff -----------------------------------------------------------------------------------------------------------

# When to ask a server in trouble again: later each time, at random, never more often than it asks for.
#
# Pure: instants are seconds of any clock that does not go back, and are given; so is the source of randomness.


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


# -- ceiling -----------------------------------------------------------------------------------------------------------

MOST = 10
"""Requests for one resource that a server in trouble gets in `WINDOW` seconds."""
RECOVERED = 3
"""So many answers in a row end a trouble before its time."""


class Ceiling:
    """Of one resource. From any thread; instants are seconds of a clock that does not go back."""

    __slots__ = ("_answers", "_failed", "_lock", "_running")

    def __init__(self) -> None:
        self._lock = Lock()
        self._failed: deque[float] = deque()
        self._running = 0
        self._answers = 0

    def begins(self, now: float) -> bool:
        """A request is about to be sent; no when it must not be. Each yes is followed by `ended`."""
        with self._lock:
            while self._failed and now - self._failed[0] >= WINDOW:
                self._failed.popleft()
            if self._failed and len(self._failed) + self._running >= MOST:
                return False
            self._running += 1
            return True

    def ended(self, now: float, code: int) -> None:
        """It was answered with this HTTP status, or not at all (0)."""
        with self._lock:
            self._running -= 1
            if code in (0, 401, 429) or code >= 500:
                self._failed.append(now)
                self._answers = 0
                return
            self._answers += 1
            if self._answers >= RECOVERED:
                self._failed.clear()
