"""A served lab with a manager of its hardware, asked by the real client: it tells what the cluster and the hardware say."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.fabric import FabricSettings, Provider, open_provider
from dds_adapters.fabric.provider import FabricError
from dds_core.publisher.model import Limit, PoolModel
from dds_lab.scenario import Scenario, parse
from tests.support.live_lab import LiveLab

A100 = "A100 40G"
MODEL = PoolModel(1, A100, "nvidia-a100-40", "gpu.nvidia.com")


def written(manager: str) -> Scenario:
    text = f"""
cluster:
  models: [{{model: {A100}, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}}]
  fabrics: [{{id: 3, devices: {{{A100}: 4}}}}]
  nodes: [{{count: 2, fabric: 3, limits: {{{A100}: {{max: 3, min: 1}}}}}}, {{name: plain, fabric: null}}]
parts: {{manager: {manager}, scaler: false, fabric: {{attach: 20ms}}}}
"""
    return parse(text, "test")


def provider(lab: LiveLab) -> Provider:
    manager = lab.manager.manager.settings
    found = FabricSettings(manager.api, lab.manager.url, manager.tenant, manager.cluster, lab.credentials)
    return open_provider(found)


def order(lab: LiveLab) -> None:
    """A device goes to node0000 as the operator orders it."""
    lab.call(lambda lab: lab.fabric.attach("node0000", A100, lambda answer: None))


def test_the_cluster_managers_answers_are_the_labs_own(tmp_path: Path) -> None:
    with LiveLab(written("{api: cm, answer: 1ms}"), tmp_path) as lab:
        fabric = provider(lab)
        try:
            nodes = {
                one["metadata"]["name"]: one["spec"]["providerID"].rpartition("/")[2]
                for one in lab.call(lambda lab: lab.client("test").list("nodes"))
            }
            machines = {one.name: one for one in fabric.machines()}
            assert {name: one.uuid for name, one in machines.items()} == nodes
            assert [machines[name].fabric for name in ("node0000", "node0001", "plain0000")] == ["3", "3", ""]
            assert fabric.stock(machines["node0001"], MODEL).free == 4
            assert fabric.limits(machines["node0000"], [MODEL]) == {A100: Limit(most=3, least=1)}
            order(lab)
            assert fabric.stock(machines["node0001"], MODEL).free == 3
        finally:
            fabric.close()
        assert lab.call(lambda lab: lab.manager and lab.manager.counts["token"]) == 1


def test_cdims_answers_name_the_free_devices(tmp_path: Path) -> None:
    with LiveLab(written("{api: nec, answer: 1ms}"), tmp_path) as lab:
        fabric = provider(lab)
        try:
            uuids = set(lab.call(lambda lab: [one.uuid for one in lab.fabric.machines()]))
            machines = fabric.machines()
            assert {one.uuid for one in machines} == uuids
            free = lab.call(lambda lab: [one.resource for one in lab.fabric.pool("3", A100)])
            stock = fabric.stock(machines[0], MODEL)
            assert stock.devices is not None
            assert sorted(one.id for one in stock.devices) == sorted(free)
            order(lab)
            fabric.machines()  # a round begins anew
            assert fabric.stock(machines[0], MODEL).free == 3
        finally:
            fabric.close()


@pytest.mark.parametrize("certificate", ["expired", "other_name", "unknown_authority"])
def test_a_manager_that_is_not_to_be_trusted_gets_no_credentials(certificate: str, tmp_path: Path) -> None:
    with LiveLab(written(f"{{certificate: {certificate}}}"), tmp_path) as lab:
        fabric = provider(lab)
        try:
            with pytest.raises(FabricError, match="certificate"):
                fabric.machines()
        finally:
            fabric.close()
        assert lab.call(lambda lab: lab.manager and len(lab.manager.seen)) == 0
