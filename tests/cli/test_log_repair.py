"""A log that cannot be folded to its end, as an older dds left it that had written onto a database that went back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dds_adapters.sql import Database
from dds_core.engine import new_event
from dds_core.errors import Unfoldable
from dds_core.log import Group
from dds_core.replay import event_of, fold_log
from dds_core.scaler import events as e
from dds_core.scaler.component import SCALER
from tests.support.commands import FIRST_ATTACH, dds, fine, log_of, refused

NAME = "first_attach/scaler"
SECOND = 1_000_000


@pytest.fixture(params=["", "--checkpoint"])
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Its last groups are those of another past: a claim settles that nobody had, and more follows."""
    path = log_of(FIRST_ATTACH, tmp_path, *filter(None, [request.param]))
    with Database(f"sqlite:///{path}") as database:
        log = database.log(NAME)
        at = log.head().recorded_at or 1
        now = max(row.occurred_at for row in log.read()) + SECOND
        moved = e.ClaimMoved("no-such-claim", "settled", "Detaching", "Released", 1, 1)
        fact = e.Stale("pods", 1)
        groups = [
            Group(0, (new_event(fact, now, None), new_event(moved, now, 0))),
            Group(1, (new_event(fact, now, None),)),
        ]
        log.append(groups, epoch=log.take_epoch(at), recorded_at=at)
    return path


def length(path: str) -> int:
    with Database(f"sqlite:///{path}") as database:
        return database.log(NAME).head().position


def test_readers_show_what_folds_and_say_where_it_stops(broken: str) -> None:
    stops = length(broken) - 2
    for command in ("status", "claims"):
        done = dds(command, broken)
        assert done.exit_code == 0, done.output
        assert f"position {stops}: it cannot be folded from here on" in done.stderr
        assert "shown is the state before it" in done.stderr and "dds log repair" in done.stderr
    assert "1 ended" in dds("claims", broken).stdout
    assert "train-1" in fine("timeline", "default/train-1", broken)


def test_a_check_before_an_upgrade_says_that_no_start_would_go_on(broken: str) -> None:
    asked = refused("db", "check", broken)
    assert asked.startswith(f"dds: log {NAME}, position {length(broken) - 2}: it cannot be folded from here on")


def test_a_repair_goes_on_from_the_last_state_that_folds(broken: str) -> None:
    before = length(broken)
    asked = refused("log", "repair", "--log", broken)
    assert f"positions {before - 2} to {before}" in asked and "give --yes" in asked
    assert length(broken) == before, "nothing was written"
    assert f"positions {before - 2} to {before}" in fine("log", "repair", "--yes", "--log", broken)
    for command in ("status", "claims"):
        assert "cannot be folded" not in dds(command, broken).stderr
    told = fine("log", "verify", broken)
    assert f"positions {before - 2} to {before} were passed over by a repair" in told
    assert "every decision is the one that the rules make" in told
    data = json.loads(fine("log", "verify", broken, "--json"))
    assert (data["ok"], data["repaired"]) == (True, [[before - 2, before]])
    assert "LogRepaired" in fine("log", "tail", broken)
    with Database(f"sqlite:///{broken}") as database:
        log = database.log(NAME)
        head = log.head()
        whole = fold_log(log.read_lean(), SCALER)
        assert SCALER.same(whole, fold_log(log.read_lean(head.checkpoint - 1), SCALER)), (
            "from the start and the checkpoint"
        )
        repaired = event_of(next(iter(log.read(types={"LogRepaired"}))), SCALER)
        assert isinstance(repaired, e.LogRepaired) and repaired.stops == before - 2


def test_a_log_that_folds_is_left_as_it_is(tmp_path: Path) -> None:
    path = log_of(FIRST_ATTACH, tmp_path)
    before = length(path)
    assert "can be folded to its end" in fine("log", "repair", "--yes", "--log", path)
    assert length(path) == before


def test_a_repair_hides_nothing_that_folds(tmp_path: Path) -> None:
    """Who can write the log could pass over what it does not like."""
    path = log_of(FIRST_ATTACH, tmp_path)
    with Database(f"sqlite:///{path}") as database:
        log = database.log(NAME)
        last = list(log.read())[-1]
        now = last.occurred_at + SECOND
        group = Group(0, (new_event(e.LogRepaired(5, last.position, "looked odd"), now, None),))
        log.append([group], epoch=log.take_epoch(1), recorded_at=1)
    assert "a repair of what can be folded" in dds("log", "verify", path).stdout


def test_a_fold_says_where_it_stops(broken: str) -> None:
    with Database(f"sqlite:///{broken}") as database, pytest.raises(Unfoldable) as stop:
        fold_log(database.log(NAME).read_lean(), SCALER)
    assert stop.value.position == length(broken) - 2
