"""Instants and durations as text. Instants are microseconds since 1970-01-01 UTC. Nothing here reads a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000


def moment_of(at: int) -> datetime:
    """The instant as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=at)


def micros(when: datetime) -> int:
    """Microseconds since 1970-01-01 UTC of an aware datetime."""
    since = when - _EPOCH
    return (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds


def rfc3339(at: int) -> str:
    """Such as 2026-11-21T02:11:05.761412Z."""
    return moment_of(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def day(at: int) -> str:
    """Such as 2026-11-21."""
    return moment_of(at).strftime("%Y-%m-%d")


def time_of_day(at: int) -> str:
    """Such as 02:11:05.761. Truncated, not rounded, so that it never shows a later instant."""
    return moment_of(at).strftime("%H:%M:%S.%f")[:12]


def duration(micros_long: int) -> str:
    """Such as 38 ms, 1.4 s, 2 min 05 s, 1 h 02 min, 3 d 04 h."""
    seconds = micros_long / _SECOND
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02} h"
