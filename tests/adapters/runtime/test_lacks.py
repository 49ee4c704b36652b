"""What a cluster that was seen whole lacks is told in a line each."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.runtime.lacks import lacks
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import Picture
from dds_lab.shipped import find
from tests.support.ours import running, told_to_us


def seen(**cluster: Any) -> list[str]:
    """What a scaler says that has seen the playground, with other things in its cluster."""
    found = told_to_us("playground")
    changed = found.cluster.model_copy(update=cluster)
    with running(found.model_copy(update={"cluster": changed}), Policy()) as run:
        run.lab.run(30)
        assert run.ours.scaler.synced
        return [str(one) for one in lacks(run.ours.scaler.picture, "https://lab", "composable-dra")]


def test_a_cluster_that_has_all() -> None:
    assert seen() == []


def test_no_configmap() -> None:
    (line,) = seen(config=False)
    assert line.startswith("https://lab ConfigMap composable-dra/composable-dra-dds: is not there")
    assert "; create it with device-info" in line


def test_no_model() -> None:
    (line,) = seen(models=[], classes=[], fabrics=[], nodes=find("playground").cluster.nodes[:0])
    assert "names no model that can be used" in line


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_pools_that_lost_their_conditions(version: str) -> None:
    (line,) = seen(version=version)
    assert "ResourceSlice " in line and "switch DRADeviceBindingConditions on" in line


def test_nothing_seen_yet() -> None:
    assert len(lacks(Picture(), "https://lab", "composable-dra")) == 1
