"""Each command needs one extra or none: without it, one line names it; with it and nothing else, the command works."""

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
from tests.support.extras import PROJECT, named, only

NEEDED = {
    "serve": "serve",
    "publish": "serve",
    "autoscale": "autoscaler",
    "doctor": "serve",
    "lab": "lab",
    "whatif": "lab",
    "plan": "lab",
}
"""By command, or group of commands. The others need none, but for `postgres` where the log is in PostgreSQL and `export` for two
formats of `dds export`."""
NOWHERE = "postgresql://nowhere.invalid/dds"
FASTER = {"uvloop"}
"""What an extra brings, and nothing fails without it."""
PLAY = """
import json, sys
from click.testing import CliRunner
from dds_commands import main
ends = [CliRunner().invoke(main, one) for one in json.loads(sys.argv[1])]
print(json.dumps([(end.exit_code, end.output) for end in ends]))
"""


def play(folder: Path, extras: tuple[str, ...], commands: list[list[str]]) -> list[tuple[int, str]]:
    """How each command ends where nothing but these extras is installed, and what it says."""
    done = subprocess.run(
        [sys.executable, "-c", PLAY, json.dumps(commands)],
        env=environment(only(folder, *extras)),
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
    for command, (code, said) in zip(commands, play(tmp_path, (), commands), strict=True):
        assert (code, len(said.splitlines())) == (1, 1), said
        assert said.startswith(f"dds: dds {command[0]}")
        assert said.endswith(f" is not installed; in a checkout of dds: pip install '.[{NEEDED[command[0]]}]'\n")
    exports = [["export", FIRST_ATTACH, "--format", form, "-o", "out"] for form in ("otlp", "perfetto")]
    missing = "dds: dds export: the package perfetto is not installed; in a checkout of dds: pip install '.[export]'\n"
    assert play(tmp_path, (), exports) == [(1, missing)] * 2
    ((_, said),) = play(tmp_path, ("lab",), [["db", "check", NOWHERE]])
    assert "the driver for PostgreSQL is not installed; in a checkout of dds: pip install '.[postgres]'" in said


def test_the_others_need_none(tmp_path: Path) -> None:
    log = "log.sqlite3"
    commands = [
        ["db", "upgrade", log],
        ["replay", FIRST_ATTACH, "--log", log],
        ["replay", log, "--verify"],
        ["log", "verify", log],
        ["log", "export", "log.jsonl", "--log", log],
        ["timeline", "default/train-1", log],
        ["status", log],
        ["export", log],
        *([name, log] for name in ("claims", "devices")),
        ["diagram"],
        *([*one, "--help"] for one in leaves(main) if one[0] != "lab"),
    ]
    for command, (code, said) in zip(commands, play(tmp_path, (), commands), strict=True):
        assert code == 0, (command, said)


COMES_TO = {
    "serve": {
        "serve --migrate --log log.sqlite3 --kubeconfig nowhere": "nowhere: ",
        "publish --migrate --log log.sqlite3 --kubeconfig nowhere --fabric file --inventory i.yaml": "nowhere: ",
        "doctor --log log.sqlite3 --kubeconfig nowhere": "1 error",
    },
    "autoscaler": {
        "autoscale --migrate --log log.sqlite3 --kubeconfig nowhere --machines nothing.yaml": "nothing.yaml",
    },
    "lab": {
        "lab run first_attach -o out.jsonl": "out.jsonl",
        "lab scenarios": "first_attach",
        "whatif nowhere": "nowhere: ",
        "lab up nowhere": "nowhere: neither a file",
        "lab record --kubeconfig nowhere -o recorded.jsonl": "nowhere: ",
        "lab conform --kubeconfig nowhere": "nowhere: ",
    },
    "export": {
        f"export {FIRST_ATTACH} --format otlp": '"traceId"',
        f"export {FIRST_ATTACH} --format perfetto -o -": "default/train-1",
    },
    "postgres": {f"db check {NOWHERE}": "nowhere.invalid"},
}


@pytest.mark.parametrize("extra", COMES_TO)
def test_with_its_extra_alone_a_command_comes_to_its_work(extra: str, tmp_path: Path) -> None:
    ends = play(tmp_path, (extra,), [command.split() for command in COMES_TO[extra]])
    for (command, expected), (_, said) in zip(COMES_TO[extra].items(), ends, strict=True):
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
    assert found == named(extra) - FASTER


def test_the_extras_are_those_of_commands_and_of_the_library() -> None:
    extras = PROJECT["optional-dependencies"]
    assert extras.keys() == {*NEEDED.values(), "postgres", "export", "sweep", "contracts", "all"}
    assert named("all") == set[str]().union(*map(named, extras.keys() - {"contracts"}))
