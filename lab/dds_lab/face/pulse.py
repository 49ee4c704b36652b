"""One beat for all watches: what came since the last one goes out together, and what many see alike is joined once.

At once when it was quiet, in bundles when it is busy: a write to a socket costs far more than a line in it.
"""

import asyncio
from collections.abc import Callable

PERIOD_S = 0.01
BUNDLE_LINES = 64


class Pulse:
    """The beat of one face."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = float("-inf")
        self._calls: list[Callable[[], None]] = []
        self._bundles: dict[tuple[int, ...], tuple[list[bytes], bytes]] = {}

    def ask(self, call: Callable[[], None]) -> None:
        """Call at the next beat."""
        if not self._calls:
            wait = self._last + PERIOD_S - self._loop.time()
            if wait > 0:
                self._loop.call_later(wait, self._beat)
            else:
                self._loop.call_soon(self._beat)
        self._calls.append(call)

    def bundles(self, lines: list[bytes]) -> list[bytes]:
        """The lines joined, many at a time; the same bytes for the same lines within a beat."""
        if len(lines) <= BUNDLE_LINES:
            return [self._joined(lines)]
        return [self._joined(lines[at : at + BUNDLE_LINES]) for at in range(0, len(lines), BUNDLE_LINES)]

    def _joined(self, lines: list[bytes]) -> bytes:
        if len(lines) == 1:
            return lines[0]
        key = tuple(map(id, lines))
        found = self._bundles.get(key)
        if found is None:
            if not self._bundles:
                self._loop.call_soon(self._bundles.clear)  # the lines stay alive as long as their ids are keys
            found = self._bundles[key] = lines, b"".join(lines)
        return found[1]

    def _beat(self) -> None:
        self._last = self._loop.time()
        calls, self._calls = self._calls, []
        for call in calls:
            call()
