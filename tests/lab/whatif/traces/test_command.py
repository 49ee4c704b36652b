"""`dds lab import`: what it prints and writes, and that it writes all or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dds_lab.scenario import read_scenario
from dds_lab.scenario.workload import Arrival
from dds_whatif.traces.scenario import Imported
from tests.lab.whatif.traces.samples import DLRM, NODES, PHILLY, PODS, sample, shared
from tests.support.commands import fine, refused


def test_the_numbers_are_printed_with_what_is_left_out(tmp_path: Path) -> None:
    said = fine("lab", "import", "alibaba-gpu-v2025", str(sample(tmp_path, "t.csv", DLRM)))
    for words in (
        "5; 2 created before, 2 alive at the end, 2 without an end",
        "min 1, median 2, p95 3, peak 3; 2 at the beginning, 2 at the end",
        "p50 0 s, p90 3600 s",
        "left out: 1 row, role CN: the CPU side, without a GPU",
        "no scenario is written: give -o FILE",
    ):
        assert words in said
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]


def test_the_scenario_and_its_pods_are_written_and_told(tmp_path: Path) -> None:
    files = [str(sample(tmp_path, "pods.csv", PODS)), str(sample(tmp_path, "nodes.csv", NODES))]
    out = tmp_path / "out.yaml"
    said = fine("lab", "import", "openb-v2023", *files, "-o", str(out), "--pool", "M1=6", "--pool", "2", "--nodes", "1")
    assert f"scenario {out}: 3 pods in {tmp_path / 'out.csv'}, 1 node, pools of 6 M1, 2 M2" in said
    assert "without a pod: 1 row, never ran" in said
    assert read_scenario(out).cluster.fabrics[0].devices == {"M1": 6, "M2": 2}


def test_json_has_all_of_it(tmp_path: Path) -> None:
    jobs, out = str(sample(tmp_path, "jobs.csv", PHILLY)), str(tmp_path / "out.yaml")
    window = ("--from", "2017-10-09T00:00:05", "--until", "1h", "--every", "2", "--warm-up", "5m")
    data = json.loads(fine("lab", "import", "philly", jobs, "-o", out, *window, "--format", "json"))
    assert (data["kind"], data["rows_read"]) == ("philly", 3)
    assert data["left_out"] == {"not in the window": 1, "thinned out, one of 2 is kept": 1}
    assert data["facts"]["window"] == [1507507205.0, 1507510800.0]
    assert data["facts"]["use"]["peak"] == 2
    assert (data["scenario"]["pods"], data["scenario"]["pools"]) == (1, {"GPU": 2})
    assert read_scenario(out).duration == 3895


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--from", "noon"], "--from: 'noon' is no time here; write so long after the beginning of the trace's window"),
        (
            ["--from", "2h", "--until", "1h"],
            "the window ends at 2017-10-09T01:00:00Z and begins at 2017-10-09T02:00:00Z",
        ),
        (["--until", "2019-01-01"], "the window is longer than a year"),
        (["--from", "2018-01-01", "--until", "2018-01-02"], "nothing is held from 2018-01-01T00:00:00Z"),
        (["--pool", "GPU=0"], "'GPU=0' is neither N nor MODEL=N"),
        (["--slots", "33"], "33 is not in the range 1<=x<=32"),
        (["-o", "{}/out.txt"], "out.txt: is no name of a scenario; let it end in .yaml"),
        (["-o", "{}/away/out.yaml"], "its folder is not there; make"),
        (["-o", "{}/jobs.yaml", "--replace"], "jobs.csv: it is what is read, and would be lost"),
        (["-o", "{}/taken.yaml"], "taken.csv: it is there already; choose another name with -o, or give --replace"),
        (["-o", "{}/out.yaml", "--pool", "3"], "job-00001 asks for 12 GPU at once, its pool has 3"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_is_written(tmp_path: Path, options: list[str], words: str) -> None:
    jobs = str(sample(tmp_path, "jobs.csv", PHILLY))
    sample(tmp_path, "taken.csv", "somebody's")
    before = {one: one.read_bytes() for one in tmp_path.iterdir()}
    assert words in refused("lab", "import", "philly", jobs, *(one.format(tmp_path) for one in options))
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_openb_has_no_calendar(tmp_path: Path) -> None:
    files = [str(sample(tmp_path, "pods.csv", PODS)), str(sample(tmp_path, "nodes.csv", NODES))]
    assert "'2017-10-09' is no time here" in refused("lab", "import", "openb-v2023", *files, "--from", "2017-10-09")


def test_what_breaks_off_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, out = str(sample(tmp_path, "jobs.csv", PHILLY)), str(tmp_path / "out.yaml")
    fine("lab", "import", "philly", jobs, "-o", out)
    before = {one: one.read_bytes() for one in tmp_path.iterdir()}
    whole = Imported.arrivals

    def full(made: Imported) -> Arrival:
        next(whole(made))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Imported, "arrivals", full)
    said = refused("lab", "import", "philly", jobs, "-o", out, "--replace", "--until", "1h")
    assert "out.yaml: No space left on device; make room" in said
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_serving_loads_none_of_it() -> None:
    script = "import sys, dds_commands.serve; print([one for one in sys.modules if one.startswith('dds_whatif')])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_all_of_philly_becomes_a_scenario_that_reads_back(tmp_path: Path) -> None:
    out = tmp_path / "core.yaml"
    said = fine("lab", "import", "philly", str(shared("philly.csv.gz")), "-o", str(out))
    assert "74668 pods" in said and "pools of 1243 GPU" in said
    assert read_scenario(out).duration == 70 * 86_400
