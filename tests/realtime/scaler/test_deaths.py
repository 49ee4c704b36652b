"""A scaler that is killed: the log shows it after the time within which a running scaler writes, and not before."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_lab.shipped import find
from tests.support.commands import dds, fine
from tests.support.live_lab import QUICK, LiveLab, eventually, without_scaler
from tests.support.serve_program import Program

LOG = "log.sqlite3"
POLICY = QUICK.model_copy(update={"scan_interval_seconds": 2})
MOST = 12
"""Seconds within which a scaler under this policy writes."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=1.0) as lab:
        yield lab


def status(path: str) -> Any:
    return json.loads(fine("status", "--json", path))


def test_a_running_scaler_always_writes_in_time_and_a_killed_one_is_seen(lab: LiveLab, tmp_path: Path) -> None:
    path = str(tmp_path / LOG)
    with Program(lab, path, tmp_path, POLICY, "--migrate") as ours:
        eventually(ours.seen_all)
        end = time.monotonic() + 2 * MOST
        beats = set()
        while time.monotonic() < end:
            said = status(path)
            assert said["silent"] is None and said["writes_every"] == MOST
            beats.add(said["beat"].partition(" ago; ")[2])
            time.sleep(0.5)
        assert beats == {f"a live scaler writes at least every {MOST} s"}
        assert dds("status", "--check", path).exit_code == 0
        ours.kill()
    first = fine("status", path).splitlines()[0]
    assert re.fullmatch(rf"last event \S+ m?s ago; a live scaler writes at least every {MOST} s", first), first
    eventually(lambda: dds("status", "--check", path).exit_code == 2, MOST + 10.0, 0.2)
    words = rf"ago, but a live scaler writes at least every {MOST} s: no scaler runs, or it cannot write its log"
    assert re.fullmatch(rf"last event \S+ s {words}", fine("status", path).splitlines()[0])
    assert re.match(rf"dds: last event \S+ s {words}\n", dds("claims", path).stderr)
