"""Taking a whole log into a database, unchanged: the chain is checked on the way, and all of it appears or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from sqlalchemy import Engine

from dds_adapters.sql.connection import where_of, writing
from dds_adapters.sql.heads import find_head, store_head
from dds_adapters.sql.statements import statements_for
from dds_core.errors import InputError, LogExists
from dds_core.log.appending import advanced
from dds_core.log.chain import Anchor, ChainCheck, ChainReport, checked
from dds_core.log.envelope import LOG_OPENED, Envelope, Head, unopened

_BATCH = 2000


def import_envelopes(
    engine: Engine,
    envelopes: Iterable[Envelope],
    *,
    anchors: Iterable[Anchor] = (),
    progress: Callable[[int], None] = lambda position: None,
) -> ChainReport:
    """Store a log's envelopes from position 1 on, in one transaction; `progress` is told the newest position now
    and then.

    An import that is interrupted leaves nothing behind and may simply be run again. Raises `BrokenChain`,
    `LogExists`, and `InputError` when the first event is not there.
    """
    check = ChainCheck(anchors)
    stream = checked(envelopes, check)
    first = next(stream, None)
    head = _empty_head(first, where_of(engine))
    statements = statements_for(engine)
    with writing(engine) as connection:
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
