"""`-` in place of a file: standard input, told apart by its content as files are."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dds_commands import main
from tests.support.commands import CLEAN, FIRST_ATTACH, PROGRAM, environment, fine, log_of, refused


def piped(content: bytes, *args: str) -> Result:
    return CliRunner().invoke(main, args, input=content, env=CLEAN)


def said(content: bytes, *args: str) -> str:
    """The one line that is said of it."""
    done = piped(content, *args)
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1, done.output
    return done.stderr


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return log_of(FIRST_ATTACH, tmp_path_factory.mktemp("log"), "--checkpoint")


@pytest.fixture(scope="module")
def export(log: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "export.jsonl.gz"
    fine("log", "export", "-o", str(path), log)
    return path


@pytest.mark.parametrize("command", [("claims", "--at", "02:11:20"), ("timeline", "default/train-1"), ("status",)])
@pytest.mark.parametrize("packed", [True, False])
def test_any_source_may_be_piped(
    command: tuple[str, ...], packed: bool, log: str, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for path in (FIRST_ATTACH, str(export), log):
        content = Path(path).read_bytes()
        if path != log and not packed:
            content = gzip.decompress(content)
        done = piped(content, *command, "-")
        expected = fine(*command, path).replace("first_attach/scaler", "standard-input/scaler")
        assert done.stdout.replace("first_attach/scaler", "standard-input/scaler") == expected, done.stderr
    assert not list(tmp_path.iterdir()), "the copy is gone"


def test_an_archive_may_be_piped_with_the_rest_named(export: Path, log: str) -> None:
    assert "every decision" in piped(export.read_bytes(), "log", "verify", "-", log).stdout


def test_a_log_may_be_imported_from_a_pipe(export: Path, log: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.sqlite3")
    fine("db", "upgrade", other)
    assert "imported log first_attach/scaler" in piped(export.read_bytes(), "log", "import", "-", "--log", other).stdout
    assert fine("log", "anchor", other) == fine("log", "anchor", log)


def test_anchors_and_a_policy_may_be_piped(log: str) -> None:
    anchor = fine("log", "anchor", log).encode()
    assert "every decision" in piped(anchor, "log", "verify", log, "--anchor", "-").stdout
    wrong = json.dumps({**json.loads(anchor), "hash": "00" * 32}).encode()
    assert piped(wrong, "log", "verify", log, "--anchor", "-").exit_code == 2
    for policy in (b"mode: detach\n", b'{"mode": "detach"}'):
        assert "dds decided to" in piped(policy, "replay", FIRST_ATTACH, "--policy", "-").stdout


def test_what_is_wrong_with_it_is_said_of_standard_input(export: Path) -> None:
    assert said(b"", "claims", "-").startswith("dds: standard input: the file is empty")
    assert "standard input: it is none of the forms" in said(b"hello\n", "replay", "-")
    whole = export.read_bytes()
    assert said(whole[: len(whole) // 2], "log", "verify", "-").startswith("dds: standard input: ")
    assert "standard input: it is not well-formed" in said(b"mode: [", "replay", FIRST_ATTACH, "--policy", "-")
    assert "standard input: it holds no anchors" in said(b"nothing", "log", "verify", str(export), "--anchor", "-")


def test_it_can_be_read_once_only(export: Path) -> None:
    for args in (("claims", "-", "-"), ("replay", "-", "--policy", "-"), ("log", "verify", "-", "--anchor", "-")):
        assert "standard input: it can be read once only" in said(export.read_bytes(), *args)


def test_without_a_pipe_it_is_refused() -> None:
    master, terminal = pty.openpty()
    done = subprocess.run(
        [str(PROGRAM), "claims", "-"], stdin=terminal, capture_output=True, text=True, env=environment(), check=False
    )
    os.close(master)
    os.close(terminal)
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        ["dds: standard input: it is a terminal; pipe a file into it, or name a file in place of -"],
    )
    closed = subprocess.run(
        ["sh", "-c", f"{PROGRAM} claims - <&-"], capture_output=True, text=True, env=environment(), check=False
    )
    assert (closed.returncode, "standard input: it is closed" in closed.stderr) == (1, True)


def test_a_file_of_that_name_is_named_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_bytes(Path(FIRST_ATTACH).read_bytes())
    assert fine("devices", "./-") == fine("devices", FIRST_ATTACH)
    assert "standard input" in refused("devices", "-")
