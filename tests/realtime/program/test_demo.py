"""`make demo` as it stands: what it shows, how it ends, and that nothing of it stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.commands import PROGRAM, REPOSITORY, environment
from tests.support.extras import only

DEMO = REPOSITORY / "examples" / "demo"
IN_TIME = 240
"""Seconds after which it hangs. How long it takes is measured, not tested."""


@contextmanager
def run(*args: str, code: str = "", env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """The demo; one that is not over when the block ends is told to end, so that it ends what it started."""
    program = ["-c", code] if code else [str(DEMO / "run.py")]
    with subprocess.Popen(
        [sys.executable, *program, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"SCAN_INTERVAL": "nonsense", "DDS_MODE": "observe", **(env or {})}),
        cwd=REPOSITORY,
    ) as demo:
        try:
            yield demo
        finally:
            if demo.poll() is None:
                demo.terminate()
                demo.communicate()


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that work in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has just ended
            continue
        if f"{folder}/" in words:
            found.append(words)
    return found


def test_the_demo_shows_a_whole_life(tmp_path: Path) -> None:
    """With no package but those that `make demo` installs. What it says in the end can be typed as it stands."""
    folder = tmp_path / "out"
    installed = only(tmp_path, "dds-lab")
    with run(str(folder), env=installed) as demo:
        said, wrong = demo.communicate(timeout=IN_TIME)
    assert (demo.returncode, wrong) == (0, "")
    told = iter(said.splitlines())
    for step in (
        "all resources were listed",
        "dds decided to make request",
        "Pending -> Attaching",
        "Attaching -> Attached",
        "exchanged nvidia-a100-40-",
        "Attached -> Bound",
        "claims: 1 Bound",
        "Bound -> Detaching",
        "Idle -> Marked",
        "dds decided to lower request",
        "Detaching -> Gone",
        "Detaching -> Released",
        "claim default/train-1  (",
        "the chain holds, and every decision is the one that the rules make",
    ):
        assert any(step in line for line in told), f"{step!r} was not told, or not in its place"
    assert left_behind(folder) == []
    assert not (folder / "kubeconfig").exists()
    more = said.partition("ask them more:\n")[2].splitlines()
    assert len(more) == 4
    for line in more:
        assert line.startswith(f"  {PROGRAM.relative_to(REPOSITORY)} ")
        done = subprocess.run(
            line, shell=True, cwd=REPOSITORY, env=environment(installed), capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        assert done.stdout, line


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_it_finds_nothing_left(how: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with run(str(folder)) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "all resources were listed" in line:
                break
        assert len(left_behind(folder)) == 2
        demo.send_signal(how)
        _, wrong = demo.communicate(timeout=45)
    assert (demo.returncode, wrong.strip()) == (130, "demo: interrupted; everything is ended")
    assert left_behind(folder) == []


def test_what_does_not_come_in_time_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    code = f"""
import sys; sys.path.insert(0, {str(DEMO)!r}); import run
def impatient(lab, fabric=run.fabric):  # once the lab serves, which takes its time on a busy machine
    found = fabric(lab)
    run.PATIENCE, run.UNTIL_BOUND = 3.0, (("a miracle", "type", "Miracle"),)
    return found
run.fabric = impatient; sys.exit(run.main(sys.argv[1:]))"""
    with run(str(folder), code=code) as demo:
        _, wrong = demo.communicate(timeout=IN_TIME)
    assert demo.returncode == 1
    assert wrong == f"demo: nothing in 3 seconds of this: a miracle; look at {folder}/serve.jsonl\n"
    assert left_behind(folder) == []


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with run(str(tmp_path / "file")) as demo:
        _, wrong = demo.communicate(timeout=30)
    assert demo.returncode == 1
    assert len(wrong.splitlines()) == 1
    assert str(tmp_path / "file") in wrong


def test_make_runs_it_in_an_environment_of_its_own() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    needs, _, recipe = makefile.partition("\ndemo: ")[2].partition("\n\n")[0].partition("\n")
    assert needs.split()[0] == "$(DEMO_VENV)/.ready"
    assert recipe == "\t@$(DEMO_VENV)/bin/python examples/demo/run.py $(DEMO)"
    environment_of_demo = makefile.partition("\n$(DEMO_VENV)/.ready:")[2].partition("\n\n")[0]
    assert "--constraint $(@D)/versions.txt --no-build-isolation --editable . --editable ./lab" in environment_of_demo
