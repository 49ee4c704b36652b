"""A database that went back to an older copy, and a head row that somebody changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from dds_core.errors import BrokenChain, Fenced, LogWentBack, WrongHead
from dds_core.log import EventLog, verify_log
from tests.support.logs import NAME, NOON, SqlPlace, group, groups, opened, sqlite_url


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlPlace]:
    is_file = request.param == "sqlite"
    made = SqlPlace(sqlite_url(tmp_path) if is_file else request.getfixturevalue("postgres").new_database())
    yield made
    made.close()


def stored_head(place: SqlPlace) -> dict[str, Any]:
    with place.database._engine.connect() as connection:
        return dict(connection.execute(text("SELECT * FROM dds_heads")).mappings().one())


def change(place: SqlPlace, **fields: Any) -> None:
    with place.database._engine.begin() as connection:
        sets = ", ".join(f"{name} = :{name}" for name in fields)
        connection.execute(text(f"UPDATE dds_heads SET {sets}"), fields)


def go_back(place: SqlPlace, head: dict[str, Any]) -> None:
    """As a replica that was promoted: rows and head are those of an earlier commit."""
    with place.database._engine.begin() as connection:
        connection.execute(text("DELETE FROM dds_events WHERE position > :position"), {"position": head["position"]})
    change(place, **head)


def went_back(place: SqlPlace) -> tuple[EventLog, int, int, int]:
    """A log whose writer appended more than there is now; its epoch, where the log ends, and where the writer left it."""
    log, epoch = opened(place, groups(5))
    earlier = stored_head(place)
    log.append(groups(3, 5), epoch=epoch, recorded_at=NOON)
    last = log.head().position
    go_back(place, earlier)
    return log, epoch, earlier["position"], last


def test_nothing_is_appended_to_a_log_that_went_back(place: SqlPlace) -> None:
    log, epoch, end, last = went_back(place)
    with pytest.raises(LogWentBack, match=f"ends at position {end}, but this process wrote up to {last}"):
        log.append([group(8)], epoch=epoch, recorded_at=NOON)
    assert log.head().position == end, "nothing was written"


def test_also_where_another_has_written_on_it_since(place: SqlPlace) -> None:
    """The other epoch alone would read as a writer that took over in order."""
    log, epoch, _, last = went_back(place)
    other = place.open()
    other.append(groups(9), epoch=other.take_epoch(NOON), recorded_at=NOON)
    with pytest.raises(LogWentBack, match=f"another event is at position {last}, but this process wrote up to {last}"):
        log.append([group(8)], epoch=epoch, recorded_at=NOON)


def test_a_writer_that_took_over_in_order_is_no_database_that_went_back(place: SqlPlace) -> None:
    log, epoch = opened(place, groups(5))
    other = place.open()
    other.append(groups(9), epoch=other.take_epoch(NOON), recorded_at=NOON)
    with pytest.raises(Fenced):
        log.append([group(8)], epoch=epoch, recorded_at=NOON)


def test_an_epoch_is_taken_after_those_that_were_lost(place: SqlPlace) -> None:
    log, epoch = opened(place, groups(5))
    assert log.take_epoch(NOON, epoch + 4) == epoch + 5
    log.append([group(0)], epoch=epoch + 5, recorded_at=NOON)
    verify_log(log)


CHANGES: dict[str, Any] = {
    "position": 7,
    "hash": b"\0" * 32,
    "epoch": 9,
    "ordinal": 99,
    "recorded_at": 1,
    "checkpoint": 3,
    "archived": 2,
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_head_row_that_was_changed_is_found(place: SqlPlace, field: str) -> None:
    log, _ = opened(place, groups(5))
    verify_log(log)
    change(place, **{field: CHANGES[field]})
    with pytest.raises((WrongHead, BrokenChain)):
        verify_log(log)


def test_a_text_in_a_head_row_is_told(tmp_path: Path) -> None:
    """SQLite keeps whatever is given."""
    place = SqlPlace(sqlite_url(tmp_path))
    log, epoch = opened(place, groups(5))
    change(place, position="seven")
    with pytest.raises(WrongHead, match=f"log {NAME}: the head row is wrong: position is 'seven', which is no int"):
        verify_log(log)
    with pytest.raises(WrongHead):
        log.append([group(8)], epoch=epoch, recorded_at=NOON)
    place.close()
