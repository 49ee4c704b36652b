"""`dds serve` without its log: the database is stopped and started in the middle of a burst, the disk is full for a while, the
file is gone or empty at the next start, or holds another cluster's log.

While the log is away no write is begun and the process is not ready; nothing is lost and it goes on by itself. With a lost log
all is made again from the cluster: no device is attached a second time, none goes back before the first removal period is over.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from dds_lab.judge.scaler import Measure
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from tests.support.expected_ends import ExpectedEnd
from tests.support.held_requests import HeldRequests
from tests.support.live_lab import eventually
from tests.support.ours import policy_for, told_to_us
from tests.support.over_http import Scene, database_of, hurried
from tests.support.postgres import Postgres
from tests.support.serve_program import Program
from tests.support.sooner import sooner

AWAY = 8.0
"""Seconds for which the log takes nothing."""
FINISHING = 0.5
"""Seconds in which writes that had begun come in."""
FULL = 8_192
"""Bytes: a disk on which no file may grow beyond."""
SOONER = {"no_removal_seconds": 6}
TIMES = 3.0
REST = 3.0
ADMIN = "admin"


@pytest.fixture(autouse=True, scope="module")
def sooner_than_a_cluster() -> Iterator[None]:
    with sooner(10, "FENCE_SETTLE"):  # what else is measured passes as fast as in a cluster
        yield


def without_log(it: Scene, ours: Program, gone: Callable[[], None], back: Callable[[], None]) -> None:
    """The log goes in the middle of the burst and comes back."""
    door = HeldRequests(it.lab)
    eventually(lambda: len(it.outcomes.ran) >= 5)
    gone()
    eventually(lambda: ours.probe().code == 500)
    assert "[-]log failed" in ours.probe().text
    assert ours.probe("livez").code == 200
    time.sleep(FINISHING)
    since = time.monotonic()
    time.sleep(AWAY)
    assert door.after(ADMIN, since) == [], "no write is begun"
    assert ours.probe().code == 500
    back()
    eventually(lambda: ours.probe().code == 200)
    it.to_the_end()
    assert ours.end() == 0


def burst(folder: Path) -> AbstractContextManager[Scene]:
    """What is announced on the eve may be taken by the morrow, and what was ordered may come for nobody."""
    measure = Measure(news=AWAY + 4.0, lately=120.0, changes=12)
    scenario, policy = hurried(told_to_us("burst"), TIMES), policy_for("burst", **SOONER)
    return Scene(scenario, folder, policy=policy, measure=measure, rest=REST)


BEYOND = frozenset({"beyond need"})


def test_postgres_is_stopped_and_started_in_the_middle_of_a_burst(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_database()
    with database_of(url):
        pass
    with burst(tmp_path) as it, Program(it.lab, url, tmp_path, it.policy) as ours:
        without_log(it, ours, postgres.stop, postgres.start)
    with database_of(url) as database:
        it.held(database.log("lab/scaler"), found=BEYOND)
        assert database.log("lab/scaler").head().epoch == 1, "the same process went on"


def test_the_disk_is_full_for_a_while(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.sqlite3"

    def limit(size: int) -> None:
        resource.prlimit(ours.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    with database_of(url) as database, burst(tmp_path) as it, Program(it.lab, url, tmp_path, it.policy) as ours:
        without_log(it, ours, lambda: limit(FULL), lambda: limit(resource.RLIM_INFINITY))
        it.held(database.log("lab/scaler"), found=BEYOND)
        assert database.log("lab/scaler").head().epoch == 1, "the same process went on"


# -- a log that is lost

REMOVAL = 10
"""Seconds that a device idles before it goes back."""


def two_pods() -> Scenario:
    """One pod that stays, and one that is soon gone: its device idles."""
    found = told_to_us("first_attach")
    run = found.steps[0].run
    assert run is not None
    stays = found.steps[0].model_copy(update={"run": run.model_copy(update={"delete_after": None})})
    short = run.model_copy(update={"name": "short", "delete_after": 1.0})
    return found.model_copy(update={"steps": (stays, found.steps[0].model_copy(update={"run": short, "at": 0.2}))})


BOTH = ExpectedEnd(frozenset({"train-1", "short"}), (2, 2), stays=1)


def idles(lab: Lab) -> bool:
    """Two devices are attached, and one claim is left."""
    return len(lab.ledger.attached()) == 2 and len(lab.client("test").list("resourceclaims", "default")) == 1


def emptied(file: Path) -> None:
    """As some do by mistake."""
    deleted(file)
    file.touch()


def deleted(file: Path) -> None:
    for one in file.parent.glob(f"{file.name}*"):
        one.unlink()


@pytest.mark.parametrize("lose", [deleted, emptied])
def test_after_a_lost_log_idle_devices_stay_for_a_whole_removal_period(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    file = tmp_path / "log.sqlite3"
    policy = policy_for("first_attach", no_removal_seconds=REMOVAL)
    with Scene(two_pods(), tmp_path, end=BOTH, policy=policy, rest=REST) as it:
        with Program(it.lab, str(file), tmp_path, it.policy, "--migrate") as before:
            eventually(lambda: it.lab.call(idles))
            time.sleep(0.4 * REMOVAL)
            before.kill()
        lose(file)
        with Program(it.lab, str(file), tmp_path, it.policy, "--migrate") as after:
            eventually(after.seen_all)
            seen = time.monotonic()
            while time.monotonic() < seen + REMOVAL - 1.0:
                assert it.lab.call(lambda lab: lab.ledger.count("detach", "ordered")) == 0
                time.sleep(0.2)
            it.to_the_end()
            assert after.end() == 0
        with database_of(f"sqlite:///{file}") as database:
            it.held(database.log("lab/scaler"))


def test_a_log_that_is_lost_while_a_device_is_ordered_brings_no_second_one(tmp_path: Path) -> None:
    file = tmp_path / "log.sqlite3"
    with Scene(told_to_us("first_attach"), tmp_path, policy=policy_for("first_attach", **SOONER), rest=REST) as it:
        door = HeldRequests(it.lab)
        with Program(it.lab, str(file), tmp_path, it.policy, "--migrate") as before:
            eventually(lambda: any(one.resource == "composabilityrequests" for one in door.writes), pause=0.005)
            before.kill()
        deleted(file)
        with Program(it.lab, str(file), tmp_path, it.policy, "--migrate") as after:
            it.to_the_end()
            assert after.end() == 0
        with database_of(f"sqlite:///{file}") as database:
            it.held(database.log("lab/scaler"))
