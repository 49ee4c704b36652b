"""Two `dds serve --leader-elect` on one log: who leads ends, is killed, or stands still at the worst moment; the other goes on.

All writes are watched at the API server's door, by who sends them: none comes from a process whose lease is over, what was sent
before and comes late is refused or changes nothing that matters, and the judge sees no device moved for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dds_adapters.sql import Database
from dds_lab.api.requests import MASTERS
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.scenario.cluster import User
from tests.support.held_requests import HeldRequests
from tests.support.live_lab import eventually
from tests.support.ours import policy_for, told_to_us
from tests.support.over_http import Scene, database_of, hurried
from tests.support.postgres import Postgres
from tests.support.serve_program import Program
from tests.support.sooner import sooner

DURATION, RENEW, RETRY = 4.0, 2.5, 0.4
LEASE = (
    "--leader-elect", "--lease-duration", str(DURATION), "--lease-renew-deadline", str(RENEW), "--lease-retry-period", str(RETRY),
)  # fmt: skip
FIRST, SECOND = "first", "second"
SLACK = 4.0
"""Seconds that a loaded machine may take for what takes none."""
SOONER = {"no_removal_seconds": 4}
REST = 3.0


@pytest.fixture(autouse=True, scope="module")
def sooner_than_a_cluster() -> Iterator[None]:
    with sooner(10, "FENCE_SETTLE"):  # what else is measured passes as fast as in a cluster
        yield


def with_users(scenario: Scenario) -> Scenario:
    """One user for each process, so that the door tells them apart."""
    users = tuple(User(name=name, groups=(MASTERS,)) for name in (FIRST, SECOND))
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"users": users})})


class Two(NamedTuple):
    """The scene, its door, the log, and how to start a process."""

    it: Scene
    door: HeldRequests
    database: Database
    start: Callable[[str], Any]


@contextmanager
def two(url: str, folder: Path, name: str = "first_attach") -> Iterator[Two]:
    policy = policy_for(name, **SOONER)
    scenario = with_users(hurried(told_to_us(name), 2.0))
    with database_of(url) as database, Scene(scenario, folder, policy=policy, rest=REST) as it:

        def start(user: str) -> Any:
            return Program(it.lab, url, folder, policy, *LEASE, "--context", user)

        yield Two(it, HeldRequests(it.lab), database, start)
        it.held(database.log("lab/scaler"))
        assert it.lab.lab.ledger.count("attach", "done") <= sum(it.outcomes.waits.values()), "one for each wait"


@pytest.fixture
def on_postgres(postgres: Postgres) -> str:
    return postgres.new_database()


def standing_by(ours: Program) -> bool:
    return ours.says("standing by")


def asked_for(lab: Lab) -> bool:
    return bool(lab.client("test").list("composabilityrequests"))


def test_when_the_leader_ends_in_order_the_other_leads_at_once(tmp_path: Path) -> None:
    with two(f"sqlite:///{tmp_path}/log.sqlite3", tmp_path) as (it, door, _, start), start(FIRST) as first:
        eventually(first.leads)
        with start(SECOND) as second:
            eventually(lambda: standing_by(second))
            eventually(lambda: it.lab.call(asked_for))
            assert first.end() == 0
            ended = time.monotonic()
            eventually(second.leads, 2 * RETRY + SLACK)
            assert door.after(FIRST, ended) == []
            it.to_the_end()
            assert second.end() == 0


def test_when_the_leader_is_killed_the_other_leads_once_the_lease_is_over(on_postgres: str, tmp_path: Path) -> None:
    with two(on_postgres, tmp_path) as (it, _, _, start), start(FIRST) as first:
        eventually(first.leads)
        with start(SECOND) as second:
            eventually(lambda: standing_by(second))
            eventually(lambda: it.lab.call(asked_for))
            first.kill()
            killed = time.monotonic()
            eventually(second.leads, DURATION + 2 * RETRY + SLACK)
            assert time.monotonic() - killed > DURATION - RENEW, "not before the lease was over"
            it.to_the_end()
            assert second.end() == 0


def test_a_lease_that_is_deleted_in_the_middle_breaks_nothing(on_postgres: str, tmp_path: Path) -> None:
    with two(on_postgres, tmp_path) as (it, _, database, start), start(FIRST) as first:
        eventually(first.leads)
        with start(SECOND) as second:
            eventually(lambda: standing_by(second))
            eventually(lambda: it.lab.call(asked_for))
            it.lab.call(lambda lab: lab.client("somebody").delete("leases", "dds-scaler", "composable-dra"))
            it.to_the_end()
            alive = [one for one in (first, second) if one.alive]
            assert alive, "one of them leads"
            if first.alive:
                assert database.log("lab/scaler").head().epoch == 1
            assert [one.end() for one in alive] == [0] * len(alive)


class Moment(NamedTuple):
    """Where the leader is made to stand still, at which of its requests of this kind; a write that is `held` arrives late."""

    method: str
    resource: str
    number: int = 1
    held: bool = False


SOON, LATE = "soon", "late"
"""When it goes on: as soon as another leads, or when all is long over."""

USUAL = [
    (Moment("GET", "composabilityrequests"), SOON),
    (Moment("GET", "resourceclaims"), LATE),
    (Moment("POST", "composabilityrequests", held=True), SOON),
    (Moment("PATCH", "resourceclaims", held=True), SOON),
    (Moment("PATCH", "composabilityrequests", held=True), LATE),
]
REST_OF_THEM = [
    (Moment("GET", "pods"), SOON),
    (Moment("GET", "composableresources"), SOON),
    (Moment("GET", "composabilityrequests", 2), SOON),
    (Moment("GET", "composabilityrequests", 2), LATE),
    (Moment("POST", "composabilityrequests", held=True), LATE),
    (Moment("PATCH", "resourceclaims", held=True), LATE),
    (Moment("PATCH", "resourceclaims", 2, held=True), SOON),
    (Moment("PATCH", "resourceclaims", 2, held=True), LATE),
    (Moment("PATCH", "pods", held=True), SOON),
    (Moment("PATCH", "pods", held=True), LATE),
    (Moment("PATCH", "composableresources", held=True), SOON),
    (Moment("PATCH", "composableresources", held=True), LATE),
    (Moment("PATCH", "composabilityrequests", held=True), SOON),
]


def stands_still(url: str, folder: Path, moment: Moment, when: str) -> list[int]:
    """Let the leader stand still there, let another win, let it go on; gives what a late write was answered."""
    with two(url, folder) as (it, door, _, start), start(FIRST) as first:
        door.stop_at(FIRST, moment.method, moment.resource, first.stand_still, number=moment.number, held=moment.held)
        eventually(first.leads)
        with start(SECOND) as second:
            assert door.stopped.wait(60), "it came by"
            leader = door.holders[0].identity
            eventually(lambda: door.taken_by_another(leader), 60)
            taken = door.taken_by_another(leader)
            assert taken - door.stopped_at > DURATION - RENEW
            if when == LATE:
                it.to_the_end()
            if moment.held:
                door.let_in()
            first.go_on()
            eventually(lambda: first.says("it stands by again"))
            assert first.end() == 0
            it.to_the_end()
            assert second.end() == 0
        # A process may be stopped between check and send. An Event that was on its way only tells people what was true, and its
        # name makes a second one fail; a look only makes the operator look, and is refused if the object has changed.
        late = [one for one in door.after(FIRST, taken) if one.resource != "events" and not one.looks]
        assert late == [], "nothing is begun after the lease's end"
    return door.late


def named(moment: object) -> str:
    return "-".join(map(str, moment[:3])) if isinstance(moment, Moment) else str(moment)


@pytest.mark.parametrize(("moment", "when"), USUAL, ids=named)
def test_a_leader_that_stands_still_while_another_takes_over(
    on_postgres: str, tmp_path: Path, moment: Moment, when: str
) -> None:
    late = stands_still(on_postgres, tmp_path, moment, when)
    if when == LATE:
        assert all(code in (404, 409, 422) for code in late), "what comes late is refused"


@pytest.mark.soak
@pytest.mark.parametrize(("moment", "when"), REST_OF_THEM, ids=named)
def test_at_other_moments(on_postgres: str, tmp_path: Path, moment: Moment, when: str) -> None:
    """Not on SQLite: a process that stands still in a transaction keeps all others from the file, and nobody ends that."""
    late = stands_still(on_postgres, tmp_path, moment, when)
    if when == LATE:
        assert all(code in (404, 409, 422) for code in late), "what comes late is refused"
