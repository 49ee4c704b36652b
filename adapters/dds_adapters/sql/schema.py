"""Makes, upgrades and checks the schema of a database. Only this module of the package changes a schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine, inspect

import dds_migrations
import dds_migrations.reading
from dds_adapters.sql.connection import LOCK_SECONDS, PATIENT_SECONDS, engine_for, reading, where_of, writing
from dds_core.errors import NotADatabase, SchemaMissing, SchemaNewer, SchemaOlder
from dds_migrations import Status

_UPGRADE_LOCK = 0x6464735F6C6F67
"""PostgreSQL's advisory lock, so that one upgrade runs at a time."""


def upgrade(
    url: str, *, lock_seconds: float = LOCK_SECONDS, say: Callable[[str], None] = lambda words: None
) -> tuple[str | None, str]:
    """Run the missing migrations and make the index and views for readers, in one transaction. Returns the revision before and
    after. `say` gets a sentence before an older schema is changed: an older dds cannot use the database from then on.

    A missing SQLite file is made, and removed again after an error. Raises `SchemaNewer` and `NotADatabase` before any change.
    """
    with _engine(url, create=True, lock_seconds=lock_seconds) as engine, _removed_on_failure(engine):
        with reading(engine) as connection:
            _refuse_foreign(connection, where_of(engine))
        if engine.dialect.name == "sqlite":
            with reading(engine) as connection:
                connection.connection.cursor().execute("PRAGMA journal_mode = WAL").close()
        with writing(engine, PATIENT_SECONDS) as connection:
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_UPGRADE_LOCK,))
            before, newest = dds_migrations.current(connection), dds_migrations.newest()
            if before not in (None, newest):
                say(
                    f"{where_of(engine)}: from schema {newest} on, a dds that knows {before} refuses it; a copy leads back"
                )
            dds_migrations.upgrade(connection)
            dds_migrations.reading.make(connection)
        return before, newest


def current(url: str) -> str | None:
    """The database's revision. None when it has no schema of dds."""
    with _engine(url) as engine, reading(engine) as connection:
        return dds_migrations.current(connection)


def check(url: str) -> str:
    """The database's revision. Raises `SchemaMissing`, `SchemaOlder` or `SchemaNewer` if this version of dds cannot use it."""
    with _engine(url) as engine:
        require_current(engine)
    return dds_migrations.newest()


def require_current(engine: Engine) -> None:
    """Raise as `check` does."""
    where = where_of(engine)
    with reading(engine) as connection:
        status, revision = dds_migrations.check(connection), dds_migrations.current(connection)
        if status is Status.MISSING:
            _refuse_foreign(connection, where)
            raise SchemaMissing("it holds no event log yet", where=where, fix="run `dds db upgrade` on it")
    if status is Status.OLDER:
        raise SchemaOlder(
            f"its schema is {revision}, this version of dds needs {dds_migrations.newest()}",
            where=where,
            fix="make a copy, then run `dds db upgrade` on it; an older dds refuses it from then on",
        )
    if status is Status.NEWER:
        raise _newer(where, revision)


def _refuse_foreign(connection: Connection, where: str) -> None:
    """Raise for a newer schema, and for a SQLite file of another application. A PostgreSQL database may be shared."""
    if dds_migrations.check(connection) is Status.NEWER:
        raise _newer(where, dds_migrations.current(connection))
    tables = inspect(connection).get_table_names()
    if connection.dialect.name == "sqlite" and tables and dds_migrations.VERSION_TABLE not in tables:
        raise NotADatabase(
            f"it belongs to another application (it holds the table {tables[0]})", where=where, fix="name another file"
        )


def _newer(where: str, revision: str | None) -> SchemaNewer:
    return SchemaNewer(
        f"its schema is {revision}, made by a newer dds than this one, which knows {dds_migrations.newest()}",
        where=where,
        fix="use that version",
    )


@contextmanager
def _engine(url: str, *, create: bool = False, lock_seconds: float = LOCK_SECONDS) -> Iterator[Engine]:
    engine = engine_for(url, create=create, lock_seconds=lock_seconds)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _removed_on_failure(engine: Engine) -> Iterator[None]:
    """Remove a new SQLite file when the block fails."""
    path = engine.url.database if engine.dialect.name == "sqlite" else None
    made_here = path is not None and not os.path.exists(path)
    try:
        yield
    except BaseException:
        if made_here and path is not None:
            engine.dispose()
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.remove(path + suffix)
        raise
