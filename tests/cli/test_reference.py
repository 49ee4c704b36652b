"""docs/cli.md is what the commands say, and leaves nothing out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from dds_commands import main
from tests.support.commands import REPOSITORY, fine

PAGE = REPOSITORY / "docs" / "cli.md"
WHOLE = "".join(PAGE.read_text(encoding="utf-8").split())


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, f"{path} {name}")


ALL = list(commands(main, "dds"))


def test_the_page_is_made_from_the_help() -> None:
    made = subprocess.run(  # in a process of its own: click keeps of a command what another test made of it
        [sys.executable, "-m", "dds_commands.reference"], check=True, capture_output=True, encoding="utf-8"
    )
    assert PAGE.read_text(encoding="utf-8") == made.stdout, "run: python -m dds_commands.reference > docs/cli.md"


@pytest.mark.parametrize(("path", "command"), ALL, ids=[path for path, _ in ALL])
def test_every_command_and_option_is_documented(path: str, command: click.Command) -> None:
    section = PAGE.read_text().split(f"### `{path}`\n", 1)[1].split("\n### ", 1)[0]
    assert command.help, f"{path} says nothing about itself"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.name} says nothing about itself"
            assert all(name in section for name in parameter.opts)
            assert "".join(parameter.help.split()) in WHOLE  # in the section, or among the shared options
        else:
            assert str(parameter.make_metavar(click.Context(command))) in section


def test_the_commands_are_those_that_were_promised() -> None:
    paths = {path.removeprefix("dds ") for path, command in ALL if not isinstance(command, click.Group)}
    assert paths == {
        *(f"db {name}" for name in ("upgrade", "current", "check")),
        *(f"log {name}" for name in ("import", "export", "verify", "archive", "tail", "redact", "repair", "anchor")),
        *(
            f"lab {name}"
            for name in ("up", "run", "check", "import", "join", "leave", "record", "scenarios", "conform")
        ),
        *(
            "serve",
            "publish",
            "autoscale",
            "doctor",
            "ui",
            "whatif",
            "plan",
            "status",
            "export",
            "incident",
            "replay",
            "claims",
            "devices",
            "pools",
            "usage",
            "timeline",
            "report",
            "incident",
            "diagram",
            "completion",
        ),
    }


def test_help_and_version_end_well() -> None:
    assert fine("--version").startswith("dds 0.")
    assert "Exit codes:" in fine("-h")
    assert "Usage: dds log tail" in fine("log", "tail", "--help")
