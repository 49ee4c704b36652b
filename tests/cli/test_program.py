"""The program itself: how it ends, by which code, and that it never shows a traceback."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import FIRST_ATTACH, PROGRAM, RECORDINGS, environment, log_of, one_line, program, refused


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return log_of(FIRST_ATTACH, tmp_path_factory.mktemp("log"))


def test_the_demo_of_the_readme(tmp_path: Path) -> None:
    path = str(tmp_path / "log.sqlite3")
    for args in (
        ("timeline", "default/train-1", FIRST_ATTACH),
        ("db", "upgrade", path),
        ("log", "import", FIRST_ATTACH, "--log", path),
        ("log", "verify", path),
    ):
        done = program(*args)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout


def test_wrong_usage_ends_with_1_and_one_line() -> None:
    assert "--help" in one_line(program("replay", "--at"), 1)
    for args in (
        ("bogus",),
        ("replay", "--bogus"),
        ("replay", FIRST_ATTACH, "--format", "xml"),
        ("timeline",),
        ("diagram", "node"),
        ("log", "export"),
    ):
        assert "--help" in refused(*args)


def test_a_file_that_is_no_source_ends_with_1_and_one_line(tmp_path: Path) -> None:
    """As a program; all that can be wrong with a file is in test_bad_input.py, without the price of a process."""
    assert "No such file" in one_line(program("replay", str(tmp_path / "none.jsonl")), 1)


def test_no_command_at_all_shows_the_help_and_ends_with_1() -> None:
    for args in ((), ("log",)):
        done = program(*args)
        assert done.returncode == 1
        assert "Commands:" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    running = subprocess.Popen(
        [str(PROGRAM), "replay", str(RECORDINGS / "burst.jsonl.gz"), "--format", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    said = running.stderr.read()
    running.stderr.close()
    assert (running.wait(30), said) == (0, b"")


@pytest.mark.parametrize("args", [("--help",), ("replay", "--help"), ("--version",)])
def test_help_to_a_reader_that_went_away_ends_quietly(args: tuple[str, ...]) -> None:
    there, gone = os.pipe()
    os.close(there)
    done = subprocess.run(
        [str(PROGRAM), *args], stdout=gone, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False
    )
    os.close(gone)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "args", [("--help",), ("diagram",), ("claims", FIRST_ATTACH), ("timeline", "default/train-1", FIRST_ATTACH)]
)
def test_output_that_cannot_be_written_is_told_in_one_line(args: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(PROGRAM), *args], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "dds: the output: No space left on device; check room and permissions there, then repeat the command"
    ]


def test_closed_output_is_no_error() -> None:
    done = subprocess.run(
        f'"{PROGRAM}" replay "{FIRST_ATTACH}" >&-', shell=True, capture_output=True, env=environment(), check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_a_terminal_cannot_show_is_written_as_its_code() -> None:
    told = program("timeline", "default/train-1", FIRST_ATTACH, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (told.returncode, told.stderr) == (0, "")
    assert r"New \u2192 Pending" in told.stdout


def test_ctrl_c_ends_it_quietly(log: str) -> None:
    running = subprocess.Popen(
        [str(PROGRAM), "log", "tail", "-n", "1", "--follow", "--log", log],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert running.stdout is not None
    running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert (running.returncode, said.strip()) == (130, b"")


def test_following_shows_what_is_appended(tmp_path: Path) -> None:
    from dds_adapters.sql import Database
    from tests.support.logs import CLUSTER, NAME, NOON, SqlPlace, group, sqlite_url

    place = SqlPlace(sqlite_url(tmp_path))
    log = place.open()
    epoch = log.take_epoch(NOON)
    running = subprocess.Popen(
        [str(PROGRAM), "log", "tail", "--follow", "--format", "jsonl", "--log", place.url],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert running.stdout is not None
    assert '"type":"LogOpened"' in running.stdout.readline()
    with Database(place.url) as database:
        database.open_log(NAME, cluster=CLUSTER, recorded_at=NOON).append([group(0)], epoch=epoch, recorded_at=NOON)
    assert '"position":2' in running.stdout.readline()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    place.close()


def on_a_terminal(*args: str, env: dict[str, str] | None = None, command: str = str(PROGRAM)) -> str:
    """What the program writes to a terminal."""
    master, slave = pty.openpty()
    running = subprocess.Popen([command, *args], stdout=slave, stderr=slave, env=environment(env))
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        said += part
    os.close(master)
    assert running.wait(30) == 0
    return said.decode()


def test_colours_are_for_terminals_and_for_who_wants_them() -> None:
    args = ("timeline", "default/train-1", FIRST_ATTACH)
    assert "\x1b[" not in program(*args).stdout
    terminal = {"TERM": "xterm"}
    assert "\x1b[1m" in on_a_terminal(*args, env=terminal)
    plain = on_a_terminal("replay", FIRST_ATTACH, env={**terminal, "NO_COLOR": "1"})
    assert "\x1b[1m" not in plain
    assert "\x1b[36m" not in plain


def test_progress_is_for_terminals_and_long_work(log: str) -> None:
    assert program("log", "verify", log).stderr == ""
    assert "verifying" not in on_a_terminal("log", "verify", log, env={"TERM": "xterm"})
    work = "import time; from dds_commands.screen import progress as p; [time.sleep(.002) for _ in p(range(400), 400, 'working')]"
    said = on_a_terminal("-c", work, env={"TERM": "xterm"}, command=sys.executable)
    assert "working" in said
    assert "100%" in said


def test_output_does_not_depend_on_hash_seed_time_zone_or_locale(log: str) -> None:
    outputs = {
        program("replay", source, "--format", "jsonl", env=env).stdout
        for source in (log, FIRST_ATTACH)
        for env in (
            {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"},
            {"PYTHONHASHSEED": "2", "TZ": "America/New_York"},
        )
    }
    assert len(outputs) == 1


def test_whoever_interrupts_it_before_it_has_begun_sees_no_trace() -> None:
    code = """
import sys
class Interrupting:
    def find_spec(self, name, *more):
        if name == "dds_commands.root":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
import dds_commands
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
