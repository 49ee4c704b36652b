"""`eventsourcing` set up as well as it can be: its recorders for appending, its repository for replaying.

Its own table has four columns and no chain, ours twenty; it is given the same payloads, streams and batches, the same
synchronous mode, and on PostgreSQL its stored function as well.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteConnection, SQLiteConnectionPool, SQLiteDatastore
from sqlalchemy.engine import URL

from benchmarks.samples import groups
from dds_core.log import NewEvent


class Life(Aggregate):
    """A claim's life as an aggregate: what `ClaimObserved` and `ClaimMoved` are to us."""

    @event("Seen")
    def __init__(self, changes: dict[str, Any]) -> None:
        self.state = ""
        self.changes = changes

    @event("Observed")
    def observe(self, changes: dict[str, Any]) -> None:
        self.changes = changes

    @event("Moved")
    def move(self, trigger: str, source: str, target: str, cycle: int, attempt: int, cause: str) -> None:
        self.state = target


class Lives(Application[UUID]):
    """The application that keeps the lives."""


def lives_in_sqlite(path: Path, claims: int) -> tuple[Lives, list[UUID]]:
    """Store the sample lives of `claims` claims, synchronous off while they are written."""
    app = Lives(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)})
    lives: dict[str, Life] = {}
    for group in groups(claims):
        fact, moved = (msgspec.json.decode(each.data) for each in group.events)
        life = lives.get(fact["uid"])
        if life is None:
            life = lives[fact["uid"]] = Life(fact["changes"])
        else:
            life.observe(fact["changes"])
        del moved["claim"]
        life.move(**moved)
    every = list(lives.values())
    for start in range(0, len(every), 1000):
        app.save(*every[start : start + 1000])
    return app, [life.id for life in every]


def replayed(app: Lives, ids: Sequence[UUID]) -> dict[UUID, str]:
    """Fetch every life through the repository; the states that came out."""
    return {each: cast(Life, app.repository.get(each)).state for each in ids}


def stored_events(events: Sequence[NewEvent]) -> list[StoredEvent]:
    """Our events as theirs: same stream, same data."""
    versions: dict[str, int] = {}
    stored = []
    for each in events:
        versions[each.stream] = version = versions.get(each.stream, 0) + 1
        stored.append(StoredEvent(UUID(each.stream), version, f"dds_core.events:{each.type}", each.data))
    return stored


class _FullySynchronous(SQLiteConnectionPool):
    def _create_connection(self) -> SQLiteConnection:
        connection = super()._create_connection()
        connection._sqlite_conn.execute("PRAGMA synchronous=FULL")
        return connection


@contextmanager
def sqlite_recorder(path: Path) -> Iterator[SQLiteApplicationRecorder]:
    """An empty recorder on a file, WAL, synchronous=FULL."""
    datastore = SQLiteDatastore(str(path))
    datastore.pool = _FullySynchronous(db_name=str(path))
    recorder = SQLiteApplicationRecorder(datastore)
    recorder.create_table()
    yield recorder
    datastore.close()


@contextmanager
def postgres_recorder(url: URL, table: str, *, function: bool) -> Iterator[PostgresApplicationRecorder]:
    """An empty recorder in a table of its own; `function` inserts by its stored function instead of a pipeline."""
    datastore = PostgresDatastore(
        url.database or "",
        url.host or cast(str, url.query.get("host", "")),
        url.port or 5432,
        url.username or "",
        url.password or "",
        enable_db_functions=function,
    )
    recorder = PostgresApplicationRecorder(datastore, events_table_name=table)
    recorder.create_table()
    yield recorder
    datastore.close()
