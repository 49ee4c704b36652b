"""Running `dds` in tests: in this process for what it says, as a program for how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner, Result

from dds_commands import main

REPOSITORY = Path(__file__).parents[2]
RECORDINGS = REPOSITORY / "tests" / "data" / "recordings"
FIRST_ATTACH = str(RECORDINGS / "first_attach.jsonl.gz")
TWO_CLAIMS = str(RECORDINGS / "two_claims.jsonl.gz")

PROGRAM = Path(sys.executable).with_name("dds")

CLEAN = {"DDS_LOG": None, "DDS_LOG_NAME": None}


def dds(*args: str, env: Mapping[str, str | None] = CLEAN) -> Result:
    """The command in this process; what it said is in `stdout` and `stderr`."""
    return CliRunner().invoke(main, args, env={**CLEAN, **env})


def fine(*args: str, env: Mapping[str, str | None] = CLEAN) -> str:
    """What a command that ends well prints."""
    result = dds(*args, env=env)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(*args: str, code: int = 1, env: Mapping[str, str | None] = CLEAN) -> str:
    """The one line that a command says when it ends with this code."""
    result = dds(*args, env=env)
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("dds: ")
    return lines[0]


def program(*args: str, env: Mapping[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """The installed program, as a process of its own."""
    return subprocess.run(
        [str(PROGRAM), *args], capture_output=True, text=True, env=environment(env), timeout=timeout, check=False
    )


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what steers `dds`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DDS_")}
    return {**kept, **(extra or {})}


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line of a program that ended with this code; no traceback, and nothing printed."""
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("dds: ")
    return done.stderr


def log_of(recording: str, folder: Path, *options: str, name: str = "log.sqlite3") -> str:
    """The path of a SQLite log written from a recording."""
    path = str(folder / name)
    fine("db", "upgrade", path)
    fine("log", "import", recording, "--log", path, *options)
    return path
