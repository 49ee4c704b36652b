"""The examples run as they stand."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dds_lab.shipped import find
from tests.support.commands import FIRST_ATTACH, REPOSITORY, environment, fine
from tests.support.live_lab import LiveLab, without_scaler

EXAMPLES = REPOSITORY / "examples"


def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )


def test_a_controller_of_ones_own_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Stopped in the middle and started again, it comes to the same end, and its log holds."""
    lines = gzip.decompress(Path(FIRST_ATTACH).read_bytes()).splitlines(keepends=True)
    half = tmp_path / "half.jsonl"
    half.write_bytes(b"".join(lines[:40]))
    log = str(tmp_path / "log.sqlite3")
    first = run("custom_controller.py", str(half), log)
    assert first.returncode == 0, first.stderr
    assert "epoch 1" in first.stdout
    second = run("custom_controller.py", FIRST_ATTACH, log)
    assert second.returncode == 0, second.stderr
    assert "claim default/train-1 is in use" in second.stdout
    assert "epoch 2" in second.stdout
    third = run("custom_controller.py", FIRST_ATTACH, log)
    assert third.stdout.startswith("0 decisions")
    assert "every decision is the one that the rules make" in fine("log", "verify", log)
    (claim,) = json.loads(fine("claims", log, "--all", "--json"))
    assert (claim["state"], claim["outcome"]) == ("Released", "bound")


@pytest.mark.smoke
def test_a_log_is_read_and_told(tmp_path: Path) -> None:
    log = str(tmp_path / "log.sqlite3")
    run("custom_controller.py", FIRST_ATTACH, log)
    told = run("read_a_log.py", log)
    assert told.returncode == 0, told.stderr
    assert "claim default/train-1" in told.stdout
    assert "Attaching → Attached" in told.stdout
    assert "0 differences" in told.stdout


def test_examples_say_how_they_are_used_and_what_is_wrong(tmp_path: Path) -> None:
    for name in ("custom_controller.py", "read_a_log.py"):
        assert run(name).stderr.startswith(f"usage: {name}")
    missing = run("read_a_log.py", str(tmp_path / "none.db"))
    assert (missing.returncode, len(missing.stderr.splitlines())) == (1, 1)


def test_a_scaler_in_ones_own_program_serves_a_claim(tmp_path: Path) -> None:
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=4.0) as lab:
        log = str(tmp_path / "log.sqlite3")
        told = run("a_scaler_in_your_process.py", str(lab.kubeconfig), log, "12")
    assert told.returncode == 0, told.stderr
    assert "claim default/train-1 waited " in told.stdout
    assert told.stdout.endswith("ended in order\n")
    assert "every decision is the one that the rules make" in fine("log", "verify", log)
