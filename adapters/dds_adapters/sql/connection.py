"""Engines for the two databases, configured so that acknowledged writes are on the disk.

SQLite runs in WAL mode with synchronous=FULL. Its transactions begin explicitly, writing ones with BEGIN IMMEDIATE, so that a
writer waits for the lock instead of failing in the middle. A SQLite file is made only on request (`create`), for its owner alone.
PostgreSQL commits with synchronous_commit=on. Nothing is prepared or set for longer than a transaction, since behind a pooler the
next one may run in another session.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import QueuePool

from dds_adapters.sql import urls
from dds_adapters.sql.failures import translated_errors
from dds_core.errors import DatabaseMissing, InputError, install_hint

Synchronous = Literal["FULL", "EXTRA", "NORMAL"]
"""SQLite's durability: FULL keeps acknowledged writes; NORMAL may lose the newest commits at a power failure."""

LOCK_SECONDS = 10.0
"""How long a writer waits for the lock before it gives up."""
STILL_SECONDS = 3.0
"""PostgreSQL ends a session that is idle in a transaction for so long. Otherwise a leader that is frozen between two statements
would keep the lock on the head row, and no other process could take over. Shorter than the default lease, so a takeover does not
wait for it; who was merely slow writes again. PostgreSQL has no such limit inside a statement, so who takes the next epoch ends a
session that has waited for its client for so long (`SqlLog.take_epoch`). SQLite has none: let only one process write its file."""
PATIENT_SECONDS = 600.0
"""The same limit for the import of a whole log and for an upgrade of the schema: no standby waits for their locks."""


def engine_for(
    url: str,
    *,
    create: bool = False,
    synchronous: Synchronous = "FULL",
    lock_seconds: float = LOCK_SECONDS,
) -> Engine:
    """An engine for `sqlite:///path` or `postgresql://...`, not connected yet.

    Raises `InputError` for another kind of URL, and `DatabaseMissing` when the SQLite file does not exist and `create` is false.
    """
    parsed = urls.parsed(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite_engine(parsed, create, synchronous, lock_seconds)
    return _postgres_engine(parsed, lock_seconds)


def where_of(engine: Engine) -> str:
    """The database's URL for error messages, without the password."""
    return urls.shown(engine.url)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection in a reading transaction. Errors of the driver are raised as errors of dds."""
    with translated_errors(where_of(engine)), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine, still_seconds: float | None = None) -> Iterator[Connection]:
    """A connection in a writing transaction, committed at the end. Errors of the driver are raised as errors of dds. PostgreSQL
    ends it when there is no statement for `still_seconds` (STILL_SECONDS by default).

    After an error nothing is written, except after `LogUnreachable`: when the connection is lost during the commit, the outcome
    is unknown.
    """
    with translated_errors(where_of(engine)), engine.connect() as connection:
        connection = connection.execution_options(dds_writes=still_seconds or STILL_SECONDS)
        with connection.begin():
            yield connection


def _sqlite_engine(url: URL, create: bool, synchronous: Synchronous, lock_seconds: float) -> Engine:
    path = os.path.abspath(url.database or "")
    where = urls.shown(url)
    if not create and not os.path.isfile(path):
        raise DatabaseMissing(
            "there is no such file", where=where, fix="check the path, or run `dds db upgrade` to make it"
        )
    if not os.path.isdir(os.path.dirname(path)):
        raise DatabaseMissing("its folder does not exist", where=where, fix="make the folder, or check the path")
    uri = f"file:{quote(path)}?mode={'rwc' if create else 'rw'}"

    def connect() -> sqlite3.Connection:
        if create:
            _make_private(path)
        return sqlite3.connect(uri, uri=True, timeout=lock_seconds, isolation_level=None, check_same_thread=False)

    engine = create_engine(url, creator=connect, poolclass=QueuePool)

    @event.listens_for(engine, "connect")
    def durable(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute(f"PRAGMA synchronous = {synchronous}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("dds_writes")
        opened = connection.info.get("dds_file")
        if writes and opened is not None and opened != _file(path):
            what = "the file was removed or replaced while it was open"
            raise DatabaseMissing(what, where=where, fix="put the right one there, then start anew")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        if opened is None:
            connection.info["dds_file"] = _file(path)

    return engine


def _make_private(path: str) -> None:
    """Make an empty file that its owner alone may read, if there is none. SQLite makes the write-ahead log with the same
    permissions, and tells better why it cannot be made."""
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _file(path: str) -> tuple[int, int] | None:
    """The file that the path names now. Writes to an open file that was removed succeed, but are lost."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_UNUSED_SECONDS = 5.0
"""A connection that was unused for longer is tried first: a proxy may have ended it meanwhile."""
_NETWORK = {
    "prepare_threshold": None,
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""With these nothing is prepared, and a server that vanished is noticed within half a minute. The URL's query has priority."""


def _postgres_engine(url: URL, lock_seconds: float) -> Engine:
    password_file = url.query.get(urls.PASSWORD_FILE)
    url = url.difference_update_query((urls.PASSWORD_FILE, "prepare_threshold"))
    try:
        engine = create_engine(url, connect_args={k: v for k, v in _NETWORK.items() if k not in url.query})
    except ModuleNotFoundError:
        what = "the driver for PostgreSQL is not installed"
        raise InputError(what, where=urls.shown(url), fix=install_hint("postgres")) from None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if still := connection.get_execution_options().get("dds_writes"):
            settings = {
                "synchronous_commit": "on",
                "lock_timeout": int(lock_seconds * 1000),
                "idle_in_transaction_session_timeout": int(still * 1000),
            }
            connection.exec_driver_sql("; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items()))

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, _arguments: Any, given: dict[str, Any]) -> None:
        if password_file is not None:
            given["password"] = urls.password_in(password_file, urls.shown(url))

    @event.listens_for(engine, "checkin")
    def returned(_connection: Any, record: Any) -> None:
        record.info["unused_since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def taken(connection: Any, record: Any, _proxy: Any) -> None:
        if time.monotonic() - record.info.get("unused_since", math.inf) > _UNUSED_SECONDS:
            try:
                connection.execute("SELECT 1")
                connection.rollback()
            except Exception:
                raise DisconnectionError from None  # another connection is taken

    return engine
