"""The log's SQL statements that differ between SQLite and PostgreSQL.

For speed, inserts (executemany in SQLite, COPY in PostgreSQL) and reads use the driver directly, on the connection and in the
transaction that SQLAlchemy manages.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import asdict, astuple
from sqlalchemy import Connection, Engine, insert, select, update
from sqlalchemy import types as sa_types

from dds_adapters.sql.tables import archived_streams, events, heads
from dds_core.errors import NoSuchLog
from dds_core.log.chain import head_from
from dds_core.log.envelope import ENVELOPE_FIELDS, HEAD_FIELDS, Envelope, Head

Row = tuple[Any, ...]


class Statements(Protocol):
    """The statements that differ between the databases."""

    def insert(self, connection: Connection, envelopes: Sequence[Envelope]) -> None:
        """Store the envelopes."""

    def versions(self, connection: Connection, log: str, streams: Collection[str]) -> dict[str, int]:
        """The version of each of the streams, including archived events."""

    def page(self, connection: Connection, query: str, parameters: Row) -> Sequence[Row]:
        """The rows of a query that has `?` for its parameters."""

    def holding(self) -> str:
        """The condition that the data contain the bytes of a parameter."""

    def among(self, streams: Collection[str]) -> tuple[str, Any]:
        """The condition that an event is in one of the streams, and its parameter."""

    def settle(self, engine: Engine) -> None:
        """Remove erased data from the disk as far as the database can."""

    def free_head(self, connection: Connection, log: str, still_seconds: float) -> None:
        """End the session that holds the log's head row, if it has waited for its client for so long."""


def statements_for(engine: Engine) -> Statements:
    return _SqliteStatements() if engine.dialect.name == "sqlite" else _PostgresStatements()


def quoted(fields: Iterable[str]) -> str:
    """The column names in quotation marks, since `group` is a reserved word."""
    return ", ".join(f'"{field}"' for field in fields)


# One seek for each stream. An aggregate over `stream IN (...)` would read all events of the streams, and some are long.
_VERSIONS = (
    "SELECT wanted.{name}, COALESCE("
    f"(SELECT MAX(e.version) FROM {events.name} e WHERE e.log = ? AND e.stream = wanted.{{name}}), "
    f"(SELECT a.version FROM {archived_streams.name} a WHERE a.log = ? AND a.stream = wanted.{{name}}), 0) "
    "FROM {source}"
)


class _SqliteStatements:
    _insert = f"INSERT INTO {events.name} ({quoted(ENVELOPE_FIELDS)}) VALUES ({', '.join('?' * len(ENVELOPE_FIELDS))})"
    _versions = _VERSIONS.format(name="value", source="json_each(?) AS wanted")

    def insert(self, connection: Connection, envelopes: Sequence[Envelope]) -> None:
        connection.exec_driver_sql(self._insert, [astuple(e) for e in envelopes])

    def versions(self, connection: Connection, log: str, streams: Collection[str]) -> dict[str, int]:
        rows = connection.exec_driver_sql(self._versions, (log, log, json.dumps(list(streams))))
        return {row[0]: row[1] for row in rows}

    def page(self, connection: Connection, query: str, parameters: Row) -> Sequence[Row]:
        cursor = connection.connection.cursor()
        try:
            cursor.execute(query, parameters)
            return cursor.fetchall()
        finally:
            cursor.close()

    def holding(self) -> str:
        return "instr(data, ?) > 0"

    def among(self, streams: Collection[str]) -> tuple[str, Any]:
        return "stream IN (SELECT value FROM json_each(?))", json.dumps(list(streams))

    def settle(self, engine: Engine) -> None:
        """`secure_delete` has overwritten the erased bytes. A checkpoint removes them from the write-ahead log."""
        with engine.connect() as connection:
            connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").close()

    def free_head(self, connection: Connection, log: str, still_seconds: float) -> None:
        """The lock of a file goes with the process."""


_POSTGRES_TYPES = {
    sa_types.Text: "text",
    sa_types.BigInteger: "int8",
    sa_types.Integer: "int4",
    sa_types.LargeBinary: "bytea",
}


class _PostgresStatements:
    _copy = f"COPY {events.name} ({quoted(ENVELOPE_FIELDS)}) FROM STDIN (FORMAT BINARY)"
    _types = tuple(_POSTGRES_TYPES[type(events.c[field].type)] for field in ENVELOPE_FIELDS)
    _versions = _VERSIONS.format(name="stream", source="unnest(?::text[]) AS wanted(stream)").replace("?", "%s")

    def insert(self, connection: Connection, envelopes: Sequence[Envelope]) -> None:
        driver: Any = connection.connection.driver_connection
        with driver.cursor() as cursor, cursor.copy(self._copy) as copy:
            copy.set_types(self._types)
            for e in envelopes:
                copy.write_row(astuple(e))

    def versions(self, connection: Connection, log: str, streams: Collection[str]) -> dict[str, int]:
        rows = connection.exec_driver_sql(self._versions, (log, log, list(streams)))
        return {row[0]: row[1] for row in rows}

    def page(self, connection: Connection, query: str, parameters: Row) -> Sequence[Row]:
        driver: Any = connection.connection.driver_connection
        with driver.cursor(binary=True) as cursor:
            cursor.execute(query.replace("?", "%s"), parameters)
            rows: list[Row] = cursor.fetchall()
            return rows

    def holding(self) -> str:
        return "position(?::bytea in data) > 0"

    def among(self, streams: Collection[str]) -> tuple[str, Any]:
        return "stream = ANY (?::text[])", list(streams)

    def settle(self, engine: Engine) -> None:
        """The old versions of erased rows stay on the disk until they are vacuumed."""
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"VACUUM {events.name}")

    # A row's xmax is the transaction that locks it. Of other users' sessions no transaction is shown, and none may be ended.
    _free = (
        f"SELECT pg_terminate_backend(pid) FROM {heads.name} h JOIN pg_stat_activity a ON a.backend_xid = h.xmax "
        "WHERE h.log = %s AND a.usename = current_user AND a.wait_event_type = 'Client' "
        "AND clock_timestamp() - a.state_change > make_interval(secs => %s)"
    )

    def free_head(self, connection: Connection, log: str, still_seconds: float) -> None:
        """PostgreSQL's own limits do not end a session whose client is frozen inside a COPY, or in the middle of a message."""
        connection.exec_driver_sql(self._free, (log, still_seconds))


# -- the head row of a log ----------------------------------------------------------------------------------------------

_HEAD = select(*[heads.c[field] for field in HEAD_FIELDS])


def head_of(connection: Connection, name: str, where: str, *, lock: bool = False) -> Head:
    """The head of the log. `lock`: lock its row until the transaction ends. Raises `NoSuchLog`."""
    head = find_head(connection, name, lock=lock)
    if head is None:
        known = ", ".join(connection.scalars(select(heads.c.log).order_by(heads.c.log).limit(5))) or "none"
        raise NoSuchLog(f"it holds no log {name} (it holds: {known})", where=where, fix="check the name of the log")
    return head


def find_head(connection: Connection, name: str, *, lock: bool = False) -> Head | None:
    """As `head_of`, but None when there is no such log."""
    query = _HEAD.where(heads.c.log == name)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else head_from(row)


def store_head(connection: Connection, head: Head, *, new: bool = False) -> None:
    """Write the head of a log. This transaction must have locked its row, or makes it (`new`)."""
    values = asdict(head)
    if new:
        connection.execute(insert(heads), values)
    else:
        connection.execute(update(heads).where(heads.c.log == head.log), values)
