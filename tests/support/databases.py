"""The two databases that tests run in, as fixtures: a conftest imports those that its folder needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs import SqlPlace, sqlite_url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database without a schema; a SQLite file that does not exist yet."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    made: str = request.getfixturevalue("postgres").new_database()
    return made


@pytest.fixture
def place(url: str) -> Iterator[SqlPlace]:
    """A database with the schema and no log."""
    made = SqlPlace(url)
    yield made
    made.close()


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[SqlPlace]:
    made = SqlPlace(sqlite_url(tmp_path))
    yield made
    made.close()
