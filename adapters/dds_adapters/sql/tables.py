"""The tables of the event log as this code uses them. A test compares them with the migrations. The view `events_readable`,
with instants, data and hashes as text, is only for people with psql or sqlite3."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

events = Table(
    "dds_events",
    metadata,
    Column("log", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("stream", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("occurred_at", BigInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("group", BigInteger, nullable=False),
    Column("correlation_id", Text, nullable=False),
    Column("causation_id", Text),
    Column("from_state", Text),
    Column("to_state", Text),
    Column("data", LargeBinary),
    Column("salt", LargeBinary),
    Column("digest", LargeBinary, nullable=False),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("log", "position", name="dds_events_pk"),
    UniqueConstraint("log", "stream", "version", name="dds_events_stream"),
    UniqueConstraint("event_id", name="dds_events_id"),
)

heads = Table(
    "dds_heads",
    metadata,
    Column("log", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("component", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("ordinal", BigInteger, nullable=False),
    Column("checkpoint", BigInteger, nullable=False),
    Column("archived", BigInteger, nullable=False),
    Column("archived_ordinal", BigInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("epoch_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("log", name="dds_heads_pk"),
)

archived_streams = Table(
    "dds_archived_streams",
    metadata,
    Column("log", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    PrimaryKeyConstraint("log", "stream", name="dds_archived_streams_pk"),
)
