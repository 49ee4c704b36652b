"""One event log in a SQL database.

An append is one transaction: lock the log's head row, take the next positions, store the events, update the head. So positions
are contiguous and become visible in order, and a writer with an older epoch is refused before it writes. If the head is still
as this writer left it, the append reads nothing else: the writer remembers the versions of its streams.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select, text, update

from dds_adapters.sql.connection import STILL_SECONDS, reading, where_of, writing
from dds_adapters.sql.failures import translated_errors
from dds_adapters.sql.statements import Row, head_of, quoted, statements_for, store_head
from dds_adapters.sql.tables import archived_streams, events
from dds_core.errors import BrokenChain, DatabaseError, LogUnreachable
from dds_core.log.chain import (
    SaltSource,
    anchor_of,
    check_epoch,
    check_goes_on,
    check_groups,
    check_not_archived,
    prepare,
    to_look_up,
    truncated,
    with_epoch,
    wrong_head,
)
from dds_core.log.envelope import ENVELOPE_FIELDS, LEAN_FIELDS, LOG_OPENED, Envelope, Group, Head, LeanEvent
from dds_core.log.interface import BATCH, EventLog

# -- erasing and archiving: the only changes of stored rows --------------------------------------------------------------

_RECORD = text(
    f"INSERT INTO {archived_streams.name} (log, stream, version) SELECT log, stream, MAX(version) FROM {events.name} "
    "WHERE log = :log AND position < :before GROUP BY log, stream "
    "ON CONFLICT (log, stream) DO UPDATE SET version = excluded.version"
)


def erase(connection: Connection, log: str, positions: Iterable[int], stream: str | None) -> int:
    """Erase data and salt of the chosen events, except the log's first event. Returns how many were not erased before."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")  # overwrite the bytes
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
    """Store the version of every stream that has events before this position, since these events will be removed."""
    connection.execute(_RECORD, {"log": log, "before": before})


# -- reading -------------------------------------------------------------------------------------------------------------


def read_pages(
    engine: Engine,
    log: str,
    fields: Sequence[str],
    after: int,
    until: int | None,
    stream: str | None,
    types: Collection[str] | None,
    batch: int,
) -> Iterator[Sequence[Row]]:
    """Pages of rows with these columns, in the order of positions. `after` is exclusive, `until` inclusive.

    Every page is a short transaction, so a long read blocks neither writers nor vacuum. That is safe because positions become
    visible in order and rows change only by redaction. Archiving removes a prefix, so each page checks for that."""
    statements, where = statements_for(engine), where_of(engine)
    with reading(engine) as connection:
        head = head_of(connection, log, where)
    check_not_archived(head, after)
    last = head.position if until is None else min(until, head.position)
    # The index of streams is ordered by version, so a stream is paged by version; versions and positions grow together.
    key_column = "position" if stream is None else "version"
    columns = (*fields, *({key_column} - set(fields)))
    key_at, width = columns.index(key_column), len(fields)
    query, fixed = _query(log, columns, key_column, last, stream, types)
    key = after if stream is None else 0
    while True:
        with reading(engine) as connection:
            rows = statements.page(connection, query, (*fixed, after, key, batch))
            archived = head_of(connection, log, where)
        check_not_archived(archived, after)
        if stream is None and types is None:
            _check_contiguous(log, rows, key_at, after, min(last, after + batch))
        if rows:
            key = rows[-1][key_at]
            after = key if stream is None else after
            yield rows if len(columns) == width else [row[:width] for row in rows]
        if len(rows) < batch:
            return


def _check_contiguous(log: str, rows: Sequence[Row], position_at: int, after: int, until: int) -> None:
    """Raise `BrokenChain` with the first missing position, in a read of all streams and types."""
    if len(rows) != max(until - after, 0):
        found = {row[position_at] for row in rows}
        missing = next(position for position in range(after + 1, until + 1) if position not in found)
        raise BrokenChain(log, missing, f"it is missing, though the log goes on to {until} at least")


def _query(
    log: str, columns: Sequence[str], key: str, last: int, stream: str | None, types: Collection[str] | None
) -> tuple[str, Row]:
    """The query of a page and its first parameters. The others are `after`, the key of the last row read, and the limit."""
    conditions, fixed = ["log = ?", "position <= ?"], [log, last]
    if stream is not None:
        conditions.append("stream = ?")
        fixed.append(stream)
    if types is not None:
        chosen = sorted(types)
        conditions.append(f"type IN ({', '.join('?' * len(chosen))})" if chosen else "1 = 0")
        fixed += chosen
    conditions += ["position > ?", f"{key} > ?"]
    query = f"SELECT {quoted(columns)} FROM {events.name} WHERE {' AND '.join(conditions)} ORDER BY {key} LIMIT ?"
    return query, tuple(fixed)


_BEHIND = 1_000_000
"""Positions behind the head in which rows are looked for."""


