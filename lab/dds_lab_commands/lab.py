"""`dds lab`: the commands of the simulated cluster. Each command's module is imported when the command is used: other commands
need not wait for the lab's imports."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import click

_MODULES = {
    "check": "lab_check",
    "conform": "lab_conform",
    "import": "lab_import",
    "join": "lab_join",
    "leave": "lab_join",
    "record": "lab_run",
    "run": "lab_run",
    "scenarios": "lab_run",
    "up": "lab_up",
}


_FUNCTIONS = {"import": "import_"}
"""Names of functions, for commands whose name is a keyword of Python."""


class _OnDemand(UserDict[str, Any]):
    """Commands by name; a lookup imports the command's module."""

    def __getitem__(self, name: str) -> Any:
        module = import_module(f"dds_lab_commands.{super().__getitem__(name)}")
        return getattr(module, _FUNCTIONS.get(name, name))


@click.group("lab", short_help="Simulate a cluster that answers like a real one.", commands=_OnDemand(_MODULES))
def lab() -> None:
    """A simulated composable cluster: an API server that answers like a real one, a scheduler, an operator with a fabric,
    drivers and kubelets. kubectl and every other client work with it; no real cluster is touched, except by `join`, `leave` and
    `run --cluster`.

    SCENARIO is a file (docs/lab.md) or a name from `dds lab scenarios`.
    """
