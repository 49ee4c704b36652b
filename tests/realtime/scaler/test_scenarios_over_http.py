"""Scenarios with our scaler over HTTP, some on SQLite and some on PostgreSQL, end as they should: what they should be is in
`tests/support/expected_ends.py`, and the judge looks on from the lab's own thread while devices are held.

That all of them do is shown on virtual time (tests/lab/scaler/test_scenarios.py). Here are those in which something is read or
written that the others do not have. The lab is some times faster than the clock, and the policy with it. Several scenes are
played side by side, as most of the time nothing happens. `faults`, whose 40 minutes take longer than a test may, is played by
the soak.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dds_lab.check.command import later
from dds_lab.scenario import Scenario
from tests.support.as_recorded import KEEPS, with_ideal_operator
from tests.support.live_lab import OurProcess, eventually
from tests.support.ours import told_to_us
from tests.support.over_http import Scene, batches, database_of, opening
from tests.support.postgres import Postgres
from tests.support.serve_program import Program
from tests.support.sooner import sooner

SPEED = 5.0
QUICKER = 8.0
SIDE_BY_SIDE = 5
HEAD_START = 10.0
"""Seconds of the lab's time in which our process gets ready."""
NAMES = [
    "attach_failure", "coexistence", "cordoned", "extended_resource", "first_available",
    "node_lost", "partitioned", "rival", "shares", "unhealthy",
]  # fmt: skip
STORES = ("sqlite", "postgres")

Url = Callable[[str], str]


@pytest.fixture(autouse=True, scope="module")
def sooner_than_a_cluster() -> Iterator[None]:
    with sooner(SPEED):
        yield


@pytest.fixture
def url_of(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> Url:
    """Where a scene's log is to be."""
    if store == "sqlite":
        return lambda name: f"sqlite:///{tmp_path}/{name}.sqlite3"
    server: Postgres = request.getfixturevalue("postgres")
    return lambda name: server.new_database()


def played(
    name: str,
    url: str,
    folder: Path,
    *,
    speed: float = SPEED,
    as_program: bool = False,
    scenario: Scenario | None = None,
) -> None:
    """One scene, from its beginning to its end."""
    place = folder / name
    place.mkdir()
    with database_of(url) as database:
        # what dds knows of the real operator's seconds would be wrong at another speed
        told = with_ideal_operator(told_to_us(name), deletes_with_node=name not in KEEPS)
        with Scene(scenario or later(told, HEAD_START), place, speed=speed) as it:
            if as_program:
                with Program(it.lab, url, place, it.policy) as ours:
                    it.to_the_end()
                    assert ours.end() == 0
            else:
                with OurProcess(it.lab.cluster(), opening(database), lambda: it.policy) as within:
                    it.to_the_end()
                    eventually(lambda: within.process.controller is not None and not within.process.controller.behind)
        it.held(database.log("lab/scaler"))


def side_by_side(names: tuple[str, ...], url_of: Url, folder: Path, *, as_program: bool = False) -> None:
    """Play them; what went wrong with one does not keep the others from their end."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        plays = {name: pool.submit(played, name, url_of(name), folder, as_program=as_program) for name in names}
    wrong = {name: play.exception() for name, play in plays.items() if play.exception() is not None}
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())


@pytest.mark.parametrize(
    ("names", "store"),
    [*zip(batches(NAMES, SIDE_BY_SIDE), itertools.cycle(STORES), strict=False)],
    ids=lambda one: one if isinstance(one, str) else "+".join(one),
)
def test_scenarios_end_as_they_should(names: tuple[str, ...], url_of: Url, tmp_path: Path) -> None:
    side_by_side(names, url_of, tmp_path)


@pytest.mark.parametrize("store", STORES)
def test_so_they_do_with_the_program_itself(url_of: Url, tmp_path: Path) -> None:
    side_by_side(("first_attach", "two_claims", "many_devices"), url_of, tmp_path, as_program=True)


def wireless(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"faults": scenario.faults.model_copy(update={"wire": ()})})


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("store", STORES)
def test_a_story_of_faults_ends_as_it_should(url_of: Url, tmp_path: Path) -> None:
    """But for what it has on the wire: a reflector's patience with a silent watch is in seconds of ours, so that in a hurried lab
    it takes longer than a claim may wait. `test_wire_faults.py` has that part."""
    played("faults", url_of("faults"), tmp_path, speed=QUICKER, scenario=wireless(told_to_us("faults")))
