"""Reading a log page by page: every page is a short transaction, so a long read holds up neither writers nor clean-up.

That is safe because positions become visible in order and rows never change, but for redaction and for the archive
taking a prefix away, which is looked for after each page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Engine

from dds_adapters.sql.connection import reading, where_of
from dds_adapters.sql.heads import head_of
from dds_adapters.sql.statements import Row, quoted, statements_for
from dds_adapters.sql.tables import events
from dds_core.errors import BrokenChain
from dds_core.log.checks import check_not_archived


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
    """Pages of rows with these columns, in the order of positions; `after` is exclusive, `until` inclusive."""
    statements, where = statements_for(engine), where_of(engine)
    with reading(engine) as connection:
        head = head_of(connection, log, where)
    check_not_archived(head, after)
    last = head.position if until is None else min(until, head.position)
    # A stream's events are walked by version, which its index is ordered by; versions and positions grow together.
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
    """A whole read leaves nothing out silently: raise `BrokenChain` naming the first position that is not there."""
    if len(rows) != max(until - after, 0):
        found = {row[position_at] for row in rows}
        missing = next(position for position in range(after + 1, until + 1) if position not in found)
        raise BrokenChain(log, missing, f"it is missing, though the log goes on to {until} at least")


def _query(
    log: str, columns: Sequence[str], key: str, last: int, stream: str | None, types: Collection[str] | None
) -> tuple[str, Row]:
    """The query of a page and its first parameters; then come `after`, the key of the last row seen, and the limit."""
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
