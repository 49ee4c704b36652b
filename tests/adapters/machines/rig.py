"""Worlds of all providers for one contract: what orders meet there, and what can be done to them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
import yaml

from dds_adapters import files
from dds_adapters.fabric import Outside
from dds_adapters.kubernetes.cluster import ANSWER_SECONDS, Answer, Cluster, Unreachable
from dds_adapters.machines import CdiSettings, InventorySettings, Machines, Scalable, open_machines
from dds_adapters.machines.clusterapi import ClusterApi as Provider
from dds_lab.actors.fabric import Fabric
from dds_lab.http_frontend import Served
from dds_lab.latency import Fixed
from dds_lab.manager import Manager, ManagerSettings, NodeGroup, Stock
from dds_lab.manager.frontend import write_credentials
from dds_lab.manager.transport import ManagerTransport
from dds_lab.scenario.trouble import FabricFault, ManagerFault
from dds_lab.time import MICROSECONDS, VirtualTime
from tests.support.cluster_api import NAMESPACE, ClusterApi

BIG = "big"


class OneGroup:
    """What the worlds below have in common."""

    group, scheme = BIG, "metal://"


class Wire:
    """A way to the API server on which things happen: `before` and `after` see each request."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.before: Callable[[str], None] = lambda method: None
        self.after: Callable[[str, Answer], Answer] = lambda method, answer: answer

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = ANSWER_SECONDS,
    ) -> Answer:
        self.before(method)
        answer = self._cluster.ask(method, path, query=query, body=body, content_type=content_type, timeout=timeout)
        return self.after(method, answer)


