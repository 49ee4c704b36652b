"""`dds db check`, and a start on a log that another version of dds has written: it is said before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.sql import Database, upgrade
from dds_commands.live import ServedLogs
from dds_core import __version__
from dds_core.errors import UnknownEvent
from dds_core.log import Envelope
from dds_core.replay import versions
from tests.core.golden.replays import CLUSTER, log_of, replayed
from tests.core.replay.test_versions import in_next_form, with_later
from tests.support.commands import fine, refused

NAME, CLUSTER_NAME = "golden/scaler", "golden"
REFUSAL = (
    "Started is written in version 2 of its form, this version of dds knows up to 1; dds 0.9.0 wrote it; "
    "go on with dds 0.9.0 or a newer one, or with a copy of the log from before"
)
LAST = "events are written in version 2 of their form from now on, dds golden reads up to 1"


def stored(folder: Path, *logs: list[Envelope]) -> str:
    """The URL of a database with these logs."""
    url = f"sqlite:///{folder}/log.sqlite3"
    upgrade(url)
    with Database(url) as database:
        for rows in logs:
            database.import_log(rows)
    return url


@pytest.fixture
def older(tmp_path: Path) -> str:
    """A database with a log in the form of this version."""
    return stored(tmp_path, list(log_of(replayed("first_attach")).read()))


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """One with a log that a later version has gone on with."""
    return stored(tmp_path, list(with_later(change=in_next_form).read()))


def served(url: str, said: list[str]) -> ServedLogs:
    return ServedLogs(url, CLUSTER_NAME, migrate=False, say=said.append)


def test_a_version_says_that_it_can_go_on_with_what_it_wrote(older: str) -> None:
    at, log = fine("db", "check", older).splitlines()
    assert at == f"{older} is at 0001, which this version of dds uses"
    ends, can = log.split("; ")
    assert ends.startswith(f"log {NAME} ends at position ") and ends.endswith(", written by dds golden")
    assert can == f"dds {__version__} can go on with it"


def test_it_says_if_the_one_before_could_not_go_on_after_it(older: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "SCHEMA_VERSION", 2)
    assert fine("db", "check", older).endswith(
        f"; dds {__version__} can go on with it, and there is no way back but a copy: {LAST}\n"
    )
    said: list[str] = []
    with served(older, said) as logs:
        logs.prepare(["scaler", "publisher"])
        logs.opener("scaler")(CLUSTER)
    assert said == [f"log {NAME}: {LAST}; a copy from before this start leads back"]


def test_what_a_later_version_wrote_is_refused_and_named(newer: str) -> None:
    assert f": log {NAME}, position " in refused("db", "check", newer).replace("dds: ", ": ")
    assert REFUSAL in refused("db", "check", newer)


@pytest.mark.parametrize("prepared", [True, False], ids=["reachable", "away at the start"])
def test_a_start_refuses_it_and_writes_nothing(newer: str, prepared: bool, tmp_path: Path) -> None:
    with Database(newer) as database:
        before = database.heads()
    said: list[str] = []
    with served(newer, said) as logs, pytest.raises(UnknownEvent, match=r"dds 0\.9\.0 wrote it"):
        if prepared:
            logs.prepare(["scaler"])
        else:
            logs.opener("scaler")(CLUSTER)
    assert not said
    with Database(newer) as database:
        assert database.heads() == before
