"""Appending in batches of a hundred: our log, the driver's own bulk insert into the same table, and `eventsourcing`.

"Raw" is the limit: rows that are ready, put by the driver into a database that our migrations made, with the same
columns, indexes, synchronous mode and commit size, but without chain, head row, epoch or any question asked. Every
contender starts with an empty table and is given the same events.

`eventsourcing` keeps four columns where we keep twenty, so its rate beside ours says little. What can be compared is
how much of the raw limit on its own table each one gives away, and both are told.
"""

import itertools
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from eventsourcing.persistence import ApplicationRecorder, StoredEvent
from sqlalchemy.engine import make_url

from benchmarks.measure import Contender, Row, TimedCall, Timing, compare, compare_best, side_by_side
from benchmarks.rivals import postgres_recorder, sqlite_recorder, stored_events
from benchmarks.samples import EVENTS_A_CLAIM, START, batches
from dds_adapters.sql import Database, random_salt, upgrade
from dds_adapters.sql.tables import events as table
from dds_core.log import Group, MemoryLog

LOG, CLUSTER = "bench/scaler", "00000000-0000-4000-8000-000000000000"
EVENTS = 20_000
BATCH = 100

Batches = Sequence[list[Group]]
Rows = Sequence[tuple[Any, ...]]


def samples() -> Batches:
    """The sample lives, `BATCH` events to a list."""
    return list(batches(EVENTS // EVENTS_A_CLAIM, BATCH))


def rows(groups: Batches) -> Rows:
    """The same events as rows that are ready to be stored, salts and hashes included."""
    log = MemoryLog(LOG, cluster=CLUSTER, recorded_at=START, salts=random_salt)
    epoch = log.take_epoch(START)
    sealed = (log.append(batch, epoch=epoch, recorded_at=START) for batch in groups)
    return [msgspec.structs.astuple(envelope) for batch in sealed for envelope in batch]


def _append_all(log: Any, groups: Batches) -> int:
    epoch = log.take_epoch(START)
    for batch in groups:
        log.append(batch, epoch=epoch, recorded_at=START)
    return EVENTS


def _insert_all(recorder: ApplicationRecorder, stored: Sequence[StoredEvent]) -> int:
    for start in range(0, len(stored), BATCH):
        recorder.insert_events(stored[start : start + BATCH])
    return len(stored)


def _insert_statement(mark: str) -> str:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join([mark] * len(table.columns))})"


# --- SQLite --------------------------------------------------------------------------------------------------------


