"""The places that every contract test runs in."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.logs import MemoryPlace, Place, SqlPlace, sqlite_url
from tests.support.postgres import Postgres, pooled

Through = Callable[[str], str]


@pytest.fixture(scope="session")
def poolers(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Through]]:
    """PgBouncer in each mode, started by the first test that asks."""
    with ExitStack() as ends:
        started: dict[str, Through] = {}

        def through(mode: str) -> Through:
            if mode not in started:
                server: Postgres = request.getfixturevalue("postgres")
                started[mode] = ends.enter_context(pooled(server, mode))
            return started[mode]

        yield through


@pytest.fixture(params=["memory", "sqlite", "postgres", "pgbouncer-session", "pgbouncer-transaction"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty place for logs, of each kind in turn."""
    made: Place
    kind, _, mode = request.param.partition("-")
    if kind == "memory":
        made = MemoryPlace()
    elif kind == "sqlite":
        made = SqlPlace(sqlite_url(tmp_path))
    else:
        url = request.getfixturevalue("postgres").new_database()
        made = SqlPlace(request.getfixturevalue("poolers")(mode)(url) if mode else url)
    yield made
    made.close()
