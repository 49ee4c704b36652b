"""What cannot be read: one line that says what, where and what to do, exit code 1, and nothing half-written."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from dds_adapters.sql import Database
from dds_commands.screen import harmless
from dds_migrations import VERSION_TABLE
from tests.support.commands import FIRST_ATTACH, TWO_CLAIMS, dds, fine, log_of, refused

READERS = (
    ("replay",),
    ("log", "verify"),
    ("claims",),
    ("devices",),
    ("timeline", "default/train-1"),
    ("export",),
)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "export.jsonl"
    fine("log", "export", str(path), "--log", log_of(FIRST_ATTACH, tmp_path))
    return path


@pytest.mark.parametrize("reader", READERS, ids=[" ".join(reader) for reader in READERS])
@pytest.mark.parametrize("kind", ["missing", "empty", "foreign", "folder", "binary"])
def test_a_file_that_is_no_source(reader: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes({"empty": b"", "foreign": b"hello\nworld\n", "binary": bytes(range(256))}[kind])
    said = refused(*reader, str(path))
    assert str(path) in said
    assert "; " in said


@pytest.mark.parametrize("reader", READERS, ids=[" ".join(reader) for reader in READERS])
def test_a_truncated_recording(reader: tuple[str, ...], tmp_path: Path) -> None:
    packed = Path(FIRST_ATTACH).read_bytes()
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(packed[: len(packed) // 2])
    assert str(cut) in refused(*reader, str(cut))


def test_a_corrupt_recording(tmp_path: Path) -> None:
    lines = gzip.decompress(Path(FIRST_ATTACH).read_bytes()).splitlines(keepends=True)
    lines[20] = b'{"ts": nonsense\n'
    path = tmp_path / "corrupt.jsonl"
    path.write_bytes(b"".join(lines))
    assert "line 21" in refused("claims", str(path))


def test_a_bad_recording_leaves_no_log_behind(tmp_path: Path) -> None:
    packed = Path(FIRST_ATTACH).read_bytes()
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(packed[: len(packed) // 2])
    database = str(tmp_path / "log.db")
    fine("db", "upgrade", database)
    refused("log", "import", str(cut), "--log", database)
    assert "it holds no log yet" in refused("log", "verify", database)


@pytest.mark.parametrize("part", [0.3, 0.7, 0.999])
def test_a_truncated_export(part: float, export: Path) -> None:
    whole = export.read_bytes()
    export.write_bytes(whole[: int(len(whole) * part)])
    for reader in (("log", "verify"), ("claims",)):
        assert "ends early" in refused(*reader, str(export))


def test_a_corrupt_export_is_not_imported(export: Path, tmp_path: Path) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    lines[10] = lines[10][:40] + b"\n"
    export.write_bytes(b"".join(lines))
    database = str(tmp_path / "other.db")
    fine("db", "upgrade", database)
    assert "line 11 is damaged" in refused("log", "import", str(export), "--log", database)
    assert "it holds no log yet" in refused("log", "tail", "--log", database)


def test_a_changed_event_ends_with_2_and_its_position(export: Path) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b"ClaimMoved" in line)
    lines[number] = lines[number].replace(b"node0000", b"node9999", 1)
    export.write_bytes(b"".join(lines))
    assert f"position {number}: data and digest differ" in refused("log", "verify", str(export), code=2)
    assert f"position {number}: " in refused("log", "verify", str(export), code=2)


def test_a_database_without_tables_or_of_somebody_else(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    assert "another application" in refused("log", "verify", str(foreign))
    assert "another application" in refused("db", "upgrade", str(foreign))
    assert "no such file" in refused("log", "tail", "--log", str(tmp_path / "none.db"))


def test_a_database_of_a_newer_version(tmp_path: Path) -> None:
    log = log_of(FIRST_ATTACH, tmp_path)
    with sqlite3.connect(log) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    connection.close()
    for args in (("db", "check", log), ("log", "verify", log), ("db", "upgrade", log)):
        assert "made by a newer dds" in refused(*args)


def test_another_clusters_log_is_left_alone(tmp_path: Path) -> None:
    log = log_of(FIRST_ATTACH, tmp_path)
    before = fine("log", "anchor", "--log", log)
    said = refused("log", "import", TWO_CLAIMS, "--log", log, "--name", "first_attach/scaler")
    assert "it belongs to the cluster" in said
    assert fine("log", "anchor", "--log", log) == before


def test_a_locked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database.__init__, "__kwdefaults__", {"synchronous": "FULL", "lock_seconds": 0.2})
    log = log_of(FIRST_ATTACH, tmp_path)
    holder = sqlite3.connect(log, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        assert "another process holds the write lock" in refused("log", "import", TWO_CLAIMS, "--log", log)
        fine("log", "verify", log)
    finally:
        holder.close()


def test_an_unreachable_server_keeps_the_password_to_itself() -> None:
    for args in (
        ("log", "verify", "postgresql://dds:hunter2@127.0.0.1:1/dds"),
        ("db", "upgrade", "postgresql://dds:hunter2@127.0.0.1:1/dds"),
        ("log", "import", FIRST_ATTACH, "--log", "postgresql://dds:hunter2@127.0.0.1:1/dds"),
        ("timeline", "default/train-1", "--log", "postgresql://dds:hunter2@127.0.0.1:1/dds"),
    ):
        said = refused(*args)
        assert "cannot be reached" in said
        assert "hunter2" not in said


def test_urls_that_are_none() -> None:
    assert "not known" in refused("db", "check", "mysql://h/d")
    assert "SQLite log needs a file" in refused("db", "check", "sqlite://")


def test_a_name_in_an_error_or_in_a_style_of_its_own_is_shown_as_its_codes() -> None:
    """An error goes to the terminal, too; and of styles only those of dds are sent, so that no name hides what follows it."""
    done = dds("status", "no\x1b[2Jfile\x1b[8m.jsonl")
    assert done.exit_code == 1 and "\x1b" not in done.stderr and "no\\x1b[2Jfile\\x1b[8m" in done.stderr
    assert harmless("\x1b[8mhidden") == "\\x1b[8mhidden"


def test_a_hostile_name_harms_no_terminal(tmp_path: Path) -> None:
    """Neither moves the cursor, nor turns text around, nor makes one row two, nor the table as wide as itself."""
    name = "evil\x1b[2J\x9b2J\u202enoitacifirev\nfine" + "x" * 5000
    recording = tmp_path / "hostile.jsonl"
    with gzip.open(FIRST_ATTACH, "rt") as file:
        recording.write_text(file.read().replace('"train-1"', json.dumps(name)))
    for command in (("claims", "--all"), ("timeline", f"default/{name}"), ("usage", "--by", "claim"), ("replay",)):
        text = fine(*command, str(recording))
        assert not {"\x1b", "\u202e"}.intersection(text)
    rows = fine("claims", "--all", str(recording)).splitlines()
    assert len(rows) == 3 and max(map(len, rows)) < 800
    data = fine("claims", "--all", "--format", "json", str(recording))
    assert [row["claim"] for row in json.loads(data)] == [f"default/{name}"]
    assert not {"\x1b", "\x9b", "\u202e", "\u2028"}.intersection(data)
