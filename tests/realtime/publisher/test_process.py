"""The live publisher as a process: over HTTP, on a real log, with an inventory in a file, and with what befalls it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.fabric.provider import Provider
from dds_adapters.sql import Database
from dds_core.publisher.model import Machine, PoolModel, Stock
from dds_lab.shipped import find
from tests.support.live_lab import LiveLab, eventually
from tests.support.live_log import Opened
from tests.support.live_log import database as database
from tests.support.live_publisher import (
    PUBLISH,
    Inventory,
    devices,
    our_publisher,
    pool_slices,
    without_ours,
)

opening = partial(Opened, component="publisher")
POOL = "nvidia-a100-40-fabric1"
MODEL = "A100 40G"
FOUR = [f"nvidia-a100-40-{number}" for number in range(4)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    scenario = without_ours(find("first_attach")).model_copy(update={"steps": ()})
    with LiveLab(scenario, tmp_path) as lab:
        yield lab


@pytest.fixture
def inventory(lab: LiveLab, tmp_path: Path) -> Inventory:
    return Inventory(lab, tmp_path)


class Hanging(Provider):
    """A provider whose fabric answers nothing for as long as `hangs` is set."""

    def __init__(self, provider: Provider) -> None:
        self.hangs = False
        self.asked = 0
        self._provider = provider

    def machines(self) -> Sequence[Machine]:
        self.asked += 1
        if self.hangs:
            time.sleep(60)
        return self._provider.machines()

    def stock(self, machine: Machine, model: PoolModel) -> Stock:
        return self._provider.stock(machine, model)

    def limits(self, machine: Machine, models: Sequence[PoolModel]) -> Any:
        return self._provider.limits(machine, models)

    def close(self) -> None:
        """Nothing is open."""


def published(lab: LiveLab, names: Sequence[str] = FOUR) -> Callable[[], bool]:
    return lambda: devices(lab).get(POOL) == list(names)


@pytest.mark.smoke
def test_what_a_fabric_has_free_is_published_and_follows_the_inventory(
    lab: LiveLab, database: Database, inventory: Inventory
) -> None:
    """While nothing changes, nothing is written and nothing is logged."""
    opened = opening(database)
    provider = Hanging(inventory.provider())
    policy = PUBLISH.model_copy(update={"gone_seconds": 600})  # the end of this time is an event
    with our_publisher(lab.cluster(), opened, provider, lambda: policy) as ours:
        eventually(published(lab))
        (slice,) = pool_slices(lab)
        assert slice["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "dds-publisher"
        assert all(one["bindingConditions"] == ["FabricDeviceReady"] for one in slice["spec"]["devices"])
        eventually(lambda: opened.types()["WriteDone"] == 1 and opened.types()["PoolSliceObserved"] == 3)
        before, written, asked = opened.log.head().position, dict(ours.process.writer.counts), provider.asked
        eventually(lambda: provider.asked > asked + 20)
        assert opened.log.head().position == before
        assert dict(ours.process.writer.counts) == written
        inventory.count("1", MODEL, 2)
        eventually(published(lab, FOUR[:2]))
        inventory.count("1", MODEL, 4)
        eventually(published(lab))
    types = opened.types()
    assert types["Synced"] == 1 and types["PoolPublished"] == 3 and types["Capabilities"] == 1
    assert opened.sound()


def test_the_config_map_is_followed_while_it_runs(lab: LiveLab, database: Database, inventory: Inventory) -> None:
    def change(lab: Any, data: dict[str, str]) -> None:
        lab.client("test").patch("configmaps", "composable-dra-dds", {"data": data}, namespace="composable-dra")

    def info(lab: Any) -> str:
        found = lab.client("test").get("configmaps", "composable-dra-dds", "composable-dra")
        return str(found["data"]["device-info"])

    opened = opening(database)
    with our_publisher(lab.cluster(), opened, inventory.provider()):
        eventually(published(lab))
        before = lab.call(info)
        lab.call(lambda lab: change(lab, {"device-info": before.replace("nvidia-a100-40", "other-a100")}))
        eventually(lambda: devices(lab) == {"other-a100-fabric1": [f"other-a100-{n}" for n in range(4)]})
        lab.call(lambda lab: change(lab, {"device-info": before, "mode": "observe"}))
        eventually(
            lambda: any(row.type == "PoolPublished" and b"observe" in (row.data or b"") for row in opened.log.read())
        )
        assert list(devices(lab)) == ["other-a100-fabric1"], "it may not write"
        lab.call(lambda lab: change(lab, {"mode": "detach"}))
        eventually(lambda: devices(lab) == {POOL: FOUR})
    assert opened.sound()


def test_an_api_server_that_drops_binding_conditions_is_shown_nothing(tmp_path: Path, database: Database) -> None:
    """Its devices would be handed out though they are not there."""
    scenario = without_ours(find("first_attach")).model_copy(update={"steps": ()})
    gates = scenario.cluster.gates.model_copy(update={"api": {"DRADeviceBindingConditions": False}})
    cluster = scenario.cluster.model_copy(update={"gates": gates})
    opened = opening(database)
    with LiveLab(scenario.model_copy(update={"cluster": cluster}), tmp_path) as lab:
        provider = Hanging(Inventory(lab, tmp_path).provider())
        with our_publisher(lab.cluster(), opened, provider) as ours:
            eventually(lambda: opened.types()["Synced"] and opened.types()["Alerted"])
            asked = provider.asked
            eventually(lambda: provider.asked > asked + 10)
            eventually(lambda: any("drops bindingConditions" in line for line in ours.troubles.lines))
            assert pool_slices(lab) == [] and opened.types()["PoolPublished"] == 0
    assert opened.sound()


def test_a_stop_is_quick_even_while_a_question_hangs(lab: LiveLab, database: Database, inventory: Inventory) -> None:
    provider = Hanging(inventory.provider())
    with our_publisher(lab.cluster(), opening(database), provider) as ours:
        eventually(published(lab))
        provider.hangs, asked = True, provider.asked
        eventually(lambda: provider.asked > asked)
        began = time.monotonic()
        ours.stop()
        assert time.monotonic() - began < 10
    assert any(line.startswith("fabric: a request still hangs") for line in ours.troubles.lines)
