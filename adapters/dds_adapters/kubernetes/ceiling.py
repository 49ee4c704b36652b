"""How often a process may ask for one resource of a server in trouble, whoever of its threads asks.

Each of them holds back by itself; here is what they come to together. Only requests that failed and those without an answer
yet count, so that a sound server is never held up, and one failure among many answers costs nothing. Never waits.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from dds_adapters.kubernetes.backoff import WINDOW

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
