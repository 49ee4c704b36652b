"""`dds lab`: a simulated composable cluster, for whoever has none: served, run, listed, recorded, compared with a real one.

Its commands are loaded when they are asked for, since other commands need nothing of a whole cluster.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping

import click

from dds_commands.running import require

_MODULES = {"conform": "lab_conform", "record": "lab_record", "run": "lab_run", "scenarios": "lab_run", "up": "lab_up"}


class _OnDemand(MutableMapping[str, click.Command]):
    """The commands by name; each is imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        module = _MODULES[name]
        require("lab")
        command = getattr(importlib.import_module(f"dds_commands.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError("the commands of the lab are named in dds_commands.lab")

    def __delitem__(self, name: str) -> None:
        raise TypeError("the commands of the lab are named in dds_commands.lab")


@click.group("lab", short_help="A simulated cluster that answers like a real one.", commands=_OnDemand())
def lab() -> None:
    """A simulated composable cluster: an API server that answers like a real one, a scheduler, an operator with a fabric
    behind it, drivers and kubelets. kubectl and every other client work against it; nothing real is touched.

    SCENARIO is a file (docs/lab.md), or the name of one that comes with dds: see 'dds lab scenarios'.
    """
