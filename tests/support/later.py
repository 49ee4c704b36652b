"""Later versions of dds: a copy of this tree with the differences that a release brings, as a wheel in an environment of its own.

later = Later(folder, "0.2.0", OTHER_RULES)
Program(..., program=later.program)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import dds_core
from tests.support.commands import REPOSITORY, environment
from tests.support.installed import Installed

_OF_THE_WHEEL = ("dds_core", "adapters", "cli", "migrations", "pyproject.toml", "README.md", "LICENSE")


class Change(NamedTuple):
    """In this file of the tree `after` stands in the place of `before`, which is there once; without `before` the file is new."""

    file: str
    before: str
    after: str


OTHER_RULES = (
    Change("dds_core/scaler/settling.py", "GUARD_SETTLE = 500 *", "GUARD_SETTLE = 700 *"),
    Change("dds_core/scaler/fence.py", "FENCE_SETTLE = 30 *", "FENCE_SETTLE = 20 *"),
    Change(
        "dds_core/scaler/policy.py",
        "    no_removal_seconds: Seconds = Field(\n",
        '    patience_seconds: Seconds = Field(default=3, description="New.")\n    no_removal_seconds: Seconds = Field(\n',
    ),
)
"""Deadlines of exchanges and fences, and a field more in the policy; all forms of events are those of this version."""
OTHER_EVENTS = (
    Change("dds_core/events/base.py", "SCHEMA_VERSION = 1", "SCHEMA_VERSION = 2"),
    Change(
        "dds_core/replay/logged.py",
        "UPCASTS = Upcasts(SCHEMA_VERSION)",
        'UPCASTS = Upcasts(SCHEMA_VERSION, {("Started", 1): lambda data: {**data, "seed": 1}})',
    ),
    Change("dds_core/events/shared.py", "    mode: str\n    evaluator", "    mode: str\n    seed: int\n    evaluator"),
    Change(
        "adapters/dds_adapters/runtime/loop.py",
        "                evaluator=self.evaluator,\n",
        "                evaluator=self.evaluator,\n                seed=7,\n",
    ),
)
"""`Started` has a field more."""
OTHER_SCHEMA = (
    Change(
        "migrations/dds_migrations/versions/v0002_more.py",
        "",
        'import sqlalchemy as sa\nfrom alembic import op\n\nrevision = "0002"\ndown_revision = "0001"\n\n\n'
        'def upgrade() -> None:\n    op.create_table("dds_more", sa.Column("a", sa.Integer))\n',
    ),
)
"""The database has a table more."""


class Later(Installed):
    """A version with these changes, installed. Its fingerprint is that of its rules."""

    def __init__(self, folder: Path, version: str, changes: Iterable[Change] = ()) -> None:
        self.version = version
        tree = folder / "tree"
        tree.mkdir(parents=True)
        for name in _OF_THE_WHEEL:
            here = REPOSITORY / name
            if here.is_dir():
                shutil.copytree(here, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(here, tree)
        released = Change(
            "dds_core/__init__.py", f'__version__ = "{dds_core.__version__}"', f'__version__ = "{version}"'
        )
        for one in (released, *changes):
            _change(tree, one)
        tests = os.pathsep.join((str(tree), str(REPOSITORY)))  # the core of this tree, the tests of the repository
        subprocess.run(
            [sys.executable, "-m", "tests.core.purity.fingerprint"],
            check=True,
            cwd=tree,
            env=environment({"PYTHONPATH": tests}),
        )
        super().__init__(folder / "installed", tree)


def _change(tree: Path, one: Change) -> None:
    file = tree / one.file
    text = file.read_text(encoding="utf-8") if one.before else one.before
    assert text.count(one.before) == 1, f"{one.file}: {one.before!r} is there {text.count(one.before)} times"
    file.write_text(text.replace(one.before, one.after), encoding="utf-8")
