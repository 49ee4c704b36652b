"""One event log in a SQL database.

An append locks the log's head row, takes the next positions, stores the events and moves the head, in one
transaction. So positions are contiguous and become visible in order, and a writer of an older epoch finds out before it
writes. While the locked head is still as this writer left it, nothing needs to be read but the head.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, Engine, delete, func, select

from dds_adapters.sql.connection import reading, where_of, writing
from dds_adapters.sql.erasing import erase, record_archived_streams
from dds_adapters.sql.failures import told_as_ours
from dds_adapters.sql.heads import head_of, store_head
from dds_adapters.sql.pages import read_pages
from dds_adapters.sql.statements import statements_for
from dds_adapters.sql.tables import events
from dds_core.errors import BrokenChain, LogUnreachable
from dds_core.log.appending import prepare, to_look_up, truncated, with_epoch
from dds_core.log.chain import SaltSource
from dds_core.log.checks import check_epoch, check_groups
from dds_core.log.envelope import ENVELOPE_FIELDS, LEAN_FIELDS, Envelope, Group, Head, LeanEvent
from dds_core.log.interface import BATCH

REMEMBERED_STREAMS = 100_000
"""How many streams' versions a writer keeps in memory (some 15 MiB) before it starts again from none."""


class SqlLog:
    """An `EventLog` (`dds_core.log.interface`) in SQLite or PostgreSQL; made by `dds_adapters.sql.Database`.

    May be used by several threads; their appends wait for each other.
    """

    def __init__(self, engine: Engine, name: str, salts: SaltSource) -> None:
        self._engine = engine
        self._name = name
        self._salts = salts
        self._statements = statements_for(engine)
        self._lock = threading.Lock()
        self._left_at: Head | None = None
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

    def take_epoch(self, recorded_at: int) -> int:
        with writing(self._engine) as connection:
            head = with_epoch(self._locked_head(connection), recorded_at)
            store_head(connection, head)
        return head.epoch

    def append(
        self,
        groups: Sequence[Group],
        *,
        epoch: int,
        recorded_at: int,
        expected: Mapping[str, int] | None = None,
    ) -> list[Envelope]:
        """As in `EventLog`. A lost connection is tried once more, after reading what became of the first try."""
        check_groups(groups)
        with self._lock:
            try:
                return self._append(groups, epoch, recorded_at, expected)
            except LogUnreachable:
                self._engine.dispose()
                return self._append(groups, epoch, recorded_at, expected)

    def _append(
        self, groups: Sequence[Group], epoch: int, recorded_at: int, expected: Mapping[str, int] | None
    ) -> list[Envelope]:
        left_at, self._left_at = self._left_at, None  # an append that fails leaves nothing to rely on
        with writing(self._engine) as connection:
            head = self._locked_head(connection)
            check_epoch(head, epoch)
            if head != left_at or len(self._versions) > REMEMBERED_STREAMS:
                self._versions.clear()
            self._learn_versions(connection, groups, expected or {})
            stored = self._stored(connection, to_look_up(head, epoch, groups))
            prepared = prepare(head, epoch, groups, stored, self._versions, recorded_at, self._salts, expected)
            if prepared.fresh:
                self._statements.insert(connection, prepared.fresh)
                store_head(connection, prepared.head)
        self._left_at = prepared.head
        return prepared.answer

    def _learn_versions(self, connection: Connection, groups: Sequence[Group], expected: Mapping[str, int]) -> None:
        wanted = {event.stream for group in groups for event in group.events}.union(expected)
        missing = wanted - self._versions.keys()
        if missing:
            self._versions.update(self._statements.versions(connection, self._name, missing))

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

    def redact(self, *, positions: Iterable[int] = (), stream: str | None = None) -> int:
        with writing(self._engine) as connection:
            self._locked_head(connection)
            erased = erase(connection, self._name, positions, stream)
        with told_as_ours(where_of(self._engine)):
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
