"""A policy file that is not valid: the last valid policy stays in force, also at a restart, and everybody is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.runtime.process import last_policy
from dds_adapters.sql import Database
from dds_core.scaler.component import SCALER
from dds_lab.lab import Lab
from dds_lab.shipped import find
from tests.support.commands import fine
from tests.support.live_lab import QUICK, LiveLab, eventually, without_scaler
from tests.support.serve_program import NAME, Program

LOG = "log.sqlite3"
POLICY = QUICK.model_copy(update={"no_removal_seconds": 7})
BROKEN = '{"mode": "detach",\n "no_removal_second": 7}'
FAULT = (
    ":2:2: no_removal_second: is no field here: did you mean no_removal_seconds?; see docs/policy.md for every field"
)
TOLD = f"{FAULT}; the last valid policy stays in force"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=4.0) as lab:
        yield lab


def status(folder: Path) -> Any:
    return json.loads(fine("status", "--json", str(folder / LOG)))


def warned(lab: Lab) -> list[str]:
    found = [one for one in lab.client("test").list("events") if one["reason"] == "PolicyInvalid"]
    assert all(one["type"] == "Warning" and one["involvedObject"]["kind"] == "ConfigMap" for one in found)
    return [one["message"] for one in found]


def in_force(folder: Path) -> Any:
    with Database(f"sqlite:///{folder / LOG}") as database:
        return last_policy(database.log(f"{NAME}/{SCALER.name}"))


def written(ours: Program, folder: Path, text: str) -> str:
    path = max(folder.glob("policy-*.json"), key=lambda one: one.stat().st_mtime_ns)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_running_process_goes_on_and_tells(lab: LiveLab, tmp_path: Path) -> None:
    with Program(lab, str(tmp_path / LOG), tmp_path, POLICY, "--migrate") as ours:
        eventually(ours.seen_all)
        assert ours.metric("dds_policy_valid") == 1
        path = written(ours, tmp_path, BROKEN)
        eventually(lambda: status(tmp_path)["policy_fault"])
        assert ours.says(f"{path}{TOLD}")
        assert status(tmp_path)["policy_fault"] == f"{path}{FAULT}"
        assert f"policy not valid, the last valid one stays in force: {path}{FAULT}\n" in fine(
            "status", str(tmp_path / LOG)
        )
        assert not status(tmp_path)["rejected"], "it is told once"
        eventually(lambda: ours.metric("dds_policy_valid") == 0)
        eventually(lambda: lab.call(warned))
        assert lab.call(warned) == [f"{path}{TOLD}"]
        written(ours, tmp_path, '{"mode": "attack"}')
        eventually(lambda: "attach" in (status(tmp_path)["policy_fault"] or ""))
        assert "no_removal_second" not in status(tmp_path)["policy_fault"], "the newest fault alone"
        written(ours, tmp_path, POLICY.model_dump_json())
        eventually(lambda: status(tmp_path)["policy_fault"] is None)
        eventually(lambda: ours.metric("dds_policy_valid") == 1)
        assert ours.end() == 0
    fine("log", "verify", str(tmp_path / LOG))


@pytest.mark.parametrize("mended", ["while it runs", "before a start"])
def test_a_restart_goes_on_under_the_last_valid_policy(lab: LiveLab, tmp_path: Path, mended: str) -> None:
    with Program(lab, str(tmp_path / LOG), tmp_path, POLICY, "--migrate") as ours:
        eventually(ours.seen_all)
        ours.kill()
    before = in_force(tmp_path)
    assert before["no_removal_seconds"] == 7
    again = _started(lab, tmp_path, BROKEN)
    with again as ours:
        eventually(lambda: status(tmp_path)["policy_fault"])
        assert ours.says("is no field here: did you mean no_removal_seconds?") and ours.says("stays in force")
        eventually(ours.seen_all)
        assert in_force(tmp_path) == before and status(tmp_path)["mode"]["policy"] == "detach"
        if mended == "while it runs":
            written(ours, tmp_path, POLICY.model_dump_json())
            eventually(lambda: status(tmp_path)["policy_fault"] is None)
        assert ours.end() == 0
    if mended == "before a start":
        with _started(lab, tmp_path, POLICY.model_dump_json()) as ours:
            eventually(lambda: status(tmp_path)["policy_fault"] is None)
            assert ours.end() == 0
    fine("log", "verify", str(tmp_path / LOG))


def test_what_was_set_beside_the_file_counts_at_such_a_restart(lab: LiveLab, tmp_path: Path) -> None:
    """Who stops everything by --mode is obeyed, whatever is wrong with the file."""
    with Program(lab, str(tmp_path / LOG), tmp_path, POLICY, "--migrate") as ours:
        eventually(ours.seen_all)
        ours.kill()
    with _started(lab, tmp_path, BROKEN, "--mode", "observe") as ours:
        eventually(lambda: status(tmp_path)["policy_fault"])
        assert status(tmp_path)["mode"]["effective"] == "observe"
        assert in_force(tmp_path)["no_removal_seconds"] == 7
        assert ours.end() == 0


def test_a_first_start_ends(lab: LiveLab, tmp_path: Path) -> None:
    """Nothing is in force that could stay."""
    with _started(lab, tmp_path, BROKEN, "--migrate") as ours:
        assert ours.process.wait(30) == 1
        assert [line["msg"] for line in ours.lines()][-1].endswith(FAULT)


class _Text:
    """What `Program` writes as the policy."""

    def __init__(self, text: str) -> None:
        self._text = text

    def model_dump_json(self) -> str:
        return self._text


def _started(lab: LiveLab, folder: Path, text: str, *options: str) -> Program:
    policy: Any = _Text(text)
    return Program(lab, str(folder / LOG), folder, policy, *options)
