"""Time for actors: the real one on an asyncio loop, or a virtual one that jumps from timer to timer.

An actor asks what time it is, to be called later, and for random numbers, and for nothing else; so the same actors run in either.
Under virtual time a run is a function of its seed.
"""

import asyncio
import hashlib
import heapq
from collections.abc import Callable
from random import Random
from typing import Protocol

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


class _Due:
    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None] | None) -> None:
        self.call = call

    def cancel(self) -> None:
        self.call = None


class VirtualTime:
    """A discrete-event loop: it stands still while something is called and jumps to the next timer afterwards."""

    def __init__(self, seed: int, start: int) -> None:
        self._seed = seed
        self._now = start
        self._due: list[tuple[int, int, _Due]] = []  # instant, order of asking: no two are equal in both
        self._order = 0

    def now(self) -> int:
        return self._now

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        self._order += 1
        due = _Due(call)
        heapq.heappush(self._due, (self._now + max(0, round(seconds * MICROSECONDS)), self._order, due))
        return due

    def random(self, name: str) -> Random:
        return seeded(self._seed, name)

    def run(self, until: int) -> None:
        """Call everything that is due up to the instant `until` (included), then stand at `until`."""
        while (due := self.next_at()) is not None and due <= until:
            self.step()
        self._now = max(self._now, until)

    def step(self) -> bool:
        """Go to the next timer and call it. False when there is none."""
        while self._due:
            at, _, due = heapq.heappop(self._due)
            call = due.call
            if call is not None:
                self._now = max(self._now, at)
                call()
                return True
        return False

    def next_at(self) -> int | None:
        """The instant of the next timer, None when there is none."""
        while self._due and self._due[0][2].call is None:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None


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
