"""What the operations page tells people to type works: its commands exist with their options, its SQL gives rows."""

from __future__ import annotations

import re
import shlex

import click
import pytest
import sqlalchemy
from click.testing import CliRunner

from dds_commands import main
from tests.unit.docs.pages import ROOT

TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
COMMANDS = sorted(
    {
        line.partition(" >> ")[0]
        for block in re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL)
        for line in block.splitlines()
        if line.startswith("dds ")
    }
)
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
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


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_command_exists_with_its_options(typed: str) -> None:
    command: click.Command = main
    words = shlex.split(typed)[1:]
    while isinstance(command, click.Group):
        found = command.commands.get(words[0])
        assert found is not None, f"dds has no command {words[0]!r}"
        command, words = found, words[1:]
    command.make_context("dds", words, **main.context_settings)  # click remembers which words ask for help


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
    assert len(COMMANDS) > 12 and len(QUERIES) == 5
