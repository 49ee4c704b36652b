"""What a running scaler says of itself without being asked."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.runtime.health import Endpoints
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.log_lines import Naming
from dds_adapters.runtime.operation import FleetNames, PoolNames, ScalerOperation
from dds_adapters.runtime.preflight import pool_lacks, preflight
from dds_adapters.runtime.serving import archive_into
from dds_core.errors import FileError
from dds_core.events import Capabilities, Event, PolicyChanged, Synced
from dds_core.model import Config
from dds_core.publisher.state import PoolState
from dds_core.scaler.events import ConfigObserved
from dds_core.scaler.folds import apply
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State
from dds_lab.shipped import find
from tests.support.logs import MemoryPlace, checkpoint, groups, opened
from tests.support.ours import running, told_to_us


def test_a_kill_switch_that_was_pulled_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    state = State()
    logger = logging.getLogger("dds.test")
    operation = ScalerOperation(Endpoints(LiveSettings(identity="test"), logger), logger)

    def told(*events: Event) -> list[str]:
        caplog.clear()
        for event in events:
            apply(state, event, 1)
        operation.on_turn(state)
        operation.on_turn(state)
        return caplog.messages

    with caplog.at_level(logging.INFO):
        assert told(PolicyChanged(Policy(mode="detach").model_dump(mode="json"))) == []
        assert told(Synced()) == ["the whole cluster was seen: 0 claims, 0 nodes, 0 requests; mode detach"]
        assert told(ConfigObserved("c", Config("c", mode="attach"))) == [
            "mode attach is in effect now (policy detach, the ConfigMap says attach)"
        ]
        assert told(ConfigObserved("c", Config("c", mode=""))) == ["mode detach is in effect now (policy detach)"]
        assert told(PolicyChanged(Policy(mode="observe").model_dump(mode="json"))) == [
            "mode observe is in effect now (policy observe)"
        ]


# -- what a cluster that was seen whole lacks is told in a line each


def seen(**cluster: Any) -> list[str]:
    """What a scaler says that has seen the playground, with other things in its cluster."""
    found = told_to_us("playground")
    changed = found.cluster.model_copy(update=cluster)
    with running(found.model_copy(update={"cluster": changed}), Policy()) as run:
        run.lab.run(30)
        assert run.ours.scaler.synced
        return [str(one) for one in preflight(run.ours.scaler.state, "https://lab", "composable-dra")]


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


@pytest.mark.parametrize("kept", [True, False])
def test_a_publisher_says_what_the_api_server_drops(kept: bool) -> None:
    state = PoolState()
    state.cluster.capabilities = Capabilities(binding_conditions=kept)
    said = [str(one) for one in pool_lacks(state, "https://lab", "composable-dra")]
    assert any("resourceslices: drops bindingConditions" in one for one in said) is not kept


def test_nothing_seen_yet() -> None:
    assert len(preflight(State(), "https://lab", "composable-dra")) == 1


# -- what a running scaler archives, and where


def test_what_lies_before_a_checkpoint_goes_into_a_file_once(tmp_path: Path) -> None:
    log, _ = opened(MemoryPlace(), [*groups(6), checkpoint(6), *groups(1, 7)])
    head = log.head()
    archive_into(tmp_path / "new" / "folder", log)
    archive_into(tmp_path / "new" / "folder", log)
    (file,) = (tmp_path / "new" / "folder").iterdir()
    assert file.name == f"prod-eu-scaler-000000000001-{head.checkpoint:012d}.jsonl.gz"
    assert log.head().archived == head.checkpoint - 1


def test_a_folder_that_cannot_be_had_is_told_and_nothing_is_removed(tmp_path: Path) -> None:
    log, _ = opened(MemoryPlace(), [*groups(6), checkpoint(6)])
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="give a folder that can be written; meanwhile the log only grows"):
        archive_into(tmp_path / "file" / "folder", log)
    assert log.head().archived == 0


@pytest.mark.parametrize("names", [PoolNames(), FleetNames()])
def test_a_component_that_guards_no_devices_says_nothing_of_guards(names: Naming) -> None:
    assert Capabilities(version="1.36").words(names) == "the API server keeps all of a slice"
