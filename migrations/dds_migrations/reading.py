"""What only readers need: an index by which a name is found fast, and views for people. Each upgrade makes what is missing and
brings the views up to date.

It is no part of a revision. Who writes a log needs none of it, so that a process of an older version goes on with a database
that a newer one has upgraded, and readers do without it, slower, where it is missing.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection

FIRST = "CREATE INDEX IF NOT EXISTS dds_events_first ON dds_events (log, type, stream) WHERE version = 1"
"""The first event of each stream, by type: what an object is called stands there."""


def make(connection: Connection) -> None:
    """Make what is missing, in the caller's transaction. Writers wait meanwhile, about a second for a million events."""
    connection.exec_driver_sql(FIRST)
    sqlite = connection.dialect.name == "sqlite"
    for name, query in _views(sqlite=sqlite).items():
        _bring(connection, name, f"CREATE {'' if sqlite else 'OR REPLACE '}VIEW {name} AS {query}")


def _bring(connection: Connection, name: str, made: str) -> None:
    """Make the view unless it is there as it is to be: in PostgreSQL whoever reads it, in a transaction that was left open too,
    would be waited for at each start."""
    if connection.dialect.name == "sqlite":
        if connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).scalar() != made:
            connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
            connection.exec_driver_sql(made)
        return
    digest = hashlib.sha256(made.encode()).hexdigest()
    if connection.exec_driver_sql(f"SELECT obj_description(to_regclass('{name}'), 'pg_class')").scalar() != digest:
        connection.exec_driver_sql(made)
        connection.exec_driver_sql(f"COMMENT ON VIEW {name} IS '{digest}'")


def _views(*, sqlite: bool) -> dict[str, str]:
    """By name: the changes of claims and devices, what was decided, and the claims. What an object is called stands in the first
    event of its stream. PostgreSQL keeps who may read a view, and so takes new columns at the end only.
    """

    def text(data: str) -> str:
        return f"CAST({data} AS TEXT)" if sqlite else f"convert_from({data}, 'UTF8')"

    def field(data: str, *path: str) -> str:
        if sqlite:
            return f"json_extract({text(data)}, '$.{'.'.join(path)}')"
        return f"({text(data)}::json #>> '{{{','.join(path)}}}')"

    def time(micros: str) -> str:
        if sqlite:
            return f"strftime('%Y-%m-%dT%H:%M:%S', {micros} / 1000000, 'unixepoch') || printf('.%06dZ', {micros} % 1000000)"
        return f"to_char('epoch'::timestamp + {micros} * interval '1 microsecond', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"

    namespace, name = (field("first.data", "changes", one) for one in ("namespace", "name"))
    called = f"CASE WHEN {namespace} IS NULL THEN '' ELSE {namespace} || '/' END || {name}"
    first = "LEFT JOIN dds_events first ON first.log = {0}.log AND first.stream = {0}.stream AND first.version = 1"
    transitions = (
        f"SELECT e.log, e.position, {time('e.occurred_at')} AS time, CASE e.type WHEN 'ClaimMoved' THEN 'claim' "
        f"ELSE 'device' END AS life, {called} AS name, e.stream AS uid, {field('e.data', 'trigger')} AS trigger, "
        f"e.from_state, e.to_state, {field('e.data', 'cause')} AS cause FROM dds_events e {first.format('e')} "
        "WHERE e.type IN ('ClaimMoved', 'DeviceMoved')"
    )
    decisions = (
        f"SELECT e.log, e.position, {time('e.occurred_at')} AS time, e.type, {called} AS name, e.stream, "
        f"{field('e.data', 'mode')} AS mode, {text('e.data')} AS data FROM dds_events e {first.format('e')} "
        "WHERE e.causation_id IS NOT NULL AND e.to_state IS NULL"
    )
    claims = (
        f"SELECT last.log, {called} AS name, last.stream AS uid, last.to_state AS state, "
        f"{time('begun.occurred_at')} AS first_time, {time('last.occurred_at')} AS last_time, moves.number AS changes, "
        f"{field('last.data', 'cause')} AS cause FROM (SELECT log, stream, min(position) AS begun, max(position) AS last, "
        "count(*) AS number FROM dds_events WHERE type = 'ClaimMoved' GROUP BY log, stream) moves "
        "JOIN dds_events begun ON begun.log = moves.log AND begun.position = moves.begun "
        f"JOIN dds_events last ON last.log = moves.log AND last.position = moves.last {first.format('last')}"
    )
    return {"transitions_readable": transitions, "decisions_readable": decisions, "claims_readable": claims}
