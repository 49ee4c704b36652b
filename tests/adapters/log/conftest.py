"""The places that every contract test runs in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs import MemoryPlace, Place, SqlPlace, sqlite_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty place for logs, of each kind in turn."""
    made: Place
    if request.param == "memory":
        made = MemoryPlace()
    elif request.param == "sqlite":
        made = SqlPlace(sqlite_url(tmp_path))
    else:
        made = SqlPlace(request.getfixturevalue("postgres").new_database())
    yield made
    made.close()
