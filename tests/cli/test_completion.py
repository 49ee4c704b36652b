"""What a shell is offered while a command is typed, and how wide lines are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dds_commands import main
from dds_commands.screen import width
from tests.support.commands import FIRST_ATTACH, PROGRAM, dds, environment, fine, refused

ASKED = """
source <(dds completion bash)
complete -p dds >&2
compopt() { COMPREPLY+=("${@: -1}"); }
for line in "$@"; do
    COMP_WORDS=($line) COMPREPLY=()
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _dds_completion dds
    echo "${COMPREPLY[@]}"
done
"""
"""`compopt` is that of bash for a line that is being typed; here it says what it was asked for."""


def test_a_real_bash_completes_what_is_typed() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = subprocess.run(
        [bash, "--norc", "-c", ASKED, "bash", "dds ti", "dds claims --format js", "dds claims first"],
        capture_output=True,
        text=True,
        env=environment({"PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}),
        timeout=60,
        check=True,
    )
    assert done.stderr == "complete -o nosort -F _dds_completion dds\n"
    assert done.stdout.splitlines() == ["timeline", "json jsonl", "default"], "by default bash completes files"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("log an", ["plain,anchor"]),
        ("claims --fo", ["plain,--format"]),
        ("replay --policy x", ["file,x"]),
        ("log verify -o x", ["file,x"]),
        ("lab run x", ["file,x"]),
        ("diagram d", ["plain,device"]),
    ],
)
def test_commands_options_values_and_files_are_offered(typed: str, offered: list[str]) -> None:
    words = f"dds {typed}"
    asked = {"_DDS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert dds(env=asked).stdout.splitlines() == offered


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o nosort"), ("zsh", "#compdef dds"), ("fish", "complete --")]
)
def test_the_script_is_the_shells(shell: str, mark: str) -> None:
    said = fine("completion", shell)
    assert mark in said and f"_DDS_COMPLETE={shell}_complete" in said


def test_what_cannot_be_completed_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of ours would tear the one that is being typed."""
    asked = {"_DDS_COMPLETE": "bash_complete", "COMP_WORDS": "dds lab ", "COMP_CWORD": "2"}
    assert "plain,scenarios" in dds(env=asked).stdout
    monkeypatch.delitem(main.commands, "lab")
    monkeypatch.setitem(sys.modules, "dds_lab_commands", None)
    assert dds(env=asked).output == ""
    assert "dds-lab is not installed" in refused("lab", "scenarios")


def test_commands_of_the_lab_are_offered_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(main.commands, "lab")
    monkeypatch.setitem(sys.modules, "dds_lab_commands", None)
    asked = {"_DDS_COMPLETE": "bash_complete", "COMP_WORDS": "dds la", "COMP_CWORD": "1"}
    assert dds(env=asked).stdout.splitlines() == ["plain,lab"]


@pytest.mark.parametrize(
    ("columns", "wide"), [("200", 200), ("40", 80), ("0", 100), ("wide", 100), ("99999999", 100), ("", 100)]
)
def test_lines_are_as_wide_as_columns_says(
    columns: str, wide: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width() == wide
    lines = fine("timeline", "default/train-1", FIRST_ATTACH, "--full").splitlines()
    assert wide == 80 or wide - 30 < max(map(len, lines)) <= wide  # at 80 a UUID alone is wider
    file = tmp_path / "out"
    fine("timeline", "default/train-1", FIRST_ATTACH, "--full", "-o", str(file))
    assert file.read_text().splitlines() == lines
