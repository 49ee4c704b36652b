"""A burst of forty pods while the database is as companies run it: behind a pooler, stopped for a while, or a replica that takes
over; and two replicas of dds of which one stands still. All forty are bound each time, and the log proves itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from dds_lab.judge.scaler import Measure
from tests.support.live_lab import eventually
from tests.support.ours import policy_for, told_to_us
from tests.support.over_http import LOG, Scene, database_of, hurried
from tests.support.postgres import Postgres, pooled
from tests.support.serve_program import LEASE, Program
from tests.support.sooner import sooner

SOONER = {"no_removal_seconds": 6}
PODS = 40
BEYOND = frozenset({"beyond need"})
"""A device that was ordered before an outage of the log may arrive after its pod has ended."""


@pytest.fixture(autouse=True, scope="module")
def sooner_than_a_cluster() -> Iterator[None]:
    with sooner(10, "FENCE_SETTLE"):  # what else is measured passes as fast as in a cluster
        yield


@pytest.fixture
def url(own_postgres: Postgres) -> str:
    """A database with the schema of a log."""
    url = own_postgres.new_database()
    with database_of(url):
        return url


def burst(folder: Path, away: float = 0.0) -> Scene:
    """In which the log is away for so many seconds."""
    measure = Measure(news=away + 16.0, lately=away + 120.0, changes=12, beside=away + 240.0)
    return Scene(
        hurried(told_to_us("burst"), 3.0), folder, policy=policy_for("burst", **SOONER), measure=measure, rest=3.0
    )


def all_bound(it: Scene, url: str) -> None:
    assert len(it.outcomes.ran) == PODS
    with database_of(url) as database:
        it.held(database.log(LOG), found=BEYOND)


BETWEEN = "state = 'idle in transaction'"
INSIDE = "query LIKE 'COPY %' AND wait_event = 'ClientRead' AND state = 'active'"


def frozen_as_it_writes(ours: Program, url: str, where: str) -> None:
    """From now on it stands still, in a transaction that holds a lock, between two statements or inside one."""
    sessions = f"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND {where}"

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as server:

        def caught() -> bool:
            ours.stand_still()
            if server.execute(f"{sessions} AND backend_xid IS NOT NULL").fetchall():
                return True
            ours.go_on()
            return False

        eventually(caught, pause=0.003)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_stands_before_the_database(own_postgres: Postgres, url: str, tmp_path: Path, mode: str) -> None:
    with (
        pooled(own_postgres, mode) as through,
        burst(tmp_path) as it,
        Program(it.lab, through(url), tmp_path, it.policy) as ours,
    ):
        it.to_the_end()
        assert ours.end() == 0
    all_bound(it, url)


@pytest.mark.soak
def test_the_database_is_stopped_for_five_minutes(own_postgres: Postgres, url: str, tmp_path: Path) -> None:
    """For seconds: test_log_away.py."""
    seconds = 300.0
    with burst(tmp_path, seconds) as it, Program(it.lab, url, tmp_path, it.policy) as ours:
        eventually(lambda: len(it.outcomes.ran) >= 5)
        own_postgres.stop()
        time.sleep(seconds)
        assert ours.alive and ours.probe("livez").code == 200
        own_postgres.start()
        it.to_the_end()
        assert ours.end() == 0
    all_bound(it, url)


@pytest.mark.soak
def test_a_replica_takes_over(own_postgres: Postgres, url: str, tmp_path: Path) -> None:
    """By libpq's list of hosts. If the replica lacks the last commits, the process ends in one line, and the next goes on."""
    name = url.partition("?")[0].rpartition("/")[2]
    with own_postgres.standby() as replica, burst(tmp_path, 10.0) as it, ExitStack() as running:
        both = f"postgresql://dds@/{name}?host={own_postgres.folder},{replica.folder}&target_session_attrs=read-write"
        ours = running.enter_context(Program(it.lab, both, tmp_path, it.policy, *LEASE))
        eventually(lambda: len(it.outcomes.ran) >= 5)
        own_postgres.stop()
        replica.promote()
        eventually(lambda: not ours.alive or ours.probe().code == 200)
        if not ours.alive:
            assert "the database went back to an older copy" in ours.said.read_text(encoding="utf-8").splitlines()[-1]
            ours = running.enter_context(Program(it.lab, both, tmp_path, it.policy, *LEASE))
        it.to_the_end()
        assert ours.end() == 0
        all_bound(it, replica.url(name))
        own_postgres.start()  # the fixture stops it


@pytest.mark.parametrize("where", [BETWEEN, INSIDE], ids=["between statements", "in a COPY"])
def test_one_of_two_replicas_is_frozen_in_the_middle(url: str, tmp_path: Path, where: str) -> None:
    """The other goes on, and what the frozen one still wants when it wakes is fenced off. It is frozen in the middle of a
    transaction, in which it holds the lock on the log's head. That it is killed: test_leaders.py."""
    with burst(tmp_path, 6.0) as it, Program(it.lab, url, tmp_path, it.policy, *LEASE) as first:
        eventually(first.leads)
        with Program(it.lab, url, tmp_path, it.policy, *LEASE) as second:
            eventually(lambda: second.says("standing by") and len(it.outcomes.ran) >= 5)
            frozen_as_it_writes(first, url, where)
            eventually(second.leads, 15.0)
            first.go_on()
            it.to_the_end()
            assert second.end() == 0
    all_bound(it, url)
