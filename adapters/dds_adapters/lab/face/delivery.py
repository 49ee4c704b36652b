"""A watch on its way to one client: what comes is sent at once when it is quiet, and in bundles when it is busy.

A reader that is too slow is given up; what waits for it holds references to lines that all watches share. Never blocks.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from dds_adapters.lab.time import MICROSECONDS, Time, Timer

BUNDLE_S = 0.01
"""Between two writes to one client at least; a write costs far more than the line in it."""
BUNDLE_LINES = 64
WAITING_BYTES = 16 * 1024 * 1024
"""How much may wait for a reader, beyond what was there when it began."""
STUCK_S = 10.0
"""How long the end of a watch waits for a reader that does not read."""


class Lines(Protocol):
    """A stream of lines, as the API server gives it or as faults make of it."""

    @property
    def closed(self) -> bool: ...
    @property
    def due(self) -> int | None: ...
    def take(self) -> list[bytes]: ...
    def on_ready(self, call: Callable[[], None] | None) -> None: ...
    def tick(self) -> None: ...
    def close(self) -> None: ...


class Outlet(Protocol):
    """Where the lines go."""

    def write(self, lines: list[bytes]) -> None: ...
    def finish(self) -> None:
        """All that there was has been written."""
        ...

    def give_up(self) -> None:
        """The client does not take it: drop the connection."""
        ...


class Delivery:
    """From a stream to an outlet, until either ends."""

    def __init__(
        self, stream: Lines, outlet: Outlet, now: Callable[[], int], time: Time, loop: asyncio.AbstractEventLoop
    ) -> None:
        """`now` is the clock that the stream's `due` is told by."""
        self._stream = stream
        self._outlet = outlet
        self._now = now
        self._time = time
        self._loop = loop
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._allowed = WAITING_BYTES
        self._paused = False
        self._bundle: asyncio.Handle | None = None
        self._sent_at = float("-inf")
        self._timer: Timer | None = None
        self._armed: int | None = None
        self._stuck: asyncio.Handle | None = None
        self._over = False

    def start(self) -> None:
        """Send what there is, and go on."""
        self._collect()
        self._allowed += self._size
        if not self._over:
            self._stream.on_ready(self._ready)

    def pause(self) -> None:
        """The client's buffers are full."""
        self._paused = True

    def resume(self) -> None:
        """There is room again."""
        self._paused = False
        self._push()

    def end(self) -> None:
        """The server's wish: no more events, and a proper end."""
        self._stream.close()
        self._collect()

    def drop(self) -> None:
        """The client is gone."""
        self._over = True
        self._stream.on_ready(None)
        self._stream.close()
        for each in (self._bundle, self._timer, self._stuck):
            if each is not None:
                each.cancel()
        self._waiting.clear()

    def _ready(self) -> None:
        if self._bundle is not None or self._over:
            return
        wait = self._sent_at + BUNDLE_S - self._loop.time()
        self._bundle = self._loop.call_later(wait, self._collect) if wait > 0 else self._loop.call_soon(self._collect)

    def _collect(self) -> None:
        self._bundle = None
        if self._over:
            return
        self._sent_at = self._loop.time()
        lines = self._stream.take()
        self._arm()
        self._waiting.extend(lines)
        self._size += sum(map(len, lines))
        if self._size > self._allowed and self._paused:
            self._outlet.give_up()
            return
        self._push()

    def _push(self) -> None:
        waiting = self._waiting
        while waiting and not self._paused and not self._over:
            lines = list(islice(waiting, BUNDLE_LINES))
            for _ in lines:
                waiting.popleft()
            self._size -= sum(map(len, lines))
            self._outlet.write(lines)
        if not self._stream.closed or self._over:
            return
        if not waiting:
            self.drop()
            self._outlet.finish()
        elif self._stuck is None:
            self._stuck = self._loop.call_later(STUCK_S, self._outlet.give_up)

    def _arm(self) -> None:
        """Be called when the stream wants it; that may come closer with what was taken."""
        due = self._stream.due
        if due == self._armed or due is None or self._over:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed = due
        self._timer = self._time.after(max(0.0, (due - self._now()) / MICROSECONDS), self._tick)

    def _tick(self) -> None:
        self._timer = self._armed = None
        if not self._over:
            self._stream.tick()
            self._arm()
