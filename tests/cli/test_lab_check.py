"""`dds lab check` says what it played and what it found, and how to see it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dds_commands.running import Commands
from dds_lab import shipped
from dds_lab.check import campaign
from dds_lab.check.campaign import Case
from dds_lab.check.perturb import Choose
from dds_lab.check.running import Run
from dds_lab.scenario import read_scenario
from dds_lab_commands.lab_check import check
from tests.support.commands import PROGRAM, environment
from tests.support.live_lab import eventually


def run(*args: str) -> Result:
    root = Commands("dds", context_settings={"help_option_names": ["-h", "--help"]})
    root.add_command(check)
    return CliRunner().invoke(root, ["check", *args])


def test_ours_has_nothing_to_be_found() -> None:
    result = run("first_attach", "--faults", "dies,answer-lost", "--every", "11", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert result.output == (
        "DISTURBANCE  POINTS  FINDINGS  NOT REACHED\n"
        "dies         5       0         0\n"
        "answer-lost  2       0         0\n"
        "7 runs, compared with 1 that nothing disturbed: nothing was found\n"
    )


def test_a_finding_of_the_reference_is_repeated_by_the_command_that_it_names() -> None:
    first = run("many_devices", "--against", "reference", "--faults", "stale-start", "--every", "5", "--format", "json")
    assert first.exit_code == 2
    found = [one for one in json.loads(first.output) if one["at"]]
    assert found and all(one["said"] for one in found)
    command = found[0]["command"].split()
    assert command[:3] == ["dds", "lab", "check"]
    again = run(*command[3:], "--format", "json")
    assert again.exit_code == 2
    assert [one for one in json.loads(again.output) if one["at"]] == found[:1]


def test_a_point_that_no_run_has_is_said_and_one_that_some_have_not_is_counted() -> None:
    result = run("first_attach", "--point", "dies:999")
    assert result.exit_code == 1
    assert "dds: dies:999: is not reached: the run has 50 events and 22 writes; name another point" in result.output
    assert "dies         1       0         1\n" in result.output
    both = run("first_attach", "withdrawn", "two_claims", "--point", "dies:50", "--format", "json")
    assert both.exit_code == 0
    assert [(one["scenario"], one["reached"]) for one in json.loads(both.output)] == [
        ("first_attach", False), ("withdrawn", False)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("first_attach", "--point", "dies"), "dies: is no point of a run; write KIND:NUMBER"),
        (("first_attach", "--point", "stale:3"), "stale:3: is no point of a run"),
        (("first_attach", "--faults", "die"), "'die' is not one of all, dies, unseen"),
        (("first_attach", "--point", "stale:3:0"), "stale:3:0: is no point of a run"),
        (("first_attach", "--point", "dies:²"), "dies:²: is no point of a run"),
        (("first_attach", "--seeds", "3..1"), "'3..1' is neither a seed nor A..B"),
        (("first_attach", "--seeds", "²"), "'²' is neither a seed nor A..B"),
        (("first_attach", "--against", "./mine", "--results", "r"), "--results: holds nothing of a command"),
        (("first_attach", "--results", "/nowhere/r.jsonl"), "/nowhere/r.jsonl: cannot be used: "),
        (("first_atach",), "first_atach: neither a file nor a scenario of that name"),
    ],
)
def test_what_cannot_be_meant_is_said(args: tuple[str, ...], words: str) -> None:
    result = run(*args)
    assert result.exit_code == 1, result.output
    assert words in result.output


def test_what_was_played_with_the_same_code_is_not_played_again(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    args = ("withdrawn", "--against", "reference", "--faults", "stale", "--every", "3", "--results", str(results))
    first = run(*args)
    lines = results.read_text().splitlines()
    results.write_text("\n".join([*lines[:-1], lines[-1][:20]]))  # it was killed while it wrote
    assert run(*args).output == first.output
    assert results.read_text().splitlines() == [*lines[:-1], lines[-1][:20], lines[-1]]
    results.write_text("not of this command\n")
    assert "holds no results" in run(*args).output


def test_a_finding_is_shown_in_the_least_scenario_that_has_it(tmp_path: Path) -> None:
    result = run("many_devices", "--against", "reference", "--point", "dies:0", "--shrink", str(tmp_path))
    assert result.exit_code == 2, result.output
    (path,) = tmp_path.iterdir()
    assert f"dds lab check {path} --seeds 1 --against reference\n" in result.output
    assert "dds: steps: " in result.output  # on standard error
    assert 0 < len(read_scenario(path).steps) < len(shipped.find("many_devices").steps)


def test_a_command_that_does_not_run_is_said() -> None:
    result = run("first_attach", "--against", "echo cannot listen >&2; exit 3", "--speed", "100")
    assert result.exit_code == 1
    assert "--against: it ended with 3: cannot listen; give a command that runs until it is killed" in result.output


def test_fleets_are_played_by_their_seeds() -> None:
    assert run("fleets", "--seeds", "8").output == (
        "DISTURBANCE  POINTS  FINDINGS  NOT REACHED\n"
        "fleets       1       0         0\n"
        "1 run, compared with 0 that nothing disturbed: nothing was found\n"
    )
    assert "fleets: needs to know which; add --seeds A..B" in run("fleets").output
    assert "fleets: are played with ours" in run("fleets", "--seeds", "8", "--against", "reference").output


def test_a_run_that_nothing_disturbs_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []

    def quick(case: Case, choose: Choose) -> Run:
        played.append(case.seed)
        return Run(2, 0, None, ())

    monkeypatch.setattr(campaign, "_played", quick)
    assert run("first_attach", "--seeds", "1..70", "--faults", "dies", "--jobs", "1").exit_code == 0
    assert Counter(played) == dict.fromkeys(range(1, 71), 2), "and as what the others leave"


# -- how it is ended -------------------------------------------------------------------------------------------------------


@contextmanager
def begun(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """The program, with its temporary files in the folder."""
    (folder / "files").mkdir()
    process = subprocess.Popen(
        [str(PROGRAM), "lab", "check", *args], env=environment({"TMPDIR": str(folder / "files")}),
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_ctrl_c_ends_with_nothing_in_the_results_that_was_not_found(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    args = ("two_claims", "--faults", "dies,stale", "--jobs", "2", "--results", str(results))
    with begun(tmp_path, *args) as process:
        eventually(lambda: results.exists() and results.read_text().count("\n") > 2)
        os.killpg(process.pid, signal.SIGINT)
        assert not process.communicate(timeout=10)[0].strip() and process.returncode == 130
    assert [one["said"] for one in map(json.loads, results.read_text().splitlines()) if one["said"]] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_fleets_end_at_once_with_what_was_found(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with begun(tmp_path, "fleets", "--seeds", "1..100", "--jobs", "2") as process:
        eventually(lambda: len([*(tmp_path / "files").glob("*/*")]) == 2)
        os.killpg(process.pid, number)
        assert not process.communicate(timeout=10)[0].strip() and process.returncode == code
    assert [*(tmp_path / "files").iterdir()] == []


def test_who_is_terminated_ends_its_command(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = f"echo $$ >{mark}; exec sleep 600"
    with begun(tmp_path, "first_attach", "--against", command, "--point", "dies:3") as process:
        eventually(lambda: mark.exists() and mark.read_text().endswith("\n"))
        process.terminate()
        assert not process.communicate(timeout=10)[0].strip() and process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
    assert [*(tmp_path / "files").iterdir()] == []
