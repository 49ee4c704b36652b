"""What only readers need: an index that finds names quickly, and views for people. Each upgrade makes or updates them.

They are not part of a revision, because no writer needs them: a process of an older version continues on a database that a
newer version has upgraded. Readers work without the index, only slower.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection

FIRST = "CREATE INDEX IF NOT EXISTS dds_events_first ON dds_events (log, type, stream) WHERE version = 1"
"""The first event of each stream, by type. It holds the name of the object."""


def make(connection: Connection) -> None:
    """Make the index and the views where missing, in the caller's transaction. Writers wait: about a second for a million
    events."""
    connection.exec_driver_sql(FIRST)
    sqlite = connection.dialect.name == "sqlite"
    for name, query in _views(sqlite=sqlite).items():
        _bring(connection, name, f"CREATE {'' if sqlite else 'OR REPLACE '}VIEW {name} AS {query}")


def _bring(connection: Connection, name: str, made: str) -> None:
    """Make the view unless it exists with this definition. In PostgreSQL, replacing it waits for all transactions that have
    read it, also idle ones; this would happen at each start."""
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
    """The queries of the views, by name. The name of an object is in the first event of its stream. Add new columns at the end
    only: PostgreSQL can replace a view, and so keep its grants, only then."""

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
