"""Every provider of machines of ours keeps to the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dds_lab.contracts.machines import MachinesContract, World
from tests.adapters.machines.rig import CapiWorld, CdiWorld, FileWorld
from tests.support.served import served


class TestMachines(MachinesContract):
    @pytest.fixture(params=["cdi", "cluster-api", "inventory"])
    def world(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
        if request.param != "cluster-api":
            yield {"cdi": CdiWorld, "inventory": FileWorld}[request.param](tmp_path)
            return
        with served() as lab:
            yield CapiWorld(lab, tmp_path)
