"""Erasing data and remembering what an archive took away: the only places where stored rows change or go."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, text, update

from dds_adapters.sql.tables import archived_streams, events
from dds_core.log.envelope import LOG_OPENED

_RECORD = text(
    f"INSERT INTO {archived_streams.name} (log, stream, version) SELECT log, stream, MAX(version) FROM {events.name} "
    "WHERE log = :log AND position < :before GROUP BY log, stream "
    "ON CONFLICT (log, stream) DO UPDATE SET version = excluded.version"
)


def erase(connection: Connection, log: str, positions: Iterable[int], stream: str | None) -> int:
    """Erase data and salt of the chosen events; gives how many were not erased before. The log's first event is
    kept."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")  # overwrite, do not just unlink
    chosen = sorted(set(positions))
    parts: list[ColumnElement[bool]] = [
        events.c.position.in_(chosen[start : start + 500]) for start in range(0, len(chosen), 500)
    ]
    if stream is not None:
        parts.append(events.c.stream == stream)
    erasable = (events.c.log == log) & events.c.data.is_not(None) & (events.c.type != LOG_OPENED)
    return sum(
        connection.execute(update(events).where(erasable, part).values(data=None, salt=None)).rowcount for part in parts
    )


def record_archived_streams(connection: Connection, log: str, before: int) -> None:
    """Keep the version of every stream that has events before this position, since the events themselves will go."""
    connection.execute(_RECORD, {"log": log, "before": before})
