"""A controller's work queue: keys are processed in order, each by one worker at a time.

As in controller-runtime: a key that is added while it is processed is processed again afterwards; a failure is tried again after
5 ms, doubling up to 1,000 s; of several delayed adds of a key the earliest counts.
"""

from collections import deque
from collections.abc import Callable
from random import Random

from dds_lab.latency import Latency
from dds_lab.time import Time, Timer

FIRST_RETRY = 0.005
LAST_RETRY = 1000.0

Finish = Callable[[], None]
Reconcile = Callable[[str, Finish], None]
"""Process a key. Call the second argument once, when the worker is free again: at once, or when an answer has come."""


class WorkQueue:
    """Processes `workers` keys at a time. `reconcile` is called `latency` seconds after a worker took the key."""

    def __init__(self, time: Time, reconcile: Reconcile, latency: Latency, random: Random, workers: int = 1) -> None:
        self._time = time
        self._reconcile = reconcile
        self._latency = latency
        self._random = random
        self._idle = workers
        self._waiting: deque[str] = deque()
        self._wanted: set[str] = set()
        self._running: set[str] = set()
        self._later: dict[str, tuple[int, Timer]] = {}
        self._failures: dict[str, int] = {}
        self._stopped = False

    def add(self, key: str) -> None:
        if key in self._wanted or self._stopped:
            return
        self._wanted.add(key)
        if key not in self._running:
            self._waiting.append(key)
            self._start()

    def add_after(self, key: str, seconds: float) -> None:
        """Add the key after `seconds`, unless it is to be added earlier."""
        at = self._time.now() + round(seconds * 1_000_000)
        known = self._later.get(key)
        if self._stopped or (known is not None and known[0] <= at):
            return
        if known is not None:
            known[1].cancel()
        self._later[key] = (at, self._time.after(seconds, lambda: self._due(key)))

    def retry(self, key: str) -> float:
        """Add the key again after its back-off, which doubles with each failure. Returns the seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(failures, 60))
        self.add_after(key, wait)
        return wait

    def failures(self, key: str) -> int:
        """How often the key has failed since its last success."""
        return self._failures.get(key, 0)

    def forget(self, key: str) -> None:
        """Reset the key's failures."""
        self._failures.pop(key, None)

    def stop(self) -> None:
        """Process no more keys, and ignore answers that are still to come."""
        self._stopped = True
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()
        self._waiting.clear()

    def _due(self, key: str) -> None:
        self._later.pop(key, None)
        self.add(key)

    def _start(self) -> None:
        while self._idle and self._waiting:
            self._idle -= 1
            key = self._waiting.popleft()
            self._wanted.discard(key)
            self._running.add(key)
            self._begin(key)

    def _begin(self, key: str) -> None:
        self._time.after(self._latency.draw(self._random), lambda: self._look(key))

    def _look(self, key: str) -> None:
        if not self._stopped:
            self._reconcile(key, lambda: self._finished(key))

    def _finished(self, key: str) -> None:
        self._running.discard(key)
        self._idle += 1
        if self._stopped:
            return
        if key in self._wanted:
            self._waiting.append(key)
        self._start()
