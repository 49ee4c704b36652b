"""Every fabric of ours keeps to the contract, those with a manager over real HTTP(S)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from dds_adapters.fabric import FabricSettings, Outside, Provider, open_provider
from dds_core.publisher.model import PoolModel
from dds_lab.actors.fabric import Fabric
from dds_lab.contracts.fabrics import TROUBLES, FabricContract, World
from dds_lab.manager import Manager, ManagerSettings
from dds_lab.manager.frontend import write_credentials
from dds_lab.manager.transport import ManagerTransport
from dds_lab.scenario.parts import Fabrics
from dds_lab.scenario.trouble import ManagerFault
from dds_lab.scenario.values import fixed
from dds_lab.time import MICROSECONDS, VirtualTime
from tests.adapters.fabric.rig import A100
from tests.adapters.fabric.spoiling import Served
from tests.support.certificates import Authority

INVENTORY = """
machines: [{{node: w-1, fabric: "0"}}, {{node: w-2, fabric: "0"}}]
fabrics: {{"0": {{"{model}": {free}}}}}
"""


class Managed:
    """A simulated manager. Half an answer is waited for in real seconds, all else passes in the lab's time."""

    model: PoolModel = A100
    troubles: Collection[str] = TROUBLES

    def __init__(self, folder: Path, api: str) -> None:
        self.time = VirtualTime(7, 1_800_000_000 * MICROSECONDS)
        self._lock = threading.Lock()
        self._opened: list[Provider] = []
        self.fabric = Fabric(self.time, {("0", A100.model): 5}, Fabrics(attach=fixed(2.0), detach=fixed(1.0)))
        for node in ("w-1", "w-2"):
            self.fabric.connect(node, "0")
        self.manager = Manager(self.time, self.fabric, ManagerSettings(api=api))  # type: ignore[arg-type]
        chosen, authority = self.manager.settings, Authority.made()
        write_credentials(folder / "credentials", chosen.login, authority.pem.encode())
        transport = ManagerTransport(self.manager, step=self.time.step, sleep=self.sleep)
        self.served = Served(transport, authority.server(folder) if api != "nec" else None)
        self.settings = FabricSettings(
            api,
            self.served.url,
            chosen.tenant,
            chosen.cluster,
            folder / "credentials",
            fm_seconds=1.0,
            cm_seconds=1.0,
            nec_seconds=1.0,
        )
        self.secrets: Sequence[str] = (chosen.login.password, chosen.login.client_secret)

    def open(self) -> Provider:
        self._opened.append(open_provider(self.settings, Outside(self.now, self.now, self.sleep, Random(1))))
        return self._opened[-1]

    def now(self) -> float:
        return self.time.now() / MICROSECONDS

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.time.run(self.time.now() + round(seconds * MICROSECONDS))

    def take(self) -> None:
        self.fabric.attach("w-1", A100.model, lambda answer: None)
        self.sleep(10)

    @contextmanager
    def away(self) -> Iterator[None]:
        self.manager.up = False
        yield
        self.manager.up = True

    @contextmanager
    def half(self) -> Iterator[None]:
        fault = ManagerFault(kind="odd", odd="truncated")
        self.manager.faults.add(fault)
        yield
        self.manager.faults.lift(fault)

    @contextmanager
    def spoilt(self, how: str) -> Iterator[None]:
        self.served.how = how
        if how == "expired":
            self.manager.faults.add(ManagerFault(kind="expired", times=1))
        yield
        self.served.how = ""
        self.sleep(10)

    def close(self) -> None:
        for one in self._opened:
            one.close()
        self.served.close()


class InFile:
    """An inventory."""

    model: PoolModel = A100
    troubles: Collection[str] = ("entries",)
    secrets: Sequence[str] = ()

    def __init__(self, folder: Path) -> None:
        self._place = folder / "inventory.yaml"
        self._write(5)

    def _write(self, free: int) -> None:
        new = self._place.with_suffix(".new")
        new.write_text(INVENTORY.format(model=A100.model, free=free))
        new.replace(self._place)

    def open(self) -> Provider:
        return open_provider(FabricSettings("file", inventory=self._place))

    def take(self) -> None:
        self._write(4)

    @contextmanager
    def away(self) -> Iterator[None]:
        aside = self._place.with_suffix(".aside")
        self._place.replace(aside)
        yield
        aside.replace(self._place)

    @contextmanager
    def half(self) -> Iterator[None]:
        whole = self._place.read_text()
        self._place.write_text(whole[: len(whole) // 2])
        yield
        self._place.write_text(whole)

    @contextmanager
    def spoilt(self, how: str) -> Iterator[None]:
        whole = self._place.read_text()
        self._place.write_text(whole.replace("machines: [", "machines: [{node: 5}, "))
        yield
        self._place.write_text(whole)

    def close(self) -> None:
        """Nothing is open."""


class TestFabrics(FabricContract):
    @pytest.fixture(params=["fm", "cm", "nec", "file"])
    def world(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
        world = InFile(tmp_path) if request.param == "file" else Managed(tmp_path, request.param)
        yield world
        world.close()
