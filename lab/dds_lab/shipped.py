"""Finds scenarios: those of the package by name, others by path."""

from __future__ import annotations

import difflib
from pathlib import Path

from dds_lab.scenario import Scenario, ScenarioError, read_scenario

FOLDER = Path(__file__).with_name("scenarios")
"""In the repository `examples/scenarios` is the same folder."""


def names() -> list[str]:
    """The scenarios that come with the package, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(text: str) -> Scenario:
    """The scenario at a path, else the one of this name. Raises ScenarioError, which suggests similar names."""
    if Path(text).is_file():
        return read_scenario(text)
    if text in names():
        return read_scenario(FOLDER / f"{text}.yaml")
    near = difflib.get_close_matches(text, names(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "'dds lab scenarios' lists those that come with it"
    raise ScenarioError("neither a file nor a scenario of that name", where=text, fix=hint)
