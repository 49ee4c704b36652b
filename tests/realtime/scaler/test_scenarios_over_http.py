"""Scenarios with `dds serve` over HTTP, on SQLite and on PostgreSQL, end as they should: what they should be is in
`tests/support/expected_ends.py`, and the judge looks on from the lab's own thread while devices are held.

That all scenarios do, with the same requests and without a socket, is shown on virtual time (tests/lab/scaler/test_scenarios.py).
The lab is some times faster than the clock, and the policy with it. The scenes are played side by side, as most of the time
nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dds_lab.check.command import later
from tests.support.as_recorded import KEEPS, with_ideal_operator
from tests.support.ours import told_to_us
from tests.support.over_http import Scene, database_of
from tests.support.postgres import Postgres
from tests.support.serve_program import Program
from tests.support.sooner import sooner

SPEED = 5.0
NAMES = ("first_attach", "two_claims", "many_devices")
HEAD_START = 30.0
"""Seconds of the lab's time in which our process gets ready."""


@pytest.fixture(autouse=True, scope="module")
def sooner_than_a_cluster() -> Iterator[None]:
    with sooner(SPEED):
        yield


def played(name: str, url: str, folder: Path) -> None:
    """One scene, from its beginning to its end."""
    place = folder / name
    place.mkdir()
    with database_of(url) as database:
        # what dds knows of the real operator's seconds would be wrong at another speed
        told = with_ideal_operator(told_to_us(name), deletes_with_node=name not in KEEPS)
        with (
            Scene(later(told, HEAD_START), place, speed=SPEED) as it,
            Program(it.lab, url, place, it.policy) as ours,
        ):
            it.to_the_end()
            assert ours.end() == 0
        it.held(database.log("lab/scaler"))


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_scenarios_end_as_they_should(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> None:
    def url_of(name: str) -> str:
        if store == "sqlite":
            return f"sqlite:///{tmp_path}/{name}.sqlite3"
        server: Postgres = request.getfixturevalue("postgres")
        return server.new_database()

    urls = {name: url_of(name) for name in NAMES}
    with ThreadPoolExecutor(len(NAMES)) as pool:
        plays = {name: pool.submit(played, name, url, tmp_path) for name, url in urls.items()}
    wrong = {name: play.exception() for name, play in plays.items() if play.exception() is not None}
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
