"""The commands against a real PostgreSQL, there and back."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import FIRST_ATTACH, fine, log_of, program
from tests.support.postgres import Postgres


def test_a_log_goes_through_postgres_unchanged(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_database()
    fine("db", "upgrade", url)
    sqlite = log_of(FIRST_ATTACH, tmp_path, "--checkpoint")
    file = str(tmp_path / "a.jsonl.gz")
    fine("log", "export", file, "--log", sqlite)
    fine("log", "import", file, "--log", url)
    done = program("log", "verify", url, env={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})
    assert (done.returncode, done.stderr) == (0, "")
    assert fine("log", "anchor", "--log", url) == fine("log", "anchor", "--log", sqlite)
    for full in ((), ("--full",), ("--json",)):
        whole = fine("timeline", "default/train-1", FIRST_ATTACH, *full)
        assert fine("timeline", "default/train-1", url, *full) == whole
    assert fine("claims", url, "--at", "02:11:20") == fine("claims", FIRST_ATTACH, "--at", "02:11:20")
    fine("log", "archive", str(tmp_path / "old.gz"), "--log", url)
    assert "every decision" in fine("log", "verify", str(tmp_path / "old.gz"), url)


def test_a_recording_is_written_into_postgres(postgres: Postgres) -> None:
    url = postgres.new_database()
    fine("db", "upgrade", url)
    assert "imported log first_attach/scaler" in fine("log", "import", FIRST_ATTACH, "--log", url)
    assert "every decision" in fine("log", "verify", url)