@contextmanager
def _empty(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder / "log.sqlite3"
    shutil.rmtree(folder)


@contextmanager
def _sqlite_log(folder: Path, groups: Batches) -> Iterator[TimedCall]:
    with _empty(folder) as path:
        upgrade(f"sqlite:///{path}")
        with Database(f"sqlite:///{path}") as database:
            log = database.open_log(LOG, cluster=CLUSTER, recorded_at=START)
            yield lambda: _append_all(log, groups)


@contextmanager
def _sqlite_raw(folder: Path, ready: Rows) -> Iterator[TimedCall]:
    with _empty(folder) as path:
        upgrade(f"sqlite:///{path}")
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        yield lambda: _sqlite_insert(connection, _insert_statement("?"), ready)
        connection.close()


def _sqlite_insert(connection: sqlite3.Connection, statement: str, ready: Rows) -> int:
    for start in range(0, len(ready), BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statement, ready[start : start + BATCH])
        connection.execute("COMMIT")
    return len(ready)


@contextmanager
def _sqlite_rival_raw(folder: Path, stored: Sequence[StoredEvent]) -> Iterator[TimedCall]:
    ready = [(e.originator_id.hex, e.originator_version, e.topic, e.state) for e in stored]  # type: ignore[union-attr]
    with _empty(folder) as path, sqlite_recorder(path) as recorder:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        yield lambda: _sqlite_insert(connection, recorder.insert_events_statement, ready)
        connection.close()


@contextmanager
def _sqlite_rival(folder: Path, stored: Sequence[StoredEvent]) -> Iterator[TimedCall]:
    with _empty(folder) as path, sqlite_recorder(path) as recorder:
        yield lambda: _insert_all(recorder, stored)


@contextmanager
def _in_memory(groups: Batches) -> Iterator[TimedCall]:
    log = MemoryLog(LOG, cluster=CLUSTER, recorded_at=START, salts=random_salt)
    yield lambda: _append_all(log, groups)


def measure_sqlite(folder: Path, rounds: int) -> list[Row]:
    """Compare on SQLite, WAL, synchronous=FULL."""
    groups = samples()
    stored = _as_theirs(groups)
    contenders = [
        Contender("ours", partial(_sqlite_log, folder / "ours", groups)),
        Contender("sqlite3 executemany, same table", partial(_sqlite_raw, folder / "raw", rows(groups))),
        Contender("eventsourcing insert_events(100)", partial(_sqlite_rival, folder / "rival", stored)),
        Contender("sqlite3 executemany, its table", partial(_sqlite_rival_raw, folder / "theirs", stored)),
        Contender("our log in memory (chain alone)", partial(_in_memory, groups)),
    ]
    ours, raw, rival, rival_raw, memory = side_by_side(contenders, rounds).values()
    what = "dds"
    return [
        _compare(what, ours, raw, 0.45),
        _compare(what, ours, rival, 1.0),
        _compare("`eventsourcing`", rival, rival_raw, None),
        _compare(what, ours, memory, None),
    ]


def _as_theirs(groups: Batches) -> list[StoredEvent]:
    return stored_events([event for batch in groups for group in batch for event in group.events])


def _compare(what: str, ours: Timing, other: Timing, at_least: float | None) -> Row:
    return compare(what, ours, other, unit="events", at_least=at_least)


# --- PostgreSQL ----------------------------------------------------------------------------------------------------


@contextmanager
def _postgres_log(url: str, groups: Batches) -> Iterator[TimedCall]:
    with Database(url) as database:
        _truncate(url)
        log = database.open_log(LOG, cluster=CLUSTER, recorded_at=START)
        yield lambda: _append_all(log, groups)


@contextmanager
def _postgres_raw(url: str, ready: Rows, insert: Callable[[psycopg.Cursor[Any], Rows], None]) -> Iterator[TimedCall]:
    _truncate(url)
    with psycopg.connect(_libpq(url)) as connection:

        def work() -> int:
            for start in range(0, len(ready), BATCH):
                with connection.cursor() as cursor:
                    insert(cursor, ready[start : start + BATCH])
                connection.commit()
            return len(ready)

        yield work


def _executemany(cursor: psycopg.Cursor[Any], ready: Rows) -> None:
    cursor.executemany(_insert_statement("%s").encode(), ready)


def _copy(cursor: psycopg.Cursor[Any], ready: Rows) -> None:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN".encode()) as copy:
        for row in ready:
            copy.write_row(row)


_number = itertools.count()


@contextmanager
def _postgres_rival(url: str, stored: Sequence[StoredEvent], *, function: bool) -> Iterator[TimedCall]:
    name = f"stored_events_{next(_number)}"
    with postgres_recorder(make_url(url), name, function=function) as recorder:
        yield lambda: _insert_all(recorder, stored)
    with psycopg.connect(_libpq(url)) as connection:
        connection.execute(f"DROP TABLE {name}".encode())


def _libpq(url: str) -> str:
    """The URL as the driver itself takes it, without the name that SQLAlchemy has for it."""
    return url.replace("postgresql+psycopg:", "postgresql:", 1)


@contextmanager
def _postgres_rival_raw(url: str, stored: Sequence[StoredEvent]) -> Iterator[TimedCall]:
    name = f"stored_events_{next(_number)}"
    ready = [(e.originator_id, e.originator_version, e.topic, e.state) for e in stored]
    statement = f"INSERT INTO {name} (originator_id, originator_version, topic, state) VALUES (%s, %s, %s, %s)".encode()
    with postgres_recorder(make_url(url), name, function=False):
        pass
    with _postgres_raw(url, ready, lambda cursor, some: cursor.executemany(statement, some)) as work:
        yield work
    with psycopg.connect(_libpq(url)) as connection:
        connection.execute(f"DROP TABLE {name}".encode())


def _truncate(url: str) -> None:
    with psycopg.connect(_libpq(url), autocommit=True) as connection:
        connection.execute("TRUNCATE dds_events, dds_heads, dds_archived_streams")
        connection.execute("CHECKPOINT")


def measure_postgres(url: str, rounds: int) -> list[Row]:
    """Compare on PostgreSQL with fsync on; `url` names a database of our own."""
    upgrade(url)
    groups = samples()
    ready, stored = rows(groups), _as_theirs(groups)
    prepare: dict[str, Callable[[], AbstractContextManager[TimedCall]]] = {
        "ours": partial(_postgres_log, url, groups),
        "psycopg executemany, same table": partial(_postgres_raw, url, ready, _executemany),
        "psycopg COPY, same table": partial(_postgres_raw, url, ready, _copy),
        "eventsourcing insert_events(100)": partial(_postgres_rival, url, stored, function=False),
        "eventsourcing stored function(100)": partial(_postgres_rival, url, stored, function=True),
        "psycopg executemany, its table": partial(_postgres_rival_raw, url, stored),
    }
    found = side_by_side([Contender(*each) for each in prepare.items()], rounds)
    ours, many, copy, rival, function, rival_raw = found.values()
    what = "dds"
    return [
        _compare(what, ours, many, 0.8),
        compare_best(f"{what}, best round of each", ours, many, unit="events", at_least=0.8),
        _compare(what, ours, copy, None),
        _compare(what, ours, rival, 1.0),
        _compare(what, ours, function, 1.0),
        _compare("`eventsourcing`", rival, rival_raw, None),
    ]
