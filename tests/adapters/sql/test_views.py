"""The views for people tell what the log holds, on both databases, and are in nobody's way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from dds_adapters import sql
from dds_adapters.jsonl import JsonlLog
from dds_adapters.sql.connection import engine_for, reading, writing
from dds_core.events import TYPES, Decision
from dds_core.scaler.history import History
from dds_core.timeline.instants import rfc3339
from tests.core.scaler.history.told import DATA, told
from tests.support.logs import SqlPlace, groups, opened

LOG = "fleet-6-scaler"
"""A kept log of 28 claims, of a scaler that was started anew."""


@pytest.fixture
def kept(place: SqlPlace) -> SqlPlace:
    source = JsonlLog(str(DATA / "logs" / f"{LOG}.log.jsonl.gz"))
    place.database.import_log(source.read(0), anchors=())
    return place


def rows(place: SqlPlace, query: str) -> list[dict[str, Any]]:
    engine = engine_for(place.url)
    with reading(engine) as connection:
        found = [dict(row) for row in connection.execute(text(query)).mappings()]
    engine.dispose()
    return found


def test_transitions_are_those_of_the_log(kept: SqlPlace) -> None:
    (log,) = (kept.database.log(head.log) for head in kept.database.heads())
    stored = [row for row in log.read() if row.type in ("ClaimMoved", "DeviceMoved")]
    found = rows(kept, "SELECT * FROM transitions_readable ORDER BY position")
    assert len(found) == len(stored) > 200
    history = History().read(told(LOG))
    names = {uid: one.name for uid, one in history.claims.items()}
    names |= {uid: one.resource for uid, one in history.devices.items()}
    for row, event in zip(found, stored, strict=True):
        data = json.loads(event.data or b"")
        life = "claim" if event.type == "ClaimMoved" else "device"
        assert (row["log"], row["position"], row["time"]) == (log.name, event.position, rfc3339(event.occurred_at))
        assert (row["life"], row["name"], row["uid"]) == (life, names[event.stream], event.stream)
        assert (row["from_state"], row["to_state"]) == (event.from_state, event.to_state)
        assert (row["trigger"], row["cause"]) == (data["trigger"], data.get("cause"))


def test_decisions_are_those_of_the_log(kept: SqlPlace) -> None:
    (log,) = (kept.database.log(head.log) for head in kept.database.heads())
    stored = [row for row in log.read() if issubclass(TYPES.get(row.type, str), Decision)]
    found = rows(kept, "SELECT * FROM decisions_readable ORDER BY position")
    assert [(row["position"], row["type"], row["stream"], row["data"]) for row in found] == [
        (event.position, event.type, event.stream, (event.data or b"").decode()) for event in stored
    ]
    assert {row["mode"] for row in found} == {json.loads(event.data or b"")["mode"] for event in stored}
    assert {row["name"] for row in found if row["type"] == "Reserved"} <= {
        one.name for one in History().read(told(LOG)).claims.values()
    }


def test_claims_have_their_last_state_and_instants(kept: SqlPlace) -> None:
    found = {row["uid"]: row for row in rows(kept, "SELECT * FROM claims_readable")}
    claims = {uid: one for uid, one in History().read(told(LOG)).claims.items() if one.state}
    assert found.keys() == claims.keys()
    for uid, claim in claims.items():
        assert (found[uid]["name"], found[uid]["state"]) == (claim.name, claim.state)
        assert found[uid]["last_time"] == rfc3339(claim.since)
        assert found[uid]["first_time"] <= found[uid]["last_time"]
    total = rows(kept, "SELECT count(*) AS n FROM transitions_readable WHERE life = 'claim'")[0]["n"]
    assert sum(row["changes"] for row in found.values()) == total


def test_what_was_erased_has_no_name_and_no_cause(kept: SqlPlace) -> None:
    engine = engine_for(kept.url)
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE dds_events SET data = NULL, salt = NULL")
    engine.dispose()
    row = rows(kept, "SELECT * FROM transitions_readable ORDER BY position")[0]
    assert (row["name"], row["trigger"], row["cause"]) == (None, None, None)
    assert row["to_state"]
    assert rows(kept, "SELECT data FROM decisions_readable LIMIT 1")[0]["data"] is None


def test_an_upgrade_makes_them_anew_beside_a_writer_of_an_older_version(place: SqlPlace) -> None:
    """The writer began before there were any, and goes on; a definition of another version is replaced."""
    engine = engine_for(place.url)
    with writing(engine) as connection:
        for view in ("transitions_readable", "decisions_readable", "claims_readable"):
            connection.exec_driver_sql(f"DROP VIEW {view}")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("CREATE VIEW claims_readable AS SELECT 1 AS one")
    engine.dispose()
    log, epoch = opened(place, groups(3))
    sql.upgrade(place.url)
    log.append(groups(5)[3:], epoch=epoch, recorded_at=log.head().recorded_at)
    assert rows(place, "SELECT count(*) AS n FROM dds_events")[0]["n"] == log.head().position
    moved = rows(place, "SELECT count(*) AS n FROM dds_events WHERE type = 'ClaimMoved'")[0]["n"]
    assert sum(row["changes"] for row in rows(place, "SELECT * FROM claims_readable")) == moved > 0


def test_an_upgrade_waits_for_no_reader_where_nothing_is_new(kept: SqlPlace) -> None:
    """Such as a shell in which somebody left a transaction open."""
    before = rows(kept, "SELECT * FROM claims_readable ORDER BY uid")
    engine = engine_for(kept.url)
    with engine.connect() as reader:
        assert reader.execute(text("SELECT count(*) FROM claims_readable")).scalar() == len(before)
        sql.upgrade(kept.url, lock_seconds=1)
        assert reader.execute(text("SELECT count(*) FROM claims_readable")).scalar() == len(before)
    engine.dispose()
    assert rows(kept, "SELECT * FROM claims_readable ORDER BY uid") == before
