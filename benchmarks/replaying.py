"""Replaying 200,000 events: fetch, decode, and fold the claims' states; from SQLite and from a JSON lines export.

Beside it stand the repository of `eventsourcing`, which fetches and folds one aggregate after the other from SQLite,
and what fetching and decoding alone take with the driver and the decoder themselves.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from benchmarks.appending import CLUSTER, LOG
from benchmarks.measure import Row, compare, contender, side_by_side
from benchmarks.rivals import lives_in_sqlite, replayed
from benchmarks.samples import EVENTS_A_CLAIM, START, batches
from dds_adapters.jsonl import JsonlLog, export
from dds_adapters.sql import Database, upgrade
from dds_core.events import decode
from dds_core.lifecycle import CLAIM_TABLE
from dds_core.log import LOG_OPENED, EventSource, LeanEvent
from dds_core.replay import fold_log
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimMoved

EVENTS = 200_000


def write_log(url: str, claims: int) -> int:
    """Make a database with the sample lives of `claims` claims; gives the number of events."""
    upgrade(url)
    with Database(url) as database:
        log = database.open_log(LOG, cluster=CLUSTER, recorded_at=START)
        epoch = log.take_epoch(START)
        for batch in batches(claims, 5000):
            log.append(batch, epoch=epoch, recorded_at=START)
        return log.head().position


_EDGES = frozenset((edge.trigger, edge.source, edge.target) for edge in CLAIM_TABLE)


def fold_states(events: Iterable[LeanEvent]) -> dict[str, str]:
    """Decode every event and fold the claims' states, each step held against the lifecycle's table."""
    states: dict[str, str] = {}
    for row in events:
        if row.type == LOG_OPENED or row.data is None:
            continue
        event = decode(row.type, row.data)
        if type(event) is ClaimMoved:
            assert states.get(event.claim, "") == event.source
            assert (event.trigger, event.source, event.target) in _EDGES
            states[event.claim] = event.target
    return states


def _folded(source: EventSource, claims: int) -> int:
    assert len(fold_states(source.read_lean())) == claims
    return claims * EVENTS_A_CLAIM


def _stepped(source: EventSource, claims: int) -> int:
    """The states from the transitions alone: which events those are is a column of the log, a word in the line."""
    assert len(fold_states(source.read_lean(types=("ClaimMoved",)))) == claims
    return claims * EVENTS_A_CLAIM


def _loaded(source: EventSource, claims: int) -> int:
    state = fold_log(source.read_lean(), SCALER)
    assert len(state.lifecycle.lives) == claims
    return claims * EVENTS_A_CLAIM


_LEAST = "SELECT type, data FROM dds_events WHERE log = ? AND position > 1 ORDER BY position"


def _fetched_and_decoded(path: Path) -> int:
    """The least that a replay from SQL can do: two columns of the table, in order, decoded."""
    with sqlite3.connect(path) as connection:
        count = 0
        for type_name, data in connection.execute(
            "SELECT type, data FROM dds_events WHERE position > 1 ORDER BY position"
        ):
            decode(type_name, data)
            count += 1
    connection.close()
    return count


def _read_and_decoded(source: JsonlLog) -> int:
    """The least that a replay from lines can do: each line once, its data once."""
    count = 0
    for row in source.read_lean(after=1):
        decode(row.type, row.data or b"")
        count += 1
    return count


def measure(folder: Path, rounds: int) -> list[Row]:
    """Compare both sources with `eventsourcing` and with fetching and decoding alone."""
    claims = EVENTS // EVENTS_A_CLAIM
    database, file = folder / "replay.sqlite3", folder / "replay.jsonl"
    write_log(f"sqlite:///{database}", claims)
    app, ids = lives_in_sqlite(folder / "replay-rival.sqlite3", claims)

    def by_rival() -> int:
        assert set(replayed(app, ids).values()) == {"Detaching"}
        return claims * EVENTS_A_CLAIM

    with Database(f"sqlite:///{database}") as opened:
        log = opened.log(LOG)
        export(log, str(file))
        lines = JsonlLog(str(file))
        contenders = [
            contender("fold from SQLite", lambda: _folded(log, claims)),
            contender("fold from JSON lines", lambda: _folded(lines, claims)),
            contender("states from SQLite", lambda: _stepped(log, claims)),
            contender("states from JSON lines", lambda: _stepped(lines, claims)),
            contender("eventsourcing repository.get", by_rival),
            contender("sqlite3 fetch + decode alone", lambda: _fetched_and_decoded(database)),
            contender("read lines + decode alone", lambda: _read_and_decoded(lines)),
            contender("whole state from SQLite", lambda: _loaded(log, claims)),
        ]
        found = side_by_side(contenders, rounds)
    app.close()
    sql, jsonl, sql_steps, jsonl_steps, rival, fetch, read, state = found.values()
    return [
        compare("states of the claims from SQLite", sql_steps, rival, unit="events", at_least=15),
        compare("states of the claims from JSON lines", jsonl_steps, rival, unit="events", at_least=25),
        compare("every event decoded and folded from SQLite", sql, rival, unit="events", at_least=15),
        compare("every event decoded and folded from SQLite", sql, fetch, unit="events", at_least=0.4),
        compare("every event decoded and folded from JSON lines", jsonl, rival, unit="events", at_least=25),
        compare("every event decoded and folded from JSON lines", jsonl, read, unit="events", at_least=0.4),
        compare("whole state from SQLite", state, rival, unit="events"),
    ]
