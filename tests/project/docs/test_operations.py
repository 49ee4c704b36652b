"""The SQL of the operations page gives rows, in SQLite and in PostgreSQL."""

from __future__ import annotations

import re

import pytest
import sqlalchemy
from click.testing import CliRunner

from dds_commands import main
from tests.project.docs.pages import ROOT

TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with the log of the recording that the project ships."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('operations') / 'log.sqlite3'}"
    else:
        url = request.getfixturevalue("postgres").new_database()
    recording = str(ROOT / "examples/recordings/first_attach.jsonl.gz")
    for words in (
        ["db", "upgrade", url],
        ["replay", recording, "--log", url, "--name", "prod-eu/scaler", "--checkpoint"],
    ):
        outcome = CliRunner().invoke(main, words)
        assert outcome.exit_code == 0, outcome.output
    return url


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_a_query_gives_rows(url: str, query: str) -> None:
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            rows = connection.exec_driver_sql(query).fetchall()
    finally:
        engine.dispose()
    assert rows or "'Alerted'" in query, "the recording holds nothing that a person has to look at, and all else"


def test_there_is_something_to_try() -> None:
    assert len(QUERIES) == 5
