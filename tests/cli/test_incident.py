"""`dds incident` answers four questions on one screen: the longest wait and why, the device in vain, what failed and whose fault,
and the cost. Of recordings, logs and exports alike."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dds_core.events import Alerted
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import WHOSE
from dds_core.scaler.history.incident import FAULT, FIRST
from tests.support.commands import FIRST_ATTACH, RECORDINGS, dds, fine, log_of, refused

SCREEN = 30
DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
SECTIONS = ("waited", "failed", "in vain", "cost", "alerts", "first")
HELD_OUT = Path(__file__).parents[3] / "shared" / "recordings" / "real"
ALL = sorted(RECORDINGS.glob("*.jsonl.gz"))


def lines(*args: str) -> dict[str, list[str]]:
    """The lines by section."""
    found: dict[str, list[str]] = {}
    at = ""
    for line in fine("incident", *args).splitlines()[2:]:
        at = next((one for one in SECTIONS if line.startswith(f"{one} ")), at)
        found.setdefault(at, []).append(line.removeprefix(at).strip())
    return found


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name.partition(".")[0])
def test_every_incident_is_one_screen_with_the_same_sections(path: Path) -> None:
    text = fine("incident", str(path))
    assert len(text.splitlines()) <= SCREEN
    assert list(lines(str(path))) == list(SECTIONS)


def test_the_four_questions_of_a_burst_are_answered() -> None:
    """Against the raw events of node_limit: three jobs, two nodes with one device each at most, two devices ordered in vain."""
    path = str(RECORDINGS / "node_limit.jsonl.gz")
    told = {name: " ".join(rows) for name, rows in lines(path).items()}
    assert "default/job-2 1 min 27 s, given up after a failure in 13 attempts: retry 1 min 19 s" in told["waited"]
    assert told["failed"].startswith(
        "18 × NodeLimit, by the node's limit: default/job-2, default/job-1; 17 of them: node0000 may have 1"
    )
    assert "1 × FabricDeviceFailed, by another client: default/job-0" in told["failed"]
    assert (
        "GPU-e4b06ce6 on node0001, A100 40G, 19.6 s: never used: ordered for default/job-1, which went to"
        in told["in vain"]
    )
    assert "38.7 s of it never used" in told["cost"]
    assert told["first"].startswith("1. see the node's limit of devices, or spread the pods (18 × NodeLimit;")
    data = json.loads(fine("incident", path, "--json"))
    assert data["longest"]["claim"] == "default/job-2" and data["longest"]["outcome"] == "failed"
    assert (data["failures"][0]["reason"], data["failures"][0]["attempts"]) == ("NodeLimit", 18)
    assert sum(one["attempts"] for one in data["failures"]) == 22
    usage = json.loads(fine("usage", path, "--json"))
    assert data["device_seconds"] == usage["rows"][0]["seconds"]
    needless = json.loads(fine("devices", path, "--never-used", "--json"))
    assert {one["device"] for one in data["never_used"]} == {one["device"] for one in needless} and len(needless) == 2
    assert data["cost"] is None


def test_a_log_an_export_and_a_recording_say_the_same(tmp_path: Path) -> None:
    recording = str(RECORDINGS / "burst.jsonl.gz")
    log, export = log_of(recording, tmp_path), str(tmp_path / "export.jsonl.gz")
    fine("log", "export", export, "--log", log)
    assert fine("incident", log) == fine("incident", recording) == fine("incident", export)
    markdown = fine("incident", log, "--format", "markdown")
    assert re.findall("^#+ (.*)", markdown, re.M) == [
        "burst/scaler, where dds only observes",
        *map(str.capitalize, SECTIONS),
    ]


def test_what_is_still_waiting_is_told_with_its_reason() -> None:
    told = lines(str(RECORDINGS / "pool_exhausted.jsonl.gz"), "--until", "02:14:05")
    assert any("still waiting" in line for line in told["waited"]), told["waited"]


def test_a_period_begins_at_a_checkpoint_and_counts_from_there(tmp_path: Path) -> None:
    log = log_of(str(RECORDINGS / "burst.jsonl.gz"), tmp_path, "--checkpoint")
    whole = json.loads(fine("incident", log, "--json"))
    late = json.loads(fine("incident", log, "--since", "1m", "--json"))
    assert late["from"] > whole["from"] and late["to"] == whole["to"]
    assert sum(late["device_seconds"].values()) < sum(whole["device_seconds"].values())
    assert sum(late["claims"].values()) < sum(whole["claims"].values())


def test_the_cost_has_a_price(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text('"*": 3.6\ncurrency: EUR\n')
    told = lines(FIRST_ATTACH, "--price", str(prices))
    data = json.loads(fine("incident", FIRST_ATTACH, "--price", str(prices), "--json"))
    assert data["cost"] == pytest.approx(sum(data["device_seconds"].values()) / 1000) and data["currency"] == "EUR"
    assert f"{data['cost']:.2f} EUR" in " ".join(told["cost"])


def test_wrong_input_is_refused() -> None:
    assert "wants an instant" in refused("incident", FIRST_ATTACH, "--since", "12")
    assert dds("incident", "/nowhere").exit_code == 1


def test_each_rule_leads_to_its_section() -> None:
    """What to do first comes from the table: each alert and failure that dds can give has a row, each row a section."""
    text = DOCS.read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in re.findall("^##+ (.*)$", text, re.M)
    }
    assert {section for _, section in FIRST.values()} <= anchors
    events = text.partition("## Events that need action")[2].partition("| event |")[0]
    reasons = {name for row in re.findall(r"^\| (`.*?) \|", events, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert reasons - {"Alerted"} <= FIRST.keys() and len(reasons) > 20
    assert FAULT.keys() <= FIRST.keys() and set(WHOSE) - {"scheduler", "retry"} <= FIRST.keys()
    assert Alerted in SCALER.events


@pytest.mark.skipif(not HELD_OUT.is_dir(), reason="the recordings are not beside the project")
@pytest.mark.parametrize("name", ["burst-21-reference", "burst-21", "burst-22", "burst-23-1363"])
def test_bursts_of_a_real_cluster_are_answered(name: str) -> None:
    path = str(HELD_OUT / f"{name}.jsonl.gz")
    assert len(fine("incident", path).splitlines()) <= SCREEN
    data = json.loads(fine("incident", path, "--json"))
    assert data["longest"]["waited_seconds"] > 10 and data["waits"][0]["whose"]
    assert sum(data["device_seconds"].values()) > 1000
    assert len(data["never_used"]) == {"burst-21-reference": 1, "burst-22": 2}.get(name, 0)
