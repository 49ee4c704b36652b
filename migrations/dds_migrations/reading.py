"""What only readers need: an index by which a name is found fast. Each upgrade makes it where it is missing.

It is no part of a revision. Who writes a log needs none of it, so that a process of an older version goes on with a database
that a newer one has upgraded, and readers do without it, slower, where it is missing.
"""

from __future__ import annotations

from sqlalchemy import Connection

FIRST = "CREATE INDEX IF NOT EXISTS dds_events_first ON dds_events (log, type, stream) WHERE version = 1"
"""The first event of each stream, by type: what an object is called stands there."""


def make(connection: Connection) -> None:
    """Make what is missing, in the caller's transaction. Writers wait meanwhile, about a second for a million events."""
    connection.exec_driver_sql(FIRST)
