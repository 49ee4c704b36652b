"""The instant of a write, as number and as the text that objects carry."""

from collections.abc import Callable
from datetime import datetime

from dds_core.timeline.clock import micros, moment_of

MICROSECONDS = 1_000_000


def text(instant: int) -> str:
    """RFC 3339 to the second, of microseconds since 1970-01-01 UTC."""
    return moment_of(instant).strftime("%Y-%m-%dT%H:%M:%SZ")


def instant(text: str) -> int:
    """Microseconds since 1970-01-01 UTC, of an RFC 3339 text."""
    return micros(datetime.fromisoformat(text))


class Clock:
    """`now` as given; the text of a second is made once."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self._second = -1
        self._text = ""

    def text(self) -> str:
        """The present second as text."""
        second = self.now() // MICROSECONDS
        if second != self._second:
            self._second = second
            self._text = text(second * MICROSECONDS)
        return self._text
