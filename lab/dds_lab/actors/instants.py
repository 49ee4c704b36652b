"""Instants as API objects write them: RFC 3339 in UTC, whole seconds."""

from datetime import UTC, datetime
from functools import lru_cache

MICROSECONDS = 1_000_000


def written(now: int) -> str:
    """The text of an instant in microseconds since 1970-01-01 UTC; what is left of the second is cut off."""
    return _written(now // MICROSECONDS)


@lru_cache(maxsize=256)
def _written(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def read(text: str) -> int:
    """Microseconds since 1970-01-01 UTC; ValueError for anything that is no RFC 3339 instant with a zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"no zone in {text!r}")
    return round(found.timestamp() * MICROSECONDS)
