"""A watch's stream of lines with faults in it. No I/O and no timers of its own, as the stream that it wraps."""

import json
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from dds_lab.api import status
from dds_lab.faults.wire import MICROSECONDS, WatchEffects


class Lines(Protocol):
    """What is wrapped: the stream that the API server gives."""

    @property
    def closed(self) -> bool: ...
    @property
    def due(self) -> int | None: ...
    def take(self) -> list[bytes]: ...
    def on_ready(self, call: Callable[[], None] | None) -> None: ...
    def tick(self) -> None: ...
    def close(self) -> None: ...


class FaultyStream:
    """The same lines, some of them twice, late, or never."""

    def __init__(
        self,
        stream: Lines,
        effects: WatchEffects,
        now: Callable[[], int],
        random: Random,
        cut: Callable[[bytes], None],
    ) -> None:
        """`cut` is called once when the connection is to be cut, with what still goes out before (half a line, or
        nothing)."""
        self._stream = stream
        self._effects = effects
        self._now = now
        self._random = random
        self._late: deque[tuple[int, bytes]] = deque()
        self._ready: Callable[[], None] | None = None
        self._silent = False
        self._over = False
        self._cut = cut
        if effects.expired:
            stream.close()
            stream.take()

    def take(self) -> list[bytes]:
        """Lines that have come due since they were last taken."""
        if self._effects.expired and not self._over:
            self._over = True
            return [_expired_line()]
        if self._over:
            return []
        now = self._now()
        if self._effects.silent_at is not None and now >= self._effects.silent_at:
            self._fall_silent()
            return []
        lines = self._arrived(now)
        if self._effects.cut_at is None or now < self._effects.cut_at:
            return lines
        if not self._effects.mid_line:
            self._break(b"")
            return []
        if lines:
            self._break(lines[0][: len(lines[0]) // 2])
        return []

    def _arrived(self, now: int) -> list[bytes]:
        lines = [line for each in self._stream.take() for line in self._copies(each)]
        if self._effects.delay is None:
            return lines
        due = self._late[-1][0] if self._late else now
        for line in lines:
            due = max(due, now + round(self._effects.delay.draw(self._random) * MICROSECONDS))
            self._late.append((due, line))
        arrived = []
        while self._late and self._late[0][0] <= now:
            arrived.append(self._late.popleft()[1])
        return arrived

    def _copies(self, line: bytes) -> list[bytes]:
        share = self._effects.duplicates
        return [line, line] if share and self._random.random() < share else [line]

    def _fall_silent(self) -> None:
        self._silent = True
        self._late.clear()
        self._stream.on_ready(None)
        self._stream.close()

    def _break(self, rest: bytes) -> None:
        self._over = True
        self._stream.on_ready(None)
        self._stream.close()
        self._cut(rest)

    def on_ready(self, call: Callable[[], None] | None) -> None:
        """As of the stream that is wrapped."""
        self._ready = call
        if self._silent:
            return
        self._stream.on_ready(call)

    @property
    def closed(self) -> bool:
        """No line will come any more; a silent stream never says so."""
        if self._over:
            return True
        return not self._silent and not self._effects.expired and self._stream.closed and not self._late

    @property
    def due(self) -> int | None:
        """The instant at which `tick` is to be called."""
        if self._over or self._silent:
            return None
        instants = [self._stream.due, self._effects.cut_at, self._effects.silent_at]
        if self._late:
            instants.append(self._late[0][0])
        now = self._now()
        return min((each for each in instants if each is not None and each > now), default=None)

    def tick(self) -> None:
        """Let what has come due be taken."""
        self._stream.tick()
        if not (self._over or self._silent) and self._ready is not None:
            self._ready()

    def close(self) -> None:
        """The client is gone, or the server ends."""
        self._over = True
        self._late.clear()
        self._stream.close()


def _expired_line() -> bytes:
    told = status.expired("too old resource version: a fault was asked for").status
    return json.dumps({"type": "ERROR", "object": told}, separators=(",", ":")).encode() + b"\n"