class CapiWorld(OneGroup):
    """A MachineDeployment (or MachineSet) "big" of one replica."""

    def __init__(self, lab: Served, folder: Path, kind: str = "MachineDeployment", version: str = "v1beta2") -> None:
        self.capi = ClusterApi(lab, version)
        self.capi.make(kind, BIG, 1)
        self.capi.settle()
        self.kubeconfig = lab.kubeconfig(folder / "kubeconfig")
        self.wire = Wire(Cluster(self.kubeconfig))
        self.groups = {BIG: Scalable.model_validate({"kind": kind, "namespace": NAMESPACE, "name": BIG})}

    def open(self) -> Machines:
        return Provider(self.groups, self.wire)

    def settle(self) -> None:
        self.capi.settle()

    def there(self) -> set[str]:
        return set(self.capi.machines())

    def scarce(self) -> None:
        self.capi.stock = len(self.there())

    def broken(self) -> None:
        self.capi.broken = 1

    @contextmanager
    def lost(self) -> Iterator[None]:
        def lose(method: str, answer: Answer) -> Answer:
            if method != "GET":
                raise Unreachable("does not answer")
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.wire, "after", lose)
            yield

    @contextmanager
    def away(self) -> Iterator[None]:
        def fail(method: str) -> None:
            raise Unreachable("does not answer")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.wire, "before", fail)
            yield

    @contextmanager
    def half(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                self.wire, "after", lambda _, answer: replace(answer, body=answer.body[: len(answer.body) // 2])
            )
            yield


class FileWorld(OneGroup):
    """Four servers in an inventory, of which one runs."""

    def __init__(self, folder: Path) -> None:
        self.settings = InventorySettings(
            kind="inventory", servers=folder / "servers.yaml", requests=folder / "requests.yaml"
        )
        self.settings.requests.write_text("{}")
        self.entries: list[dict[str, Any]] = [
            {"id": f"r{n}", "group": BIG, "state": "stopped" if n else "running", "providerID": f"metal://r{n}"}
            for n in range(12)
        ]
        self._fails = 0
        self._save()

    def _save(self) -> None:
        lines = "".join(f"  - {yaml.safe_dump(one, default_flow_style=True, width=1000)}" for one in self.entries)
        part = self.settings.servers.with_suffix(".new")
        part.write_text(f"servers:\n{lines}")
        os.replace(part, self.settings.servers)

    def open(self) -> Machines:
        return open_machines(self.settings)

    def settle(self) -> None:
        wanted = yaml.safe_load(self.settings.requests.read_text()).get("servers", {})
        for one in self.entries:
            asked = wanted.get(one["id"])
            if asked == "stopped":
                one |= {"state": "stopped"}
            elif asked == "running" and one["state"] == "stopped":
                failed = {"state": "failed", "code": "PowerError", "message": "no power"}
                one |= failed if self._fails else {"state": "running"}
                self._fails = 0
        self._save()

    def there(self) -> set[str]:
        return {one["id"] for one in self.entries if one["state"] != "stopped"}

    def scarce(self) -> None:
        self.entries = [one for one in self.entries if one["state"] != "stopped"]
        self._save()

    def broken(self) -> None:
        self._fails = 1

    @contextmanager
    def lost(self) -> Iterator[None]:
        def fail(_: str) -> None:
            raise OSError(5, "")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_sync_folder", fail)
            yield

    @contextmanager
    def away(self) -> Iterator[None]:
        aside = self.settings.servers.with_suffix(".aside")
        os.replace(self.settings.servers, aside)
        yield
        os.replace(aside, self.settings.servers)

    @contextmanager
    def half(self) -> Iterator[None]:
        whole = self.settings.servers.read_text()
        self.settings.servers.write_text(whole[: len(whole) // 2])
        yield
        self.settings.servers.write_text(whole)


class CdiWorld(OneGroup):
    """A simulated manager with a node group "big" of one server. Composing takes 100 s, taking apart 30 s. When none is left,
    a request is refused; with `late` it is accepted, and the server fails."""

    def __init__(self, folder: Path, *, late: bool = True) -> None:
        self.time = VirtualTime(7, 1_800_000_000 * MICROSECONDS)
        fabric = Fabric(self.time)
        fabric.connect("node0", "0")
        stock = Stock(BIG, 12, "0", Fixed(100.0), Fixed(30.0), late)
        self.manager = Manager(
            self.time, fabric, ManagerSettings("cm", groups=(NodeGroup(BIG, ("node0",)),), stocks=(stock,))
        )
        chosen = self.manager.settings
        write_credentials(folder / "credentials", chosen.login, None)
        self.settings = CdiSettings(
            kind="cdi",
            endpoint="https://manager.example",
            tenant=chosen.tenant,
            cluster=chosen.cluster,
            credentials=folder / "credentials",
            scheme="metal://",
            groups={BIG: BIG},
        )
        self.transport = ManagerTransport(self.manager, step=self.time.step, sleep=self.sleep)
        self._lock = threading.Lock()

    def open(self, transport: httpx.BaseTransport | None = None) -> Machines:
        outside = Outside(self.now, self.now, self.sleep, Random(1), transport or self.transport)
        return open_machines(self.settings, outside)

    def now(self) -> float:
        return self.time.now() / MICROSECONDS

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.time.run(self.time.now() + round(seconds * MICROSECONDS))

    def settle(self) -> None:
        self.sleep(300)

    def there(self) -> set[str]:
        composed = {one.uuid for one in self.manager.servers.of(BIG)}
        first = self.manager.fabric.machine("node0")
        return composed | ({first.uuid} if first is not None else set())

    def scarce(self) -> None:
        self.manager.servers.restock(BIG, -self.manager.servers.left(BIG))

    def broken(self) -> None:
        self.manager.servers.faults.add(FabricFault(kind="refuse", times=1))

    @contextmanager
    def _fault(self, fault: ManagerFault) -> Iterator[None]:
        self.manager.faults.add(fault)
        yield
        self.manager.faults.lift(fault)

    def lost(self) -> AbstractContextManager[None]:
        return self._fault(ManagerFault(kind="cut", calls=("resize_group",)))

    def half(self) -> AbstractContextManager[None]:
        return self._fault(ManagerFault(kind="odd", odd="truncated"))

    @contextmanager
    def away(self) -> Iterator[None]:
        self.manager.up = False
        yield
        self.manager.up = True
