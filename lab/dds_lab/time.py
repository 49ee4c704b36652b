"""Time for actors: real, on an asyncio loop, or virtual, jumping from timer to timer.

An actor takes the time, timers and random numbers only from here, so the same actors run in either. Under virtual time a run
depends on nothing but its seed.
"""

import asyncio
import hashlib
import heapq
from collections import deque
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, Protocol

MICROSECONDS = 1_000_000


class Timer(Protocol):
    """A pending call; `cancel` prevents it."""

    def cancel(self) -> None: ...


class Time(Protocol):
    """An actor's source of time and randomness."""

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC."""

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, `seconds` from now. Calls due at the same instant run in the order in which they were requested."""

    def random(self, name: str) -> Random:
        """A random stream for the owner of this name. The same seed and name give the same numbers."""


def seeded(seed: int, name: str) -> Random:
    """A random stream that depends only on the seed and the name (not on the process, as `hash` would)."""
    return Random(hashlib.sha256(f"{seed}/{name}".encode()).digest())


class _Due(list[Any]):
    """[instant, number of the request, call]. A list, since the heap compares lists without Python code; instant and number are
    unique."""

    __slots__ = ()

    def cancel(self) -> None:
        self[2] = None


class VirtualTime:
    """A discrete-event loop: time stands still during a call and then jumps to the next timer."""

    def __init__(self, seed: int, start: int) -> None:
        self._seed = seed
        self._now = start
        self._due: list[_Due] = []
        self._soon: deque[_Due] = deque()
        """Calls for the present instant, requested at this instant. They run after those requested earlier."""
        self._order = 0

    def now(self) -> int:
        return self._now

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        self._order += 1
        delay = round(seconds * MICROSECONDS) if seconds else 0
        if delay > 0:
            due = _Due((self._now + delay, self._order, call))
            heapq.heappush(self._due, due)
        else:
            due = _Due((self._now, self._order, call))
            self._soon.append(due)
        return due

    def random(self, name: str) -> Random:
        return seeded(self._seed, name)

    def run(self, until: int) -> None:
        """Run everything due up to and including `until`, then stand at `until`."""
        while (call := self._next(until)) is not None:
            call()
        self._now = max(self._now, until)

    def step(self) -> bool:
        """Jump to the next timer and call it. False if there is none."""
        call = self._next(inf)
        if call is not None:
            call()
        return call is not None

    def next_at(self) -> int | None:
        """The instant of the next timer; None if there is none."""
        instants = [due[0] for due in (*self._soon, *self._due) if due[2] is not None]
        return min(instants, default=None)

    def _next(self, until: float) -> Callable[[], None] | None:
        """Jump to the next timer up to `until` and return its call; None if there is none."""
        due, soon = self._due, self._soon
        call: Callable[[], None] | None
        while True:
            if soon and self._now <= until and not (due and due[0][0] == self._now):
                call = soon.popleft()[2]
            elif due and due[0][0] <= until:
                at, _, call = heapq.heappop(due)
                if call is not None:
                    self._now = at
            else:
                return None
            if call is not None:
                return call


class Timers:
    """Pending calls, one for each key. A new call replaces the one before."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._due: dict[str, Timer] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._due

    def after(self, key: str, seconds: float, call: Callable[[], None]) -> None:
        self.cancel(key)

        def due() -> None:
            self._due.pop(key, None)
            call()

        self._due[key] = self._time.after(seconds, due)

    def cancel(self, key: str) -> None:
        """Cancel the call of this key, if any is pending."""
        timer = self._due.pop(key, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        for timer in self._due.values():
            timer.cancel()
        self._due.clear()


class RealTime:
    """Wall-clock time on a running asyncio loop. With `speed` 10, an hour in the lab takes six minutes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wall: Callable[[], int], seed: int, speed: float = 1.0) -> None:
        """`wall` gives microseconds since 1970-01-01 UTC. It is read once; then the loop's clock counts."""
        if speed <= 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self._loop = loop
        self._start = wall()
        self._loop_start = loop.time()
        self._seed = seed
        self._speed = speed

    def now(self) -> int:
        passed = (self._loop.time() - self._loop_start) * self._speed
        return self._start + round(passed * MICROSECONDS)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, seconds) / self._speed, call)

    def random(self, name: str) -> Random:
        return seeded(self._seed, name)
