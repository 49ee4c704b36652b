"""The head row of a log: whoever has locked it may append, and nobody else."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, insert, select, update

from dds_adapters.sql.tables import heads
from dds_core.errors import NoSuchLog
from dds_core.log.envelope import HEAD_FIELDS, Head

_HEAD = select(*[heads.c[field] for field in HEAD_FIELDS])


def head_of(connection: Connection, name: str, where: str, *, lock: bool = False) -> Head:
    """The head of the log, its row locked until the transaction ends if asked for; raises `NoSuchLog`."""
    head = find_head(connection, name, lock=lock)
    if head is None:
        known = ", ".join(connection.scalars(select(heads.c.log).order_by(heads.c.log).limit(5))) or "none"
        raise NoSuchLog(f"it holds no log {name} (it holds: {known})", where=where, fix="check the name of the log")
    return head


def find_head(connection: Connection, name: str, *, lock: bool = False) -> Head | None:
    """The head of the log, None when there is none."""
    query = _HEAD.where(heads.c.log == name)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else Head(*row)


def store_head(connection: Connection, head: Head, *, new: bool = False) -> None:
    """Write the head of a log, whose row this transaction has locked or makes."""
    values = msgspec.structs.asdict(head)
    if new:
        connection.execute(insert(heads), values)
    else:
        connection.execute(update(heads).where(heads.c.log == head.log), values)
