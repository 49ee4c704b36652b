"""Inputs of others, from the folder that E2E_CASES names: the beginning of each scenario on a real control plane."""

from __future__ import annotations

import os
import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from dds_core.errors import InputError
from dds_lab.check.command import later
from tests.e2e.test_scenarios import HEAD_START, played, tell
from tests.support.control_plane import ControlPlane
from tests.support.expected_ends import ExpectedEnd
from tests.support.ours import told_to_us

CASES = "E2E_CASES"
LENGTH = 45.0
"""Seconds of real time that are played of a scenario: many last an hour."""
ANY = ExpectedEnd(0, (0, 40))
"""What ends how is not known of other people's inputs."""


def inputs() -> list[Path]:
    folder = os.environ.get(CASES)
    return sorted(Path(folder).glob("*.yaml")) if folder else []


@pytest.mark.parametrize("path", inputs(), ids=lambda path: path.stem)
def test_an_input_of_others(plane: ControlPlane, path: Path, tmp_path: Path, record_property: Any) -> None:
    if path.with_suffix(".hook.py").exists():
        pytest.skip("it needs the hook beside it")
    if "finalizers" in path.read_text(encoding="utf-8"):
        pytest.skip("its finalizer, which nobody removes, keeps an object after the lab has left")
    try:
        scenario = told_to_us(str(path))
    except InputError as error:
        pytest.skip(str(error).replace(str(path), path.name))
    scenario = later(scenario, HEAD_START)
    steps = tuple(takewhile(lambda one: (one.at or 0.0) <= LENGTH, scenario.steps))
    scenario = scenario.model_copy(update={"steps": steps, "duration": LENGTH})
    try:
        tell(played(plane, scenario, tmp_path, ANY), record_property)
    except AssertionError as error:
        refused = re.search("the lab cannot join.*", str(error))
        if refused is None:
            raise
        pytest.skip(refused[0])
