"""`dds whatif`: what it says, how it ends, and that it says the same however it is played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dds_lab.scenario import read_scenario
from tests.cli.test_reports import data_in
from tests.support.commands import FIRST_ATTACH, RECORDINGS, REPOSITORY, dds, fine, refused

REAL = str(REPOSITORY / "tests" / "data" / "real" / "burst-22.log.jsonl.gz")
BURST = str(RECORDINGS / "burst.jsonl.gz")
PUBLISHERS = str(REPOSITORY / "tests" / "data" / "logs" / "fleet-6-publisher.log.jsonl.gz")
RECORDED = """
mode: detach
scan_interval_seconds: 5
no_removal_seconds: 15
no_allocation_seconds: 5
scheduler: {binding_timeout_seconds: 45}
"""


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    (tmp_path / "recorded.yaml").write_text(RECORDED)
    return str(tmp_path / "recorded.yaml")


def test_it_is_held_against_reality_and_policies_against_the_recorded_one(tmp_path: Path, recorded: str) -> None:
    (tmp_path / "longer.yaml").write_text(RECORDED.replace("no_removal_seconds: 15", "no_removal_seconds: 600"))
    prices = tmp_path / "price.yaml"
    prices.write_text('"*": 2\n')
    asked = ("whatif", FIRST_ATTACH, "--recorded", recorded, "--policy", str(tmp_path / "longer.yaml"))
    command = (*asked, "--seeds", "2", "--price", str(prices), "--anyway", "--json")
    alone, together = fine(*command, "--jobs", "1"), fine(*command, "--jobs", "3")
    assert alone == together
    told = json.loads(alone)
    first, longer = told["policies"]
    assert first["policy"] == "recorded (reference)" and longer["policy"] == "longer.yaml"
    assert len(first["runs"]) == len(longer["runs"]) == 2 and not first["against_first"]
    against = {one["measure"]: one for one in longer["against_first"]}
    assert against["detaches"]["mean"] == 0 < against["detaches"]["first"]
    assert against["cost"]["mean"] == pytest.approx(
        2 * sum(against[f"{state} hours"]["mean"] for state in ("used", "idle", "attaching", "detaching", "error"))
    )
    assert {one["what"]: one["samples"] for one in told["fitted"]}["attach of A100 40G"] == 2


def test_two_policies_are_shown_over_each_other(tmp_path: Path, recorded: str) -> None:
    (tmp_path / "longer.yaml").write_text(RECORDED.replace("no_removal_seconds: 15", "no_removal_seconds: 600"))
    page = tmp_path / "two.html"
    asked = ("whatif", FIRST_ATTACH, "--recorded", recorded, "--seeds", "1", "--anyway", "--page", str(page))
    fine(*asked, "--policy", str(tmp_path / "longer.yaml"))
    data = data_in(page.read_text())
    assert (data["log"], data["beside"]["log"]) == ("longer.yaml", "recorded (reference)")
    assert data["claims"] and data["beside"]["claims"] and not data["beside"]["accounts"]
    assert "--page shows two policies over each other" in refused(*asked)


def test_a_model_that_does_not_fit_ends_with_3_and_compares_nothing(tmp_path: Path, recorded: str) -> None:
    """The policy did not drive the cluster: it would have kept every device."""
    keeps = tmp_path / "keeps.yaml"
    keeps.write_text(RECORDED.replace("no_removal_seconds: 15", "no_removal_seconds: 9000"))
    command = ("whatif", BURST, "--recorded", str(keeps), "--policy", recorded, "--seeds", "2")
    ended = dds(*command)
    assert ended.exit_code == 3
    assert "idle hours" in ended.stderr and "the model does not fit" in ended.stderr
    assert "against" not in ended.stdout
    answered = dds(*command, "--anyway")
    assert answered.exit_code == 0 and "recorded.yaml, against recorded (reference)" in answered.stdout
    assert "the model does not fit" in answered.stderr


def test_its_scenario_can_be_read_and_played(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    dds("whatif", REAL, "--seeds", "1", "--jobs", "1", "--scenario", str(folder), "--anyway")
    (path,) = folder.glob("*.yaml")
    scenario = read_scenario(path)
    assert scenario.workload == str(path.with_suffix(".csv").resolve())
    assert "pods         40, of which 40 got a node" in fine("lab", "run", str(path), "--no-recording")
    assert "a scenario is there already" in refused("whatif", REAL, "--scenario", str(folder))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((str(RECORDINGS / "ready_mode.jsonl.gz"),), "no scaler is seen in it"),
        ((REAL, "--policy", "OBSERVES"), "mode observe writes nothing"),
        ((REAL, "--policy", "nowhere.yaml"), "nowhere.yaml: "),
        ((REAL, "--recorded", "SERVES"), "a log tells itself which policy drove"),
        ((REAL, "--fit", "nowhere.jsonl"), "nowhere.jsonl: "),
        ((REAL, "--results", "r.sqlite3"), "--results goes with --sweep"),
        ((REAL, "--ray-address", "auto"), "--ray-address goes with --engine ray"),
        ((REAL, "--sweep", "g.yaml", "--policy", "a.yaml", "--policy", "b.yaml"), "--sweep takes one --policy"),
        (("s.yaml", "--fit", REAL), "a scenario did not"),
        ((PUBLISHERS,), "is not the log of a scaler"),
        ((str(RECORDINGS / "attach_failure.jsonl.gz"),), "no attach is seen, so that nothing can be fitted"),
        ((REAL, "--seeds", "0"), "--seeds"),
        (("nowhere.jsonl",), "nowhere.jsonl: "),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_line(command: tuple[str, ...], words: str, tmp_path: Path) -> None:
    (tmp_path / "observes.yaml").write_text("mode: observe\n")
    (tmp_path / "serves.yaml").write_text(RECORDED)
    given = [str(tmp_path / f"{one.lower()}.yaml") if one in ("OBSERVES", "SERVES") else one for one in command]
    assert words in refused("whatif", *given)
