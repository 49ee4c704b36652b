"""A watch on its way to one client, at the beat of the face. It never blocks.

A reader that is too slow is given up; what waits for it are bundles that watches which see the same share.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from dds_adapters.lab.face.pulse import Pulse
from dds_adapters.lab.time import MICROSECONDS, Time, Timer

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

    def write(self, lines: bytes) -> None: ...
    def finish(self) -> None:
        """All that there was has been written."""
        ...

    def give_up(self) -> None:
        """The client does not take it: drop the connection."""
        ...


class Delivery:
    """From a stream to an outlet, until either ends."""

    def __init__(
        self,
        stream: Lines,
        outlet: Outlet,
        pulse: Pulse,
        now: Callable[[], int],
        time: Time,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`now` is the clock that the stream's `due` is told by."""
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
        """Send what there is, and go on."""
        self._collect(beginning=True)
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
