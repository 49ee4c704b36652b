"""The time that a running scaler goes by: the API server's, counted on by a clock that nobody sets.

Facts of one log are made by one host after another, and their wall clocks differ; deadlines would come late or early by as much.
The API server is the one that all of them ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SECOND = 1_000_000
TOLERATED = 2 * SECOND
"""A difference that the server's whole seconds and the way of its answer explain."""


class LiveClock:
    """Instants in microseconds since 1970-01-01 UTC that never go back."""

    def __init__(
        self,
        wall: Callable[[], int] = lambda: time.time_ns() // 1000,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steady = steady
        self._began = steady()
        self._base = wall()
        self.skew = 0
        """What the host's clock was ahead of the server's, in microseconds; 0 while it is not worth speaking of."""

    def now(self) -> int:
        """The instant."""
        return self._base + round((self._steady() - self._began) * SECOND)

    def go_by(self, server: int) -> None:
        """The server's clock shows `server` (to the second, 0 when it did not tell); before the first `now` that matters."""
        skew = self.now() - server
        if server and abs(skew) > TOLERATED:
            self.skew = skew
            self._base -= skew

    def not_before(self, instant: int) -> int:
        """Go on from the newest fact where that lies ahead; gives by how much that was."""
        ahead = max(0, instant - self.now())
        self._base += ahead
        return ahead