# -- the log -------------------------------------------------------------------------------------------------------------

REMEMBERED_STREAMS = 100_000
"""Number of streams whose versions a writer caches (about 15 MiB). Above that, the cache is emptied."""


class SqlLog:
    """An `EventLog` (`dds_core.log.interface`) in SQLite or PostgreSQL, made by `dds_adapters.sql.Database`. Several threads
    may use it; their appends wait for each other."""

    def __init__(self, engine: Engine, name: str, salts: SaltSource) -> None:
        self._engine = engine
        self._name = name
        self._salts = salts
        self._statements = statements_for(engine)
        self._lock = threading.Lock()
        self._left: Head | None = None
        """The head as this object last left it."""
        self._versions: dict[str, int] = {}

    @property
    def name(self) -> str:
        return self._name

    def head(self) -> Head:
        with reading(self._engine) as connection:
            return head_of(connection, self._name, where_of(self._engine))

    def span(self) -> tuple[int, int]:
        head = self.head()
        return head.archived + 1, head.position

    def take_epoch(self, recorded_at: int, above: int = 0) -> int:
        # What a frozen writer has under way would be refused from now on. A user who may end no session waits for its lock.
        with suppress(DatabaseError), reading(self._engine) as connection:
            self._statements.free_head(connection, self._name, STILL_SECONDS)
        with writing(self._engine) as connection:
            head = with_epoch(self._locked_head(connection), recorded_at, above)
            store_head(connection, head)
        self._left = head
        self._versions = {}
        return head.epoch

    def append(
        self,
        groups: Sequence[Group],
        *,
        epoch: int,
        recorded_at: int,
        expected: Mapping[str, int] | None = None,
    ) -> list[Envelope]:
        """As in `EventLog`. After a lost connection it tries once more; the second try finds what the first one has stored."""
        check_groups(groups)
        with self._lock:
            try:
                return self._append(groups, epoch, recorded_at, expected)
            except LogUnreachable:
                self._engine.dispose()  # it may have been too slow for the first
                return self._append(groups, epoch, recorded_at, expected, 10 * STILL_SECONDS)

    def _append(
        self,
        groups: Sequence[Group],
        epoch: int,
        recorded_at: int,
        expected: Mapping[str, int] | None,
        still_seconds: float | None = None,
    ) -> list[Envelope]:
        versions, self._versions = self._versions, {}  # after a failed append the cached versions are not valid
        with writing(self._engine, still_seconds) as connection:
            head = self._locked_head(connection)
            self._check_goes_on(connection, head)
            check_epoch(head, epoch)
            if head != self._left or len(versions) > REMEMBERED_STREAMS:
                versions = {}
            self._learn_versions(connection, versions, groups, expected or {})
            stored = self._stored(connection, to_look_up(head, epoch, groups))
            prepared = prepare(head, epoch, groups, stored, versions, recorded_at, self._salts, expected)
            if prepared.fresh:
                self._statements.insert(connection, prepared.fresh)
                store_head(connection, prepared.head)
        self._left, self._versions = prepared.head, versions
        return prepared.answer

    def _check_goes_on(self, connection: Connection, head: Head) -> None:
        left = self._left
        if left is not None and (head.position, head.hash) != (left.position, left.hash):
            there = self._at(connection, left.position)
            check_goes_on(head, anchor_of(left), there.hash if there is not None else None)

    def _learn_versions(
        self, connection: Connection, versions: dict[str, int], groups: Sequence[Group], expected: Mapping[str, int]
    ) -> None:
        wanted = {event.stream for group in groups for event in group.events}.union(expected)
        missing = wanted - versions.keys()
        if missing:
            versions.update(self._statements.versions(connection, self._name, missing))

    def _stored(self, connection: Connection, ids: Sequence[str]) -> dict[str, Envelope]:
        found: dict[str, Envelope] = {}
        columns = [events.c[field] for field in ENVELOPE_FIELDS]
        for start in range(0, len(ids), 500):
            rows = connection.execute(select(*columns).where(events.c.event_id.in_(ids[start : start + 500])))
            found.update((e.event_id, e) for e in (Envelope(*row) for row in rows))
        return found

    def stream_version(self, stream: str) -> int:
        with reading(self._engine) as connection:
            return self._statements.versions(connection, self._name, [stream])[stream]

    def read(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[Envelope]:
        pages = read_pages(self._engine, self._name, ENVELOPE_FIELDS, after, until, stream, types, batch)
        return (Envelope(*row) for page in pages for row in page)

    def read_lean(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[LeanEvent]:
        pages = read_pages(self._engine, self._name, LEAN_FIELDS, after, until, stream, types, batch)
        return (LeanEvent(*row) for page in pages for row in page)

    def check_end(self) -> None:
        """Raise `WrongHead` if rows lie behind the head: one that was set back hides them from every reader."""
        where = where_of(self._engine)
        with reading(self._engine) as connection:
            head = head_of(connection, self._name, where)
            query, fixed = _query(self._name, ("position",), "position", head.position + _BEHIND, None, None)
            behind = statements_for(self._engine).page(connection, query, (*fixed, head.position, head.position, 1))
            # Read once more, because an append may have come in between.
            if behind and head_of(connection, self._name, where).position < behind[0][0]:
                raise wrong_head(self._name, f"it ends at position {head.position}, but events follow")

    def places(self, type: str, stream: str) -> list[tuple[int, int]]:
        """Position and instant of each event of a type in a stream, oldest first, without reading the data. Archived and erased
        events are left out."""
        query = (
            f"SELECT position, occurred_at FROM {events.name} WHERE log = ? AND stream = ? AND type = ? "
            "AND data IS NOT NULL ORDER BY version"
        )
        with reading(self._engine) as connection:
            rows = self._statements.page(connection, query, (self._name, stream, type))
        return [(row[0], row[1]) for row in rows]

    def holding(self, data: bytes, types: Collection[str], stream: str | None = None) -> list[LeanEvent]:
        """The events of these types whose data contain these bytes: those of a stream, or the first events of all streams,
        which hold the names of objects. Fast with the index of `dds db upgrade`. Archived events are not searched."""
        which, chosen = ("version = 1", ()) if stream is None else ("stream = ?", (stream,))
        condition = f"{which} AND type IN ({', '.join('?' * len(types))}) AND {self._statements.holding()}"
        return self._chosen(condition, (*chosen, *sorted(types), data))

    def of_streams(self, streams: Collection[str], until: int) -> list[LeanEvent]:
        """The events of all these streams up to a position, without archived ones."""
        condition, chosen = self._statements.among(streams)  # "+ 0": SQLite would scan the whole log by position
        return self._chosen(f"{condition} AND position + 0 <= ?", (chosen, until)) if streams else []

    def last_holding(self, data: bytes, stream: str, before: int) -> list[LeanEvent]:
        """The last event of a stream before a position whose data contain these bytes, or none."""
        condition = f"stream = ? AND position + 0 < ? AND {self._statements.holding()} ORDER BY version DESC LIMIT 1"
        return self._chosen(condition, (stream, before, data))

    def _chosen(self, condition: str, parameters: Row) -> list[LeanEvent]:
        """The events in the order of positions. Sorted here: with ORDER BY, a database would scan the whole log in that order."""
        query = f"SELECT {quoted(LEAN_FIELDS)} FROM {events.name} WHERE log = ? AND {condition}"
        with reading(self._engine) as connection:
            rows = self._statements.page(connection, query, (self._name, *parameters))
        return sorted((LeanEvent(*row) for row in rows), key=lambda one: one.position)

    def redact(self, *, positions: Iterable[int] = (), stream: str | None = None) -> int:
        with writing(self._engine) as connection:
            self._locked_head(connection)
            erased = erase(connection, self._name, positions, stream)
        with translated_errors(where_of(self._engine)):
            self._statements.settle(self._engine)
        return erased

    def truncate(self, checkpoint: int, archived_hash: bytes) -> int:
        with writing(self._engine) as connection:
            head = self._locked_head(connection)
            gone = (events.c.log == self._name) & (events.c.position < checkpoint)
            highest = connection.scalar(select(func.max(events.c.group)).where(gone, events.c.epoch == head.epoch))
            there = self._at(connection, checkpoint)
            after = truncated(head, there, checkpoint, [] if highest is None else [highest])
            if there is None or there.hash != archived_hash:
                raise BrokenChain(self._name, checkpoint, "the archive ends with another hash")
            record_archived_streams(connection, self._name, checkpoint)
            removed = connection.execute(delete(events).where(gone)).rowcount
            store_head(connection, after)
        return removed

    def _at(self, connection: Connection, position: int) -> Envelope | None:
        columns = [events.c[field] for field in ENVELOPE_FIELDS]
        found = connection.execute(
            select(*columns).where(events.c.log == self._name, events.c.position == position)
        ).one_or_none()
        return None if found is None else Envelope(*found)

    def _locked_head(self, connection: Connection) -> Head:
        return head_of(connection, self._name, where_of(self._engine), lock=True)


def follow(
    log: EventLog,
    after: int = 0,
    *,
    types: Collection[str] | None = None,
    stream: str | None = None,
    poll_seconds: float = 0.5,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Envelope]:
    """The events after `after`, and new ones as they come, until `stopped()`. At the end of the log it polls every
    `poll_seconds`. It misses no event, because positions become visible in order."""
    while True:
        ending = stopped()  # asked first, so that events appended before the end are still read
        last = log.head().position
        yield from log.read(after, last, stream, types)
        if ending:
            return
        if last == after:
            time.sleep(poll_seconds)
        after = last
