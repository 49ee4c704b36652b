"""`dds serve` killed as `kill -9` does at random instants of a burst, again and again, and started anew on the same log.

No device is attached twice for one need, none is detached under a claim (the judge looks on from the lab), no event that was
committed is lost, the chain holds and the log decides the same again. That each boundary is hit exactly is shown on virtual time,
in `test_crash.py`; here it is a process, a socket and a database that end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from dds_core.log.chain import Anchor
from tests.support.live_lab import eventually
from tests.support.ours import policy_for, told_to_us
from tests.support.over_http import Scene, anchored, database_of, hurried
from tests.support.postgres import Postgres
from tests.support.serve_program import Program
from tests.support.sooner import sooner

KILLS = 10
TIMES = 2.0
"""So many times faster than it was recorded is the burst."""
REST = 3.0
SOONER = {"no_removal_seconds": 8}
SOONEST, LATEST = 1.2, 6.0
"""Seconds after a start at which a process is killed: it takes one until it has read its own code."""

Url = Callable[[], str]


@pytest.fixture(autouse=True, scope="module")
def sooner_than_a_cluster() -> Iterator[None]:
    with sooner(10, "FENCE_SETTLE"):  # what else is measured passes as fast as in a cluster
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def url_of(request: pytest.FixtureRequest, tmp_path: Path) -> Url:
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/log.sqlite3"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database


def killed_again_and_again(url: str, folder: Path, seed: int) -> Scene:
    """The burst, to its end, with a process that is killed; what was committed by each kill is still there in the end."""
    random = Random(seed)
    anchors: list[Anchor] = []
    burst, policy = hurried(told_to_us("burst"), TIMES), policy_for("burst", **SOONER)
    with database_of(url) as database, Scene(burst, folder, seed=seed, policy=policy, rest=REST) as it:
        for number in range(KILLS):
            with Program(it.lab, url, folder, it.policy) as ours:
                if number % 2:  # on a busy machine the other half may not get so far
                    eventually(ours.leads)
                time.sleep(random.uniform(SOONEST, LATEST))
                assert ours.alive, ours.lines()[-1]
                ours.kill()
            anchors += filter(None, [anchored(database)])
        with Program(it.lab, url, folder, it.policy) as ours:
            eventually(ours.leads)  # all may be as it should be before it has read its own code
            it.to_the_end()
            assert ours.end() == 0
        log = database.log("lab/scaler")
        assert log.head().epoch >= KILLS // 2
        it.held(log, anchors=tuple(anchors))
    return it


def test_ten_kills_in_the_middle_of_a_burst(tmp_path: Path) -> None:
    it = killed_again_and_again(f"sqlite:///{tmp_path}/log.sqlite3", tmp_path, seed=1)
    assert len(it.outcomes.ran) == 40


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_times_ten_kills(url_of: Url, tmp_path: Path, seed: int) -> None:
    killed_again_and_again(url_of(), tmp_path, seed)
