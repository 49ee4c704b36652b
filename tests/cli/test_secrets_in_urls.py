"""No secret of a database URL is ever shown, wherever in the URL it stands and however wrongly it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.sql.urls import as_url, parsed, shown
from dds_core.errors import InputError
from tests.support.commands import dds, fine, refused

UNREACHABLE = (
    "postgresql://bob:s3cret@127.0.0.1:1/db",
    "postgres://bob:s3cret@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=bob&password=s3cret",
    "postgresql+psycopg://bob@127.0.0.1:1/db?sslpassword=s3cret",
)
UNREADABLE = (
    "postgresql://bob:s3cret@host:port/db",
    "postgresql://bob:s3cret",
    "postgresql://bob:s3cret@[::1/db",
    "postgresql://bob:x@s3cret@host/db",
    " postgresql://bob:s3cret@host/db",
    "postgresql:/bob:s3cret@host/db",
    "postgresql:bob:s3cret@host",
    "host=127.0.0.1 dbname=db password=s3cret",
    "mysql://bob:s3cret@host/db",
    "sqlite://bob:s3cret@host/db",
)
COMMANDS = (("db", "check"), ("db", "upgrade"), ("claims",), ("status",), ("log", "verify"), ("log", "tail", "--log"))


@pytest.mark.parametrize("url", UNREACHABLE + UNREADABLE)
def test_no_command_shows_a_secret(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        assert "s3cret" not in refused(*command, url)
    assert "s3cret" not in refused("claims", env={"DDS_LOG": url})
    assert "s3cret" not in dds("serve", "--print-config", "--log", url).output
    assert list(tmp_path.iterdir()) == []


def test_what_is_shown_has_neither_password_nor_query() -> None:
    assert shown("postgresql://u:s3cret@h:5/d?sslmode=require") == "postgresql://u:***@h:5/d"
    assert shown("postgresql+psycopg://u@h/d") == "postgresql://u@h/d"
    assert shown("sqlite:///a%3Fb.db") == "sqlite:///a?b.db"


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("sqlite://folder/log.db", "three slashes"),
        ("postgresql://u:a@b@h/d", "write @ as %40"),
        ("postgresql://u@h:port/d", "use sqlite:///path/to/log.sqlite3 or postgresql://"),
    ],
)
def test_a_mistake_in_a_url_is_told(url: str, fix: str) -> None:
    with pytest.raises(InputError, match=fix):
        parsed(url)


@pytest.mark.parametrize("name", ["a?b.db", "a%20b#c.db", "a@b:c.db", "a b.db"])
def test_a_path_may_have_any_characters(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    assert parsed(as_url(path)).database == path
    assert as_url("postgresql://u@h/d") == "postgresql://u@h/d"
    assert path in fine("db", "upgrade", path)
    assert (tmp_path / name).is_file()
    assert dds("db", "check", path).exit_code == 0


def test_the_commands_that_take_a_url_say_so() -> None:
    assert "give a URL or set DDS_LOG" in refused("db", "check")
    assert "give --log URL or set DDS_LOG" in refused("log", "archive", "x.jsonl")
    assert "give a SOURCE, or a log by --log URL or DDS_LOG" in refused("log", "anchor")
