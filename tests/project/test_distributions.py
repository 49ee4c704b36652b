"""Two distributions: dds-core, which people run and embed, works without dds-lab, the simulated cluster and what-if runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import click
import pytest

from dds_commands import main
from dds_core import __version__
from tests.support.commands import FIRST_ATTACH, REPOSITORY
from tests.support.extras import CHECKOUT, LAB, OF_THE_LAB, hidden, without
from tests.support.installed import Installed

COMMANDS_OF_THE_LAB = ("lab", "plan", "whatif")
HELP = """
import json, sys
from importlib.util import find_spec
from click.testing import CliRunner
from dds_commands import main
of_the_lab, commands = json.loads(sys.argv[1])
codes = [CliRunner().invoke(main, [*command, "--help"]).exit_code for command in commands]
print(json.dumps([codes, [name for name in of_the_lab if find_spec(name)]]))
"""
IMPORT = """
import pkgutil, sys
for name in ("dds_core", "dds_migrations", "dds_adapters", "dds_commands"):
    for module in pkgutil.walk_packages(__import__(name).__path__, name + "."):
        if module.name not in sys.argv:
            __import__(module.name)
"""
ENVIRONMENT_OF_ALEMBIC = "dds_migrations.env"
"""Alembic runs it; on its own it cannot be imported."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of dds-core alone. Of this environment's packages all that it does not need can be hidden (`bare`)."""
    return Installed(tmp_path_factory.mktemp("core"), REPOSITORY)


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Hides what dds-core does not require. The lab is not hidden: it is not there."""
    return without(tmp_path, hidden("dds-core") | CHECKOUT)


def commands(group: click.Group, *path: str) -> Iterator[list[str]]:
    for name, command in group.commands.items():
        yield [*path, name]
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


def files(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_both_have_one_version_and_the_lab_takes_no_other_dds_core() -> None:
    assert LAB["version"] == __version__
    assert [one for one in LAB["dependencies"] if one.startswith("dds-core")] == [f"dds-core[serve]=={__version__}"]


def test_the_wheel_of_dds_core_holds_nothing_of_the_lab(core: Installed) -> None:
    (wheel,) = core.wheels
    folders = {name.partition("/")[0] for name in files(wheel)}
    info = f"dds_core-{__version__}.dist-info"
    assert folders == {"dds_core", "dds_migrations", "dds_adapters", "dds_commands", info}


def test_each_command_of_dds_core_answers_without_the_lab(
    core: Installed, bare: dict[str, str], tmp_path: Path
) -> None:
    asked = [[], *(one for one in commands(main) if one[0] not in COMMANDS_OF_THE_LAB)]
    done = core.run("-c", HELP, json.dumps([sorted(OF_THE_LAB), asked]), cwd=tmp_path, env=bare)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[0] * len(asked), []]
    told = core.dds("timeline", "default/train-1", FIRST_ATTACH, cwd=tmp_path, env=bare)
    assert (told.returncode, told.stderr) == (0, "") and "train-1" in told.stdout


@pytest.mark.parametrize("command", ["lab", "lab run burst", "plan --help", "whatif log.sqlite3 --policy longer.yaml"])
def test_a_command_of_the_lab_says_what_to_install(
    command: str, core: Installed, bare: dict[str, str], tmp_path: Path
) -> None:
    words = command.split()
    done = core.dds(*words, cwd=tmp_path, env=bare)
    hint = "the package dds-lab is not installed; in a checkout of dds: pip install . ./lab"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"dds: dds {words[0]}: {hint}\n")


def test_each_module_of_dds_core_imports_without_the_lab(core: Installed, tmp_path: Path) -> None:
    done = core.run("-c", IMPORT, ENVIRONMENT_OF_ALEMBIC, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_wheel_of_the_lab_completes_it(tmp_path: Path) -> None:
    both = Installed(tmp_path / "both", REPOSITORY, REPOSITORY / "lab")
    ours, labs = map(files, both.wheels)
    assert not ours & labs
    assert f"dds_lab-{__version__}.dist-info/licenses/LICENSE" in labs
    env = without(tmp_path, hidden("dds-lab") | CHECKOUT)
    played = both.dds("lab", "run", "first_attach", "-o", "out.jsonl", cwd=tmp_path, env=env)
    assert (played.returncode, (tmp_path / "out.jsonl").exists()) == (0, True), played.stderr
