"""README's examples on recordings, logs and the lab, typed in their order in a new folder: each of them answers."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.project.docs.test_commands import typed
from tests.support.commands import PROGRAM, REPOSITORY, environment

LEFT_OUT = ("dds lab up first_attach", "dds lab check first_attach")
"""What lasts until Ctrl-C (the getting-started page has it, and is typed too), and what takes minutes."""
FEWER = {"whatif": "2", "plan": "1"}
"""Seeds of what simulates, so that it does not take long; each is tried by itself."""


def lines(folder: Path, *parts: str) -> list[list[str]]:
    """The `dds` commands of these numbered parts of *Five ways to use it*."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition("\n## Five ways to use it\n")[2]
    page = folder / "part.md"
    page.write_text("".join(text.partition(f"**{one}.")[2].partition("\n**")[0].partition("\n## ")[0] for one in parts))
    return [words for words in typed(page) if words[0] == "dds" and shlex.join(words) not in LEFT_OUT]


def answers(words: list[str], folder: Path) -> None:
    line = [str(PROGRAM), *words[1:]]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), cwd=folder, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    return tmp_path


@pytest.mark.parametrize(("parts", "least"), [(("2", "3"), 6), (("4",), 2)], ids=["recordings and logs", "the lab"])
def test_each_command_answers(parts: tuple[str, ...], least: int, checkout: Path) -> None:
    commands = [words for words in lines(checkout, *parts) if words[1] not in FEWER]
    assert len(commands) >= least
    for words in commands:
        answers(words, checkout)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", FEWER)
def test_what_simulates_answers(name: str, checkout: Path) -> None:
    (words,) = [one for one in lines(checkout, "4") if one[1] == name]
    answers([*words, "--seeds", FEWER[name]], checkout)
