"""`dds plan`: what it says, and what it refuses. That its search is right is tested in tests/lab/whatif/test_plan.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dds_lab.scenario import written
from dds_lab.scenario.workload import write_workload
from tests.lab.whatif.test_plan import MODEL
from tests.support.commands import FIRST_ATTACH, RECORDINGS, dds, fine, refused

POOL_EXHAUSTED = str(RECORDINGS / "pool_exhausted.jsonl.gz")
POLICY = "mode: detach\nno_removal_seconds: 20\n"


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    write_workload(tmp_path / "pods.csv", MODEL.arrivals[:4])
    path = tmp_path / "small.yaml"
    path.write_text(written(MODEL.scenario.model_copy(update={"name": "small", "workload": "pods.csv"})))
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "watts.yaml").write_text('"*": {used: 300, idle: 60}\n')
    return str(path)


def test_it_says_how_big_the_pools_have_to_be_and_the_same_as_json(tmp_path: Path, scenario: str) -> None:
    command = (
        "plan", scenario, "--policy", str(tmp_path / "policy.yaml"), "--objective", "max wait <= 60s", "--objective",
        "never bound <= 0", "--seeds", "2", "--jobs", "2", "--watts", str(tmp_path / "watts.yaml"),
        "--results", str(tmp_path / "runs.sqlite3"),
    )  # fmt: skip
    text, told = fine(*command), json.loads(fine(*command, "--json"))
    pool = told["pools"]["A100 40G"]
    assert pool["today"] == 6 and 1 <= pool["needed"] <= 6
    assert pool["hours"] <= pool["owned hours"] and pool["energy kWh"] <= pool["owned energy kWh"]
    assert [one["text"] for one in told["objectives"]] == ["max wait <= 60s", "never bound <= 0"]
    assert told["met"] and told["planned"]["wait max"] <= 60 and told["planned"]["never bound"] == 0
    assert {one["value"] for one in told["curves"]["A100 40G"]} >= {6, pool["needed"]}
    assert "plan for policy.yaml: max wait <= 60s; never bound <= 0" in text
    assert f"devices of a model on a node at most: {told['node_max']}" in text
    assert "POOL OF A100 40G" in text and "IDLE TIME" in text and "pre-warming one device" in text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--objective", "p99 wait <= 60s"), "'p99 wait <= 60s' is no objective"),
        (("--objective", "max wait <= 60s", "--fit", "nowhere"), "--recorded and --fit are for what really happened"),
        (("--objective", "max wait <= 1s"), "32 times as many devices do not meet it"),
        ((), "a plan needs something to meet"),
    ],
)
def test_what_cannot_be_planned_is_refused(tmp_path: Path, scenario: str, more: tuple[str, ...], words: str) -> None:
    policy = () if "--policy" in more else ("--policy", str(tmp_path / "policy.yaml"))
    assert words in refused("plan", scenario, *policy, "--seeds", "1", "--jobs", "1", *more)


def test_a_model_that_does_not_fit_ends_with_3_and_plans_nothing(tmp_path: Path) -> None:
    keeps = tmp_path / "keeps.yaml"
    keeps.write_text("mode: detach\nno_removal_seconds: 9000\nscheduler: {binding_timeout_seconds: 45}\n")
    ended = dds(
        "plan", FIRST_ATTACH, "--recorded", str(keeps), "--policy", str(keeps), "--objective", "max wait <= 60s",
        "--seeds", "1", "--jobs", "1", "--bound", "0",
    )  # fmt: skip
    assert ended.exit_code == 3 and "the model does not fit" in ended.stderr
    assert "plan for" not in ended.stdout


def test_a_recording_of_the_reference_scaler_is_planned_for_dds_with_its_times() -> None:
    told = json.loads(
        fine("plan", POOL_EXHAUSTED, "--objective", "max wait <= 60s", "--seeds", "1", "--jobs", "1", "--json")
    )
    assert told["policy"] == "dds, with the times of the reference scaler"
    assert told["pools"]["A100 40G"]["needed"] == 1 and told["met"]
    assert {one["what"]: one["words"] for one in told["fitted"]}["idle time"] == "15 s"
    assert 15 in {one["value"] for one in told["curves"]["idle"]}
