"""`dds lab check` says what it played and what it found, and how to see it again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dds_commands.lab_check import check
from dds_commands.running import Commands
from dds_lab import shipped
from dds_lab.scenario import read_scenario


def run(*args: str) -> Result:
    root = Commands("dds", context_settings={"help_option_names": ["-h", "--help"]})
    root.add_command(check)
    return CliRunner().invoke(root, ["check", *args])


def test_ours_has_nothing_to_be_found() -> None:
    result = run("first_attach", "--faults", "dies,answer-lost", "--every", "11", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert result.output == (
        "DISTURBANCE  POINTS  FINDINGS\n"
        "dies         5       0\n"
        "answer-lost  1       0\n"
        "6 runs, compared with 1 that nothing disturbed: nothing was found\n"
    )


def test_a_finding_of_the_stand_in_is_repeated_by_the_command_that_it_names() -> None:
    first = run("many_devices", "--against", "stand-in", "--faults", "stale-start", "--every", "5", "--format", "json")
    assert first.exit_code == 2
    found = [one for one in json.loads(first.output) if one["at"]]
    assert found and all(one["said"] for one in found)
    command = found[0]["command"].split()
    assert command[:3] == ["dds", "lab", "check"]
    again = run(*command[3:], "--format", "json")
    assert again.exit_code == 2
    assert [one for one in json.loads(again.output) if one["at"]] == found[:1]


def test_a_point_that_the_run_does_not_have_is_a_finding() -> None:
    result = run("first_attach", "--at", "dies:999")
    assert result.exit_code == 2
    assert "not reached: the run has 46 events and 20 writes" in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("first_attach", "--at", "dies"), "dies: is no point of a run; write KIND:NUMBER"),
        (("first_attach", "--at", "stale:3"), "stale:3: is no point of a run"),
        (("first_attach", "--faults", "die"), "'die' is not one of all, dies, unseen"),
        (("first_attach", "--seeds", "3..1"), "'3..1' is neither a seed nor A..B"),
        (("first_atach",), "first_atach: neither a file nor a scenario of that name"),
    ],
)
def test_what_cannot_be_meant_is_said(args: tuple[str, ...], words: str) -> None:
    result = run(*args)
    assert result.exit_code == 1, result.output
    assert words in result.output


def test_what_was_played_with_the_same_code_is_not_played_again(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    args = ("withdrawn", "--against", "stand-in", "--faults", "stale", "--every", "3", "--results", str(results))
    first = run(*args)
    lines = results.read_text().splitlines()
    results.write_text("\n".join([*lines[:-1], lines[-1][:20]]))  # it was killed while it wrote
    assert run(*args).output == first.output
    assert results.read_text().splitlines() == [*lines[:-1], lines[-1][:20], lines[-1]]
    results.write_text("not of this command\n")
    assert "holds no results" in run(*args).output


def test_a_finding_is_shown_in_the_least_scenario_that_has_it(tmp_path: Path) -> None:
    result = run("many_devices", "--against", "stand-in", "--at", "dies:0", "--shrink", str(tmp_path))
    assert result.exit_code == 2, result.output
    (path,) = tmp_path.iterdir()
    assert f"dds lab check {path} --seeds 1 --against stand-in\n" in result.output
    assert "dds: steps: " in result.output  # on standard error
    assert 0 < len(read_scenario(path).steps) < len(shipped.find("many_devices").steps)


def test_a_command_that_does_not_run_is_said() -> None:
    result = run("first_attach", "--against", "echo cannot listen >&2; exit 3", "--speed", "100")
    assert result.exit_code == 1
    assert "--against: it ended with 3: cannot listen; give a command that runs until it is killed" in result.output


def test_fleets_are_played_by_their_seeds() -> None:
    assert run("fleets", "--seeds", "8").output == (
        "DISTURBANCE  POINTS  FINDINGS\n"
        "fleets       1       0\n"
        "1 run, compared with 0 that nothing disturbed: nothing was found\n"
    )
    assert "fleets: needs to know which; add --seeds A..B" in run("fleets").output
    assert "fleets: are played with ours" in run("fleets", "--seeds", "8", "--against", "stand-in").output
