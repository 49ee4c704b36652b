"""A controller's work queue: keys are processed in order, each by one worker at a time.

As in controller-runtime: a key that is added while it is processed is processed again afterwards; a failure is tried again after
5 ms, doubling up to 1,000 s; of several delayed adds of a key the earliest counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from dds_lab.latency import Latency
from dds_lab.time import MICROSECONDS, Time, Timer

FIRST_RETRY = 0.005
LAST_RETRY = 1000.0

Finish = Callable[[], None]
Reconcile = Callable[[str, Finish], None]
"""Process a key. Call the second argument once, when the worker is free again: at once, or when an answer has come."""


class _Entry:
    """What the queue knows of a key. Its methods are what timers call: a poll is the commonest event of a run, so it makes no
    closures and looks nothing up."""

    __slots__ = ("at", "failures", "key", "queue", "running", "timer", "wanted")

    def __init__(self, queue: WorkQueue, key: str) -> None:
        self.queue = queue
        self.key = key
        self.wanted = False
        """To be processed, or processed again."""
        self.running = False
        self.timer: Timer | None = None
        """Of the delayed add, which is due at the instant `at`."""
        self.at = 0
        self.failures = 0

    def add(self) -> None:
        queue = self.queue
        if self.wanted or queue.stopped:
            return
        self.wanted = True
        if not self.running:
            queue.waiting.append(self)
            if queue.idle:
                queue.begin()

    def due(self) -> None:
        self.timer = None
        self.add()

    def look(self) -> None:
        if not self.queue.stopped:
            self.queue.reconcile(self.key, self.finished)

    def finished(self) -> None:
        queue = self.queue
        self.running = False
        queue.idle += 1
        if queue.stopped:
            return
        if self.wanted:
            queue.waiting.append(self)
        elif self.timer is None and not self.failures:
            queue.entries.pop(self.key, None)
        if queue.waiting:
            queue.begin()


class WorkQueue:
    """Processes `workers` keys at a time. `reconcile` is called `latency` seconds after a worker took the key."""

    def __init__(self, time: Time, reconcile: Reconcile, latency: Latency, random: Random, workers: int = 1) -> None:
        self._time = time
        self._latency = latency
        self._random = random
        self.reconcile = reconcile
        self.idle = workers
        self.waiting: deque[_Entry] = deque()
        self.entries: dict[str, _Entry] = {}
        self.stopped = False

    def add(self, key: str) -> None:
        self._entry(key).add()

    def add_after(self, key: str, seconds: float) -> None:
        """Add the key after `seconds`, unless it is to be added earlier."""
        at, entry = self._time.now() + round(seconds * MICROSECONDS), self._entry(key)
        if entry.timer is not None:
            if entry.at <= at:
                return
            entry.timer.cancel()
        if not self.stopped:
            entry.at, entry.timer = at, self._time.after(seconds, entry.due)

    def retry(self, key: str) -> float:
        """Add the key again after its back-off, which doubles with each failure. Returns the seconds."""
        entry = self._entry(key)
        wait = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(entry.failures, 60))
        entry.failures += 1
        self.add_after(key, wait)
        return wait

    def failures(self, key: str) -> int:
        """How often the key has failed since its last success."""
        return self.entries[key].failures if key in self.entries else 0

    def forget(self, key: str) -> None:
        """Reset the key's failures."""
        if key in self.entries:
            self.entries[key].failures = 0

    def stop(self) -> None:
        """Process no more keys, and ignore answers that are still to come."""
        self.stopped = True
        for entry in self.entries.values():
            if entry.timer is not None:
                entry.timer.cancel()
        self.entries.clear()
        self.waiting.clear()

    def begin(self) -> None:
        """Let idle workers take the keys that wait."""
        while self.idle and self.waiting:
            self.idle -= 1
            entry = self.waiting.popleft()
            entry.wanted, entry.running = False, True
            self._time.after(self._latency.draw(self._random), entry.look)

    def _entry(self, key: str) -> _Entry:
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = _Entry(self, key)
        return found
