"""Engines for the two databases, set up so that what was acknowledged is on the disk.

SQLite runs in WAL mode with synchronous=FULL; its transactions begin where the code says so, writing ones with BEGIN
IMMEDIATE, so that a writer waits for the lock instead of failing half-way. PostgreSQL commits with synchronous_commit
on. This module never makes a database file on its own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from dds_adapters.sql import urls
from dds_adapters.sql.failures import told_as_ours
from dds_core.errors import DatabaseMissing, InputError, install_hint

Synchronous = Literal["FULL", "EXTRA", "NORMAL"]
"""SQLite's durability: FULL keeps what was acknowledged; NORMAL may lose the newest commits when the power goes."""

LOCK_SECONDS = 10.0
"""How long a writer waits for another one before it gives up."""
STILL_SECONDS = 30.0
"""PostgreSQL ends the session of whoever stands still in a transaction for so long. A frozen leader would else hold the head row,
and no other could take over. SQLite has nothing like it: there its file is for one process."""


def engine_for(
    url: str,
    *,
    create: bool = False,
    synchronous: Synchronous = "FULL",
    lock_seconds: float = LOCK_SECONDS,
) -> Engine:
    """An engine for `sqlite:///path` or `postgresql://...`; nothing is connected yet.

    Raises `InputError` for another kind of URL and `DatabaseMissing` when the SQLite file is not there and not to
    be made.
    """
    parsed = urls.parsed(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite_engine(parsed, create, synchronous, lock_seconds)
    return _postgres_engine(parsed, lock_seconds)


def where_of(engine: Engine) -> str:
    """The database as errors name it, without the password."""
    return urls.shown(engine.url)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection in a reading transaction; errors come out as ours."""
    with told_as_ours(where_of(engine)), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A connection in a writing transaction, committed at the end; errors come out as ours, and then nothing is
    written.

    `LogUnreachable` is the exception to that: when the connection is lost during the commit, the outcome is unknown.
    """
    with told_as_ours(where_of(engine)), engine.connect() as connection:
        connection = connection.execution_options(dds_writes=True)
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


def _file(path: str) -> tuple[int, int] | None:
    """Which file a path names now. An open one that was removed takes writes, and nobody will ever read them."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_NETWORK = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A server that vanished without a word is noticed in half a minute; the URL's own query wins over these."""


def _postgres_engine(url: URL, lock_seconds: float) -> Engine:
    try:
        engine = create_engine(url, connect_args={k: v for k, v in _NETWORK.items() if k not in url.query})
    except ModuleNotFoundError:
        what = "the driver for PostgreSQL is not installed"
        raise InputError(what, where=urls.shown(url), fix=install_hint("postgres")) from None

    @event.listens_for(engine, "connect")
    def durable(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET synchronous_commit = on; SET lock_timeout = {int(lock_seconds * 1000)}")
            cursor.execute(f"SET idle_in_transaction_session_timeout = {int(STILL_SECONDS * 1000)}")
        connection.commit()

    return engine
