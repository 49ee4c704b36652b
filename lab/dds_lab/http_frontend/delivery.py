"""Sends watches to clients in beats: all lines since the last beat are written together. Nothing here blocks.

A write to a socket costs far more than a line in it. After a quiet time lines are sent at once, in busy times in bundles, and a
bundle that many watches share is joined only once. A client that reads too slowly is disconnected.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from dds_lab.faults.wire import Lines
from dds_lab.time import MICROSECONDS, Time, Timer

PERIOD_S = 0.01
BUNDLE_LINES = 64


class Pulse:
    """The beat of one frontend: calls everything that was asked for since the last beat."""

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
        """The lines joined to bundles; within a beat equal lines give the same bytes object."""
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
                self._loop.call_soon(self._bundles.clear)  # keys are ids of lines: keep the lines alive until then
            found = self._bundles[key] = lines, b"".join(lines)
        return found[1]

    def _beat(self) -> None:
        self._last = self._loop.time()
        calls, self._calls = self._calls, []
        for call in calls:
            call()


WAITING_BYTES = 16 * 1024 * 1024
"""Most bytes that may wait for a reader, beyond those at its start."""
STUCK_S = 10.0
"""Seconds that the end of a watch waits for a client that does not read."""


class Sink(Protocol):
    """Receives the lines of a watch."""

    def write(self, lines: bytes) -> None: ...
    def finish(self) -> None:
        """All lines are written: end the answer."""
        ...

    def give_up(self) -> None:
        """The client does not read: abort the connection."""
        ...


class Delivery:
    """Carries lines from a stream to a sink until one of them ends."""

    def __init__(
        self,
        stream: Lines,
        outlet: Sink,
        pulse: Pulse,
        now: Callable[[], int],
        time: Time,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`now` is the clock of the stream's `due`."""
        self._stream = stream
        self._outlet = outlet
        self._pulse = pulse
        self._now = now
        self._time = time
        self._loop = loop
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._allowed = WAITING_BYTES
        self._paused = False
        self._asked = False
        self._timer: Timer | None = None
        self._armed: int | None = None
        self._stuck: asyncio.Handle | None = None
        self._over = False

    def start(self) -> None:
        """Send the existing lines, then all later ones."""
        self._collect(beginning=True)
        if not self._over:
            self._stream.on_ready(self._ready)

    def pause(self) -> None:
        """The socket's buffer is full."""
        self._paused = True

    def resume(self) -> None:
        """The socket's buffer has room again."""
        self._paused = False
        self._push()

    def end(self) -> None:
        """The server stops: send no more events, and end the watch properly."""
        self._stream.close()
        self._collect()

    def drop(self) -> None:
        """The client is gone."""
        self._over = True
        self._stream.on_ready(None)
        self._stream.close()
        for each in (self._timer, self._stuck):
            if each is not None:
                each.cancel()
        self._waiting.clear()

    def _ready(self) -> None:
        if not self._asked and not self._over:
            self._asked = True
            self._pulse.ask(self._beat)

    def _beat(self) -> None:
        self._asked = False
        if not self._over:
            self._collect()

    def _collect(self, beginning: bool = False) -> None:
        lines = self._stream.take()
        self._arm()
        if lines:
            for bundle in self._pulse.bundles(lines):
                self._waiting.append(bundle)
                self._size += len(bundle)
        if beginning:
            self._allowed += self._size
        if self._paused and self._size > self._allowed:
            self._outlet.give_up()
        else:
            self._push()

    def _push(self) -> None:
        waiting = self._waiting
        while waiting and not self._paused and not self._over:
            bundle = waiting.popleft()
            self._size -= len(bundle)
            self._outlet.write(bundle)
        if not self._stream.closed or self._over:
            return
        if not waiting:
            self.drop()
            self._outlet.finish()
        elif self._stuck is None:
            self._stuck = self._loop.call_later(STUCK_S, self._outlet.give_up)

    def _arm(self) -> None:
        """Set a timer for the stream's `due`, which may be earlier after lines were taken."""
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
