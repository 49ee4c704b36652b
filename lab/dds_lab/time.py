"""Time for actors: real, on an asyncio loop, or virtual, jumping from timer to timer.

An actor takes the time, timers and random numbers only from here, so the same actors run in either. Under virtual time a run
depends on nothing but its seed.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Protocol

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


class _Due:
    """A pending call."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


ORDER_BITS = 48
"""Of a key: the number of the request, below the instant. One number is compared faster than a pair."""


class VirtualTime:
    """A discrete-event loop: time stands still during a call and then jumps to the next timer."""

    def __init__(self, seed: int, start: int) -> None:
        self._seed = seed
        self._now = start
        self._keys: list[int] = []
        """A heap with the keys of what is due later: instant, then number of the request."""
        self._due: dict[int, _Due] = {}
        self._soon: deque[_Due] = deque()
        """Calls for the present instant, requested at this instant. They run after those requested earlier."""
        self._order = 0

    def now(self) -> int:
        return self._now

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        due = _Due(call)
        delay = round(seconds * MICROSECONDS) if seconds else 0
        if delay > 0:
            self._order += 1
            key = self._now + delay << ORDER_BITS | self._order
            self._due[key] = due
            heappush(self._keys, key)
        else:
            self._soon.append(due)
        return due

    def random(self, name: str) -> Random:
        return seeded(self._seed, name)

    def run(self, until: int) -> None:
        """Run everything due up to and including `until`, then stand at `until`."""
        self._run(until)
        self._now = max(self._now, until)

    def step(self) -> bool:
        """Jump to the next timer and call it. False if there is none."""
        return self._run(inf, once=True)

    def next_at(self) -> int | None:
        """The instant of the next timer; None if there is none."""
        if any(due.call is not None for due in self._soon):
            return self._now
        first = min((key for key, due in self._due.items() if due.call is not None), default=None)
        return None if first is None else first >> ORDER_BITS

    def _run(self, until: float, once: bool = False) -> bool:
        """Jump from timer to timer up to `until` and call each, or `once` only the first. Whether that one was called."""
        keys, due, soon = self._keys, self._due, self._soon
        end = inf if until == inf else int(until) + 1 << ORDER_BITS
        while True:
            if soon and self._now <= until and not (keys and keys[0] >> ORDER_BITS == self._now):
                call = soon.popleft().call
            elif keys and keys[0] < end:
                key = heappop(keys)
                call = due.pop(key).call
                if call is not None:
                    self._now = key >> ORDER_BITS
            else:
                return False
            if call is not None:
                call()
                if once:
                    return True


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
