"""The examples run as they stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dds_lab.shipped import find
from tests.support.commands import FIRST_ATTACH, RECORDINGS, REPOSITORY, environment, fine, log_of
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


def test_a_controller_of_ones_own_decides_and_writes(tmp_path: Path) -> None:
    """It goes on where it was stopped, and its log holds."""
    log = str(tmp_path / "log.sqlite3")
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=4.0) as lab:
        first = run("custom_controller.py", str(lab.kubeconfig), log, "4")
        second = run("custom_controller.py", str(lab.kubeconfig), log, "12")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "AttachOrdered" in first.stdout + second.stdout
    assert "every decision is the one that the rules make" in fine("log", "verify", log)
    outcomes = {
        one["outcome"]
        for one in json.loads(fine("claims", log, "--all", "--json"))
        if one["claim"] == "default/train-1"
    }
    assert outcomes == {"bound"}


def test_a_notifier_tells_of_claims_that_fail_again_and_again(tmp_path: Path) -> None:
    told = run("notifier.py", log_of(str(RECORDINGS / "node_limit.jsonl.gz"), tmp_path))
    assert told.returncode == 0, told.stderr
    assert "claim default/job-1 has failed 3 times" in told.stdout.splitlines()


@pytest.mark.smoke
def test_a_log_is_read_and_told(tmp_path: Path) -> None:
    told = run("read_a_log.py", log_of(FIRST_ATTACH, tmp_path))
    assert told.returncode == 0, told.stderr
    assert "claim default/train-1" in told.stdout
    assert "Attaching → Attached" in told.stdout
    assert "0 differences" in told.stdout


def test_examples_say_how_they_are_used_and_what_is_wrong(tmp_path: Path) -> None:
    for name in ("notifier.py", "read_a_log.py"):
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
