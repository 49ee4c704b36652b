"""A sequence of steps with waits between them, as a generator: it yields how many seconds pass until its next step.

This is what a goroutine is in the real scheduler. A process is resumed by a timer only, never from inside another step, so two
processes never interleave within a step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from dds_lab.time import Time, Timer

Steps = Generator[float, None, None]


class Process:
    """Runs `steps` on `time` until they end, are interrupted or are stopped; `ended` is called once, except after a stop."""

    def __init__(self, time: Time, steps: Steps, ended: Callable[[], None] | None = None) -> None:
        self._time = time
        self._steps = steps
        self._ended = ended
        self._timer: Timer | None = time.after(0.0, self._next)

    def interrupt(self, error: Exception) -> None:
        """Raise `error` where the process waits, at this instant, after whatever runs now. Without effect at its end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._time.after(0.0, lambda: self._next(error))

    def stop(self) -> None:
        """End it where it waits. Nothing more of it runs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._steps.close()

    def _next(self, error: Exception | None = None) -> None:
        self._timer = None
        try:
            seconds = self._steps.throw(error) if error is not None else next(self._steps)
        except StopIteration:
            if self._ended is not None:
                self._ended()
            return
        self._timer = self._time.after(seconds, self._next)
