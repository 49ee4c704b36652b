"""The queries on the metrics page, and wherever else metrics of ours are named, ask for what there is."""

from __future__ import annotations

import re

import pytest
import sqlalchemy
from click.testing import CliRunner

from dds_adapters.runtime.metrics import CATALOGUE, GROUP_CATALOGUE, POOL_CATALOGUE, Named
from dds_commands import main
from tests.project.docs.pages import ROOT

_OURS = r"(?:dds|rest_client|leader_election)_[a-z_]+"
_NAME = re.compile(r"\b" + _OURS + r"\b(?:\{(?P<labels>[^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_BY = re.compile(r"by \(([^)]*)\)\s*\(\w+\((" + _OURS + ")")


def known() -> dict[str, Named]:
    """Metrics by the names of their series."""
    found: dict[str, Named] = {}
    for one in (*CATALOGUE, *POOL_CATALOGUE, *GROUP_CATALOGUE):
        suffixes = ("_bucket", "_sum", "_count") if one.kind == "histogram" else ("",)
        found |= {one.name + suffix: one for suffix in suffixes}
    return found


def queries() -> list[str]:
    """What stands in backticks in the page's tables of panels, questions and alerts."""
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    _, _, rest = text.partition("## On a screen")
    return [code for code in re.findall(r"`([^`]+)`", rest) if re.search(_OURS, code)]


def test_queries_ask_for_what_there_is() -> None:
    series = known()
    assert len(queries()) > 30
    for query in queries():
        for found in _NAME.finditer(query):
            name = found[0].partition("{")[0]
            assert name in series, f"{query}: there is no {name}"
            labels = set(_LABEL.findall(found["labels"] or ""))
            assert labels <= {*series[name].labels, "le"}, f"{query}: {name} has no {labels}"
        for by, name in _BY.findall(query):
            assert {one.strip() for one in by.split(",")} <= {*series[name].labels, "le"}, query


def test_what_is_deployed_asks_for_what_there_is() -> None:
    series = known()
    for path in sorted((ROOT / "deploy").rglob("*.y*ml")):
        for name in re.findall(r"\bdds_[a-z_]+_(?:total|seconds|bucket|count|sum)\b", path.read_text(encoding="utf-8")):
            assert name in series, f"{path.name}: there is no {name}"


# -- the SQL of the operations page gives rows, in SQLite and in PostgreSQL


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
        ["log", "import", recording, "--log", url, "--name", "prod-eu/scaler", "--checkpoint"],
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
    assert len(QUERIES) == 7
