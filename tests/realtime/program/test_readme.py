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
FEWER = {"whatif": ["--seeds", "2"], "plan": ["--seeds", "2"]}


def lines(folder: Path, *parts: str) -> list[list[str]]:
    """The `dds` commands of these numbered parts of *Five ways to use it*."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition("\n## Five ways to use it\n")[2]
    page = folder / "part.md"
    page.write_text("".join(text.partition(f"**{one}.")[2].partition("\n**")[0].partition("\n## ")[0] for one in parts))
    return [words for words in typed(page) if words[0] == "dds" and shlex.join(words) not in LEFT_OUT]


@pytest.mark.parametrize(("parts", "least"), [(("2", "3"), 6), (("4",), 4)], ids=["recordings and logs", "the lab"])
@pytest.mark.timeout(240)
def test_each_command_answers(parts: tuple[str, ...], least: int, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    commands = lines(tmp_path, *parts)
    assert len(commands) >= least
    for words in commands:
        line = [str(PROGRAM), *words[1:], *FEWER.get(words[1], ())]
        done = subprocess.run(line, capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
