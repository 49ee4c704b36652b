"""Shipped scenarios on a real control plane, with dds as it is installed. Each ends as it does on virtual time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dds_lab.check.command import later
from dds_lab.scenario import Scenario
from tests.e2e.playing import Play, Seen
from tests.support.control_plane import ControlPlane
from tests.support.expected_ends import ENDS, ExpectedEnd
from tests.support.ours import begins, told_to_us

SCENARIOS = (
    "first_attach", "two_claims", "many_devices", "two_requests", "pool_exhausted", "attach_failure", "coexistence", "node_limit",
    "withdrawn", "node_lost", "rival", "refused_local", "partitioned", "extended_resource", "burst", "burst-2",
)  # fmt: skip
HEAD_START = 15.0
"""Seconds in which dds gets ready, before the first pod comes."""
BURST = (18, 40)
"""Devices that a burst attaches at least and at most: how often one is taken off and is wanted again depends on the machine."""
LONGER = 60.0
"""Seconds that a burst lasts beyond its time, so that the last pods are served on a slow machine as well."""


def tell(seen: Seen, record_property: Any) -> None:
    """Into the results: how many devices were attached, and how long pods waited for a node, in seconds."""
    waits = sorted(seen.waits.values())
    record_property("attached", seen.attached)
    if waits:
        places = {"p50": len(waits) // 2, "p95": min(len(waits) - 1, round(0.95 * len(waits)))}
        record_property("waits", {"pods": len(waits)} | {name: round(waits[at], 1) for name, at in places.items()})


def played(plane: ControlPlane, scenario: Scenario, folder: Path, end: ExpectedEnd) -> Seen:
    with Play(plane, scenario, folder) as it:
        it.serve(it.log(""))
        it.to_the_end()
    it.held(end)
    return it.seen


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario(plane: ControlPlane, name: str, tmp_path: Path, record_property: Any) -> None:
    name, _, seed = name.partition("-")
    scenario = later(told_to_us(name), max(0.0, HEAD_START - begins(name)))
    if seed:
        scenario = scenario.model_copy(update={"seed": int(seed)})
    end = ENDS[name]
    if name == "burst":
        end = replace(end, attaches=BURST)
        scenario = scenario.model_copy(update={"duration": scenario.duration + LONGER})
    tell(played(plane, scenario, tmp_path, end), record_property)
