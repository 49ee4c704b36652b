"""Instants as numbers and as the text in objects: RFC 3339 in UTC, whole seconds."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

from dds_core.timeline.instants import micros, moment_of

MICROSECONDS = 1_000_000


def written(now: int) -> str:
    """The text of an instant in microseconds since 1970-01-01 UTC, truncated to the second."""
    return _written(now // MICROSECONDS)


@lru_cache(maxsize=256)
def _written(second: int) -> str:
    return moment_of(second * MICROSECONDS).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def read(text: str) -> int:
    """Microseconds since 1970-01-01 UTC. ValueError unless the text is an RFC 3339 instant with a zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"no zone in {text!r}")
    return micros(found)


class Clock:
    """The present instant, as a number (`now`) and as text."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now

    def text(self) -> str:
        return written(self.now())
