"""The database goes back in the middle of a burst: a replica is promoted that lacks the last commits, as a copy of the folder.

`dds serve` does not write onto the older log: it ends in one line. Its next process says what is lost, as a fact, lists the
cluster and goes on; nothing is given twice and the log proves itself.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dds_core.engine import new_event
from dds_core.events import EventsLost, Stale, Started
from dds_core.log import Group
from dds_core.replay import event_of
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimMoved
from dds_lab.judge.scaler import Measure
from tests.support.commands import fine
from tests.support.live_lab import eventually
from tests.support.ours import policy_for, told_to_us
from tests.support.over_http import Scene, database_of, hurried
from tests.support.postgres import Postgres
from tests.support.serve_program import LEASE, Program
from tests.support.sooner import sooner

LOG = "lab/scaler"
SOONER = {"no_removal_seconds": 6}
MEASURE = Measure(news=16.0, lately=120.0, changes=12, beside=240.0)
BEYOND = frozenset({"beyond need"})
"""What was ordered may come for nobody, as after any outage of the log."""


@pytest.fixture(autouse=True, scope="module")
def sooner_than_a_cluster() -> Iterator[None]:
    with sooner(10, "FENCE_SETTLE"):  # what else is measured passes as fast as in a cluster
        yield


class Replica:
    """The server's state at an instant, and its promotion."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.data, self.copy = server.folder / "data", server.folder / "replica"
        server.stop()
        shutil.copytree(self.data, self.copy, symlinks=True, copy_function=_owned)
        _own(self.data, self.copy)
        server.start()

    def promote(self) -> None:
        self.server.stop()
        shutil.rmtree(self.data)
        self.copy.rename(self.data)
        self.server.start()


def _owned(source: str, target: str) -> None:
    shutil.copy2(source, target)
    _own(Path(source), Path(target))


def _own(source: Path, target: Path) -> None:
    status = source.stat()
    shutil.chown(target, status.st_uid, status.st_gid)
    for folder in (one for one in target.rglob("*") if target.is_dir() and one.is_dir()):
        shutil.chown(folder, status.st_uid, status.st_gid)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 20))])
def test_the_scaler_goes_on_and_says_what_is_lost(own_postgres: Postgres, tmp_path: Path, seed: int) -> None:
    """Every third time the process is killed, too, so that only the Lease knows where the log was left."""
    chance = random.Random(seed)
    url = own_postgres.new_database()
    killed = seed % 3 == 0
    with database_of(url):
        pass
    scenario, policy = hurried(told_to_us("burst"), 3.0), policy_for("burst", **SOONER)
    with Scene(scenario, tmp_path, policy=policy, measure=MEASURE, rest=3.0) as it:
        with Program(it.lab, url, tmp_path, policy, *LEASE) as first:
            eventually(lambda: len(it.outcomes.ran) >= chance.randint(1, 12))
            replica = Replica(own_postgres)
            eventually(lambda: first.probe().code == 200)
            since = len(it.outcomes.ran)
            eventually(lambda: len(it.outcomes.ran) > since + chance.randint(0, 3))
            time.sleep(chance.uniform(1.0, 3.0))
            if killed:
                first.kill()
            replica.promote()
            code = first.process.wait(30)
            if not killed:
                assert code == 1
                last = first.said.read_text(encoding="utf-8").splitlines()[-1]
                assert "the database went back to an older copy" in last and "start dds again" in last
        with Program(it.lab, url, tmp_path, policy, *LEASE) as second:
            it.to_the_end()
            assert second.end() == 0
    with database_of(url) as database:
        log = database.log(LOG)
        it.held(log, found=BEYOND)
        told = [event_of(row, SCALER) for row in log.read(types={"Started", "EventsLost"})]
        assert [type(one) for one in told] == [Started, Started, EventsLost]
        *_, before, lost = told
        assert isinstance(before, Started) and isinstance(lost, EventsLost)
        assert lost.kept < lost.position and lost.epoch < before.epoch


def test_a_log_that_cannot_be_folded_is_waited_for_and_never_a_loop_of_restarts(tmp_path: Path) -> None:
    """As an older dds left it. The process is alive, not ready, and says why; after `dds log repair` it goes on by itself."""
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    with Scene(told_to_us("first_attach"), tmp_path, policy=policy_for("first_attach", **SOONER), rest=3.0) as it:
        with Program(it.lab, url, tmp_path, it.policy, "--migrate") as first:
            eventually(first.seen_all)
            assert first.end() == 0
        with database_of(url) as database:
            log = database.log(LOG)
            now = max(row.occurred_at for row in log.read())
            moved = ClaimMoved("no-such-claim", "settled", "Detaching", "Released", 1, 1)
            wrong = Group(0, (new_event(Stale("pods", 1), now, None), new_event(moved, now, 0)))
            log.append([wrong], epoch=log.take_epoch(now), recorded_at=now)
        with Program(it.lab, url, tmp_path, it.policy) as second:
            eventually(lambda: second.says("cannot be folded from here on"))
            page = second.probe()
            assert page.code == 500 and "dds log repair" in page.text
            assert second.probe("livez").code == 200
            assert second.alive
            fine("log", "repair", "--yes", "--log", url)
            it.to_the_end()
            assert second.probe().code == 200
            assert second.end() == 0
        with database_of(url) as database:
            it.held(database.log(LOG))
