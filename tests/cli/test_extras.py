"""Each command needs one extra, dds-lab or nothing: without it, one line names it; with it alone, the command works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import files, packages_distributions
from pathlib import Path, PurePath

import click
import pytest
from packaging.utils import canonicalize_name

from dds_commands import main
from dds_commands.running import PACKAGES
from tests.support.commands import FIRST_ATTACH, environment
from tests.support.extras import CORE, named, only

NEEDED = {
    "serve": "serve",
    "publish": "serve",
    "autoscale": "autoscaler",
    "doctor": "serve",
}
"""The extra of a command. The others need none, but for `postgres` where the log is in PostgreSQL and `export` for two formats of
`dds export`."""
OF_THE_LAB = ("lab", "plan", "whatif")
NOWHERE = "postgresql://nowhere.invalid/dds"
PLAY = """
import json, sys
from click.testing import CliRunner
from dds_commands import main
ends = [CliRunner().invoke(main, one) for one in json.loads(sys.argv[1])]
print(json.dumps([(end.exit_code, end.output) for end in ends]))
"""


def play(folder: Path, wanted: str, commands: list[list[str]]) -> list[tuple[int, str]]:
    """How each command ends where nothing but this requirement is installed, and what it says."""
    done = subprocess.run(
        [sys.executable, "-c", PLAY, json.dumps(commands)],
        env=environment(only(folder, wanted)),
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(done.stdout)]


def leaves(group: click.Group, *path: str) -> Iterator[list[str]]:
    for name, command in group.commands.items():
        yield from leaves(command, *path, name) if isinstance(command, click.Group) else iter([[*path, name]])


def test_without_its_extra_a_command_names_it(tmp_path: Path) -> None:
    settings = {
        "publish": ["--fabric", "file", "--inventory", "inventory.yaml"],
        "autoscale": ["--machines", "machines.yaml"],
    }
    machines = "machines: {kind: inventory, servers: servers.yaml, requests: requests.yaml}"
    (tmp_path / "machines.yaml").write_text(machines, encoding="utf-8")
    commands = [[*one, *settings.get(one[0], ())] for one in leaves(main) if one[0] in NEEDED]
    assert {one[0] for one in commands} == set(NEEDED)
    for command, (code, said) in zip(commands, play(tmp_path, "dds-core", commands), strict=True):
        assert (code, len(said.splitlines())) == (1, 1), said
        assert said.startswith(f"dds: dds {command[0]}: ")
        assert said.endswith(f" is not installed; in a checkout of dds: pip install '.[{NEEDED[command[0]]}]'\n")
    exports = [["export", FIRST_ATTACH, "--format", form, "-o", "out"] for form in ("otlp", "perfetto")]
    missing = "dds: dds export: the package perfetto is not installed; in a checkout of dds: pip install '.[export]'\n"
    assert play(tmp_path, "dds-core", exports) == [(1, missing)] * 2
    ((_, said),) = play(tmp_path, "dds-lab", [["db", "check", NOWHERE]])
    assert "the driver for PostgreSQL is not installed; in a checkout of dds: pip install '.[postgres]'" in said


def test_help_is_the_same_without_the_lab(tmp_path: Path) -> None:
    ((without,), (with_it,)) = (play(tmp_path, wanted, [["--help"]]) for wanted in ("dds-core", "dds-lab"))
    assert without == with_it
    assert all(f"  {name} " in without[1] for name in OF_THE_LAB)


def test_the_others_need_none(tmp_path: Path) -> None:
    log = "log.sqlite3"
    commands = [
        ["db", "upgrade", log],
        ["log", "import", FIRST_ATTACH, "--log", log],
        ["log", "verify", log],
        ["log", "export", "log.jsonl", "--log", log],
        ["timeline", "default/train-1", log],
        ["status", log],
        ["export", log],
        *([name, log] for name in ("claims", "devices")),
        ["diagram"],
        *([*one, "--help"] for one in leaves(main) if one[0] not in OF_THE_LAB),
    ]
    for command, (code, said) in zip(commands, play(tmp_path, "dds-core", commands), strict=True):
        assert code == 0, (command, said)


COMES_TO = {
    "dds-core[serve]": {
        "serve --migrate --log log.sqlite3 --kubeconfig nowhere": "nowhere: ",
        "publish --migrate --log log.sqlite3 --kubeconfig nowhere --fabric file --inventory i.yaml": "nowhere: ",
        "doctor --log log.sqlite3 --kubeconfig nowhere": "1 error",
    },
    "dds-core[autoscaler]": {
        "autoscale --migrate --log log.sqlite3 --kubeconfig nowhere --machines nothing.yaml": "nothing.yaml",
    },
    "dds-lab": {
        "lab run first_attach -o out.jsonl": "out.jsonl",
        "lab scenarios": "first_attach",
        "whatif nowhere": "nowhere: ",
        "lab up nowhere": "nowhere: neither a file",
        "lab record --kubeconfig nowhere -o recorded.jsonl": "nowhere: ",
        "lab conform --kubeconfig nowhere": "nowhere: ",
    },
    "dds-core[export]": {
        f"export {FIRST_ATTACH} --format otlp": '"traceId"',
        f"export {FIRST_ATTACH} --format perfetto -o -": "default/train-1",
    },
    "dds-core[postgres]": {f"db check {NOWHERE}": "nowhere.invalid"},
}


@pytest.mark.parametrize("wanted", COMES_TO)
def test_with_what_it_needs_alone_a_command_comes_to_its_work(wanted: str, tmp_path: Path) -> None:
    ends = play(tmp_path, wanted, [command.split() for command in COMES_TO[wanted]])
    for (command, expected), (_, said) in zip(COMES_TO[wanted].items(), ends, strict=True):
        assert expected in said, command
        assert "not installed" not in said, command


@pytest.mark.parametrize("extra", sorted(PACKAGES))
def test_what_is_looked_for_is_what_the_extra_names(extra: str) -> None:
    known = packages_distributions()
    found = {
        canonicalize_name(one)
        for package in map(PurePath, (name.replace(".", "/") for name in PACKAGES[extra]))
        for one in known[package.parts[0]]  # several have a part of `opentelemetry`
        if any(package in file.parents for file in files(one) or ())
    }
    assert found == named(extra)


def test_the_extras_are_those_of_commands_and_of_the_library() -> None:
    extras = CORE["optional-dependencies"]
    assert extras.keys() == {*NEEDED.values(), "postgres", "export", "all"}
    assert named("all") == set[str]().union(*map(named, extras.keys()))
