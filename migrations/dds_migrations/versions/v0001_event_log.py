"""The event log: events, one head row for each log, the versions of archived streams, and a view for people.

There is no downgrade: a log is never dropped. Data are stored as bytes, not as JSON, because a database that parses JSON could
return other bytes, which would break the chain of hashes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _events()
    _heads()
    _archived_streams()
    op.execute(_READABLE_VIEW[op.get_bind().dialect.name])


def _events() -> None:
    op.create_table(
        "dds_events",
        sa.Column("log", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("occurred_at", sa.BigInteger, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("group", sa.BigInteger, nullable=False),
        sa.Column("correlation_id", sa.Text, nullable=False),
        sa.Column("causation_id", sa.Text),
        sa.Column("from_state", sa.Text),
        sa.Column("to_state", sa.Text),
        sa.Column("data", sa.LargeBinary),
        sa.Column("salt", sa.LargeBinary),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("prev_hash", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("log", "position", name="dds_events_pk"),
        sa.UniqueConstraint("log", "stream", "version", name="dds_events_stream"),
        sa.UniqueConstraint("event_id", name="dds_events_id"),
    )


def _heads() -> None:
    op.create_table(
        "dds_heads",
        sa.Column("log", sa.Text, nullable=False),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("component", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("ordinal", sa.BigInteger, nullable=False),
        sa.Column("checkpoint", sa.BigInteger, nullable=False),
        sa.Column("archived", sa.BigInteger, nullable=False),
        sa.Column("archived_ordinal", sa.BigInteger, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column("epoch_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("log", name="dds_heads_pk"),
    )


def _archived_streams() -> None:
    op.create_table(
        "dds_archived_streams",
        sa.Column("log", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("log", "stream", name="dds_archived_streams_pk"),
    )


_PLAIN = "log, position, stream, version, type, from_state, to_state"
_IDS = 'event_id, causation_id, correlation_id, schema_version, epoch, "group"'


def _sqlite_time(column: str) -> str:
    seconds = f"strftime('%Y-%m-%dT%H:%M:%S', {column} / 1000000, 'unixepoch')"
    return f"{seconds} || printf('.%06dZ', {column} % 1000000) AS {column}"


def _postgresql_time(column: str) -> str:
    seconds = f"to_char(to_timestamp({column} / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS')"
    return f"{seconds} || '.' || lpad(({column} % 1000000)::text, 6, '0') || 'Z' AS {column}"


_READABLE_VIEW = {
    "sqlite": f"CREATE VIEW events_readable AS SELECT {_PLAIN}, {_sqlite_time('occurred_at')}, "
    f"{_sqlite_time('recorded_at')}, CAST(data AS TEXT) AS data, {_IDS}, lower(hex(hash)) AS hash FROM dds_events",
    "postgresql": f"CREATE VIEW events_readable AS SELECT {_PLAIN}, {_postgresql_time('occurred_at')}, "
    f"{_postgresql_time('recorded_at')}, convert_from(data, 'UTF8') AS data, {_IDS}, "
    "encode(hash, 'hex') AS hash FROM dds_events",
}
