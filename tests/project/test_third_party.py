"""A package that adds to dds works where dds and its lab are installed from their wheels: its fabric, its servers and its
component are found by their names, and keep the contracts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY
from tests.support.installed import Installed

ACME = REPOSITORY / "tests" / "third_party"
WRITE = """
import sys
from acme_dds.patience import PATIENCE
from dds_adapters.jsonl import export
from dds_core.events import PolicyChanged, Started, Synced, difference
from dds_core.model import Claim
from dds_lab.contracts.components import logged
claim = difference(None, Claim("claim-1", "default", "train"))
start = Started("acme", "1", 1, 1, "tell")
facts = [(1, start), (2, PolicyChanged({"mode": "tell"})), (3, Synced()), (4, claim), (10**8, Synced())]
export(logged(PATIENCE, facts), "log.jsonl")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("environment"), REPOSITORY, REPOSITORY / "lab", ACME)


def test_acme_keeps_the_contracts(installed: Installed, tmp_path: Path) -> None:
    tests = str(ACME / "tests")
    done = installed.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tests, tests, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_log_is_verified_and_told_like_those_of_dds(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("-c", WRITE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    verified = installed.dds("log", "verify", "log.jsonl", cwd=tmp_path)
    assert verified.returncode == 0, verified.stderr
    for command in (("status", "log.jsonl"), ("replay", "log.jsonl")):
        refused = installed.dds(*command, cwd=tmp_path)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1), refused.stderr
    told = installed.dds("timeline", "default/train", "log.jsonl", cwd=tmp_path)
    assert "claim default/train waits for a device since 60 s" in " ".join(told.stdout.split()), told.stderr


def test_its_names_are_taken_and_others_are_told_with_those_there_are(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "fabric.json").write_text('{"machines": {"node0": "a-1"}, "free": {}}')
    log = f"sqlite:///{tmp_path}/log.sqlite3"
    publish = ("publish", "--log", log, "--migrate", "--kubeconfig", "none", "--inventory", "fabric.json", "--fabric")
    odd = installed.dds(*publish, "acne", cwd=tmp_path)
    assert odd.returncode != 0 and "'acne' is not one of 'fm', 'cm', 'nec', 'file', 'acme'" in odd.stderr
    ours = installed.dds(*publish, "acme", cwd=tmp_path)
    assert ours.stderr.splitlines()[-1].startswith("dds: none: "), "the kubeconfig is looked for only then"
