"""Time for actors: the real one on an asyncio loop, or a virtual one that jumps from timer to timer.

An actor asks what time it is, to be called later, and for random numbers, and for nothing else; so the same actors run in either.
Under virtual time a run is a function of its seed.
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
    """A call that is to come; `cancel` makes sure that it does not."""

    def cancel(self) -> None: ...


class Time(Protocol):
    """What an actor may know of time and chance."""

    def now(self) -> int:
        """The instant, in microseconds since 1970-01-01 UTC."""
        ...

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once when `seconds` have passed. Calls due at one instant come in the order in which they were asked for."""
        ...

    def random(self, name: str) -> Random:
        """A stream of random numbers of its own for whoever is called `name`; the same seed and name give the same numbers."""
        ...


def seeded(seed: int, name: str) -> Random:
    """A random stream that depends on the seed and the name alone (not on the process, as `hash` would)."""
    return Random(hashlib.sha256(f"{seed}/{name}".encode()).digest())


class _Due(list[Any]):
    """Instant, order of asking, call. It is a list, since the heap compares lists without any Python code; no two are equal in
    instant and order."""

    __slots__ = ()

    def cancel(self) -> None:
        self[2] = None


class VirtualTime:
    """A discrete-event loop: it stands still while something is called and jumps to the next timer afterwards."""

    def __init__(self, seed: int, start: int) -> None:
        self._seed = seed
        self._now = start
        self._due: list[_Due] = []
        self._soon: deque[_Due] = deque()
        """What is due at the present instant and was asked for in it: it comes after what was asked for before."""
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
        """Call everything that is due up to the instant `until` (included), then stand at `until`."""
        while (call := self._next(until)) is not None:
            call()
        self._now = max(self._now, until)

    def step(self) -> bool:
        """Go to the next timer and call it. False when there is none."""
        call = self._next(inf)
        if call is not None:
            call()
        return call is not None

    def next_at(self) -> int | None:
        """The instant of the next timer, None when there is none."""
        instants = [due[0] for due in (*self._soon, *self._due) if due[2] is not None]
        return min(instants, default=None)

    def _next(self, until: float) -> Callable[[], None] | None:
        """Go to the next timer up to the instant `until`; its call, None when there is no such timer."""
        due, soon = self._due, self._soon
        call: Callable[[], None] | None
        while True:
            if soon and self._now <= until and not (due and due[0][0] == self._now):
                call = soon.popleft()[2]
            elif due and due[0][0] <= until:
                self._now, _, call = heapq.heappop(due)
            else:
                return None
            if call is not None:
                return call


class Timers:
    """Calls that are to come, one for each key: a new one takes the place of the one before."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._due: dict[str, Timer] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._due

    def after(self, key: str, seconds: float, call: Callable[[], None]) -> None:
        """Call once when `seconds` have passed."""
        self.cancel(key)

        def due() -> None:
            self._due.pop(key, None)
            call()

        self._due[key] = self._time.after(seconds, due)

    def cancel(self, key: str) -> None:
        """What was to come for this key does not; without effect where nothing was."""
        timer = self._due.pop(key, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Nothing comes any more."""
        for timer in self._due.values():
            timer.cancel()
        self._due.clear()


class RealTime:
    """Wall-clock time on a running asyncio loop. With `speed` 10 an hour of the lab takes six minutes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wall: Callable[[], int], seed: int, speed: float = 1.0) -> None:
        """`wall` gives the wall clock in microseconds since 1970-01-01 UTC; it is read once, then the loop's clock counts."""
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
