"""A database that holds event logs: open it, and open, make and import logs in it. It never migrates the schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Self

import msgspec
from sqlalchemy import Engine, select
from sqlalchemy.exc import IntegrityError

from dds_adapters.sql.connection import (
    LOCK_SECONDS,
    PATIENT_SECONDS,
    Synchronous,
    engine_for,
    reading,
    where_of,
    writing,
)
from dds_adapters.sql.log import SqlLog
from dds_adapters.sql.schema import require_current
from dds_adapters.sql.statements import find_head, head_of, statements_for, store_head
from dds_adapters.sql.tables import heads
from dds_core.errors import InputError, LogExists
from dds_core.log.chain import (
    SALT_BYTES,
    Anchor,
    ChainCheck,
    ChainReport,
    SaltSource,
    advanced,
    check_cluster,
    checked,
    head_from,
    seal,
)
from dds_core.log.envelope import HEAD_FIELDS, LOG_OPENED, LOG_STREAM, Envelope, Head, opening, unopened

_BATCH = 2000


def import_envelopes(
    engine: Engine,
    envelopes: Iterable[Envelope],
    *,
    anchors: Iterable[Anchor] = (),
    progress: Callable[[int], None] = lambda position: None,
) -> ChainReport:
    """Store the envelopes of a whole log, unchanged, in one transaction, and check the chain. `progress` is called with the
    newest position after each batch.

    An interrupted import leaves nothing behind and can be run again. Raises `BrokenChain`, `LogExists`, and `InputError` when
    the first event is missing.
    """
    check = ChainCheck(anchors)
    stream = checked(envelopes, check)
    first = next(stream, None)
    head = _empty_head(first, where_of(engine))
    statements = statements_for(engine)
    with writing(engine, PATIENT_SECONDS) as connection:
        there = find_head(connection, head.log)
        if there is not None:
            raise LogExists(
                f"it holds log {head.log} already, with {there.position} events",
                where=where_of(engine),
                fix="import into another database",
            )
        store_head(connection, head, new=True)
        for batch in _batches(first, stream):
            statements.insert(connection, batch)
            head = advanced(head, batch)
            progress(head.position)
        store_head(connection, head)
        return check.report()


def _empty_head(first: Envelope | None, where: str) -> Head:
    if first is None or first.position != 1 or first.type != LOG_OPENED or first.data is None:
        begin = "it is empty" if first is None else f"it begins with {first.type} at position {first.position}"
        fix = "give the log's archives too, oldest first, and then the rest"
        raise InputError(f"this is no whole log: {begin}", where=where, fix=fix)
    identity: dict[str, Any] = msgspec.json.decode(first.data)
    return unopened(first.log, identity["cluster"])


def _batches(first: Envelope | None, rest: Iterator[Envelope]) -> Iterator[list[Envelope]]:
    batch = ([] if first is None else [first]) + list(islice(rest, _BATCH - 1))
    while batch:
        yield batch
        batch = list(islice(rest, _BATCH))


def random_salt(_event_id: str) -> bytes:
    """A random salt, so that erased data cannot be found by guessing."""
    return os.urandom(SALT_BYTES)


class Database:
    """An open database with the schema that this version of the code needs. A context manager that closes it.

    `url` is `sqlite:///path` or `postgresql://...`. Raises `InputError` (`DatabaseMissing`, `NotADatabase`,
    `SchemaMissing`, `SchemaOlder`, `SchemaNewer`) or `LogUnavailable`.
    """

    def __init__(self, url: str, *, synchronous: Synchronous = "FULL", lock_seconds: float = LOCK_SECONDS) -> None:
        self._engine = engine_for(url, synchronous=synchronous, lock_seconds=lock_seconds)
        self.where = where_of(self._engine)
        try:
            require_current(self._engine)
        except BaseException:
            self.close()
            raise

    def heads(self) -> list[Head]:
        """The heads of all logs in the database, by name."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(*[heads.c[field] for field in HEAD_FIELDS]).order_by(heads.c.log))
            return [head_from(row) for row in rows]

    def log(self, name: str, *, salts: SaltSource = random_salt) -> SqlLog:
        """The log of this name, of any cluster, for reading. Raises `NoSuchLog`."""
        with reading(self._engine) as connection:
            head_of(connection, name, self.where)
        return SqlLog(self._engine, name, salts)

    def open_log(self, name: str, *, cluster: str, recorded_at: int, salts: SaltSource = random_salt) -> SqlLog:
        """The log of this name for a writer in `cluster` (UID of namespace kube-system). It is made if it does not exist.
        Raises `ForeignLog` when it belongs to another cluster."""
        head = self._find(name) or self._make(name, cluster, recorded_at, salts)
        check_cluster(head, cluster)
        return SqlLog(self._engine, name, salts)

    def import_log(
        self,
        envelopes: Iterable[Envelope],
        *,
        anchors: Iterable[Anchor] = (),
        progress: Callable[[int], None] = lambda position: None,
    ) -> ChainReport:
        """Import a whole log. See `import_envelopes`."""
        return import_envelopes(self._engine, envelopes, anchors=anchors, progress=progress)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, name: str) -> Head | None:
        with reading(self._engine) as connection:
            return find_head(connection, name)

    def _make(self, name: str, cluster: str, recorded_at: int, salts: SaltSource) -> Head:
        """Write the first event and the head. When another process was faster, return its head."""
        empty = unopened(name, cluster)
        first = seal(empty, 0, [opening(name, cluster, recorded_at)], {LOG_STREAM: 0}, recorded_at, salts)
        head = advanced(empty, first)
        with writing(self._engine) as connection:
            there = find_head(connection, name)
            if there is not None:
                return there
            try:
                store_head(connection, head, new=True)
            except IntegrityError:
                connection.get_transaction().rollback()  # type: ignore[union-attr]
            else:
                statements_for(self._engine).insert(connection, first)
                return head
        found = self._find(name)
        assert found is not None, "the row that was in the way is there"
        return found
