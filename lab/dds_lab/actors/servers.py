"""Servers that can be powered on: the lab's provider of machines, and the Nodes of these servers.

An ordered server takes its time, or fails. Then its machine is cabled to the fabric and its kubelet registers a Node with the
start-up taint. A removed server is off after a while; its Node stays until another component deletes it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from msgspec.structs import replace

from dds_adapters.machines.provider import id_of, id_of_order, parts_of
from dds_core.autoscaler.records import STARTING, Server
from dds_lab.actors.fabric import Fabric
from dds_lab.actors.objects import ready_condition
from dds_lab.client import ApiError, Client, instants
from dds_lab.latency import Latency, Uniform
from dds_lab.time import Time

SCHEME = "fsas-cdi://"
RETRY = 1.0


@dataclass(frozen=True)
class ServersSettings:
    """The servers of one group. `stock`: how many can be ordered at a time. `fails`: the share of orders that fail. `on`, `off`:
    the seconds that it takes to power one on and off."""

    group: str
    stock: int
    fabric: str = "1"
    labels: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, str] = field(default_factory=dict)
    on: Latency = field(default=Uniform(40.0, 90.0))
    off: Latency = field(default=Uniform(10.0, 20.0))
    fails: float = 0.0


Gone = Callable[[str], None]  # called with the name of a server before it is switched off


class Servers:
    """The provider (`dds_adapters.machines.provider.Machines`) and its kubelets. `made`: the number of servers per order."""

    def __init__(self, client: Client, time: Time, fabric: Fabric, settings: ServersSettings) -> None:
        self.made: Counter[str] = Counter()
        self.leaving: list[Gone] = []
        self._client = client
        self._time = time
        self._fabric = fabric
        self._settings = settings
        self._random: Random = time.random("servers")
        self._there: dict[str, Server] = {}
        self._past: set[str] = set()

    def adopt(self, node: str, provider_id: str) -> None:
        """Add a node that exists from the start to the group's servers."""
        self._there[node] = Server(id_of(self._settings.group, node), self._settings.group, "", provider_id, "running")

    def servers(self) -> Sequence[Server]:
        return tuple(self._there.values())

    def compose(self, order: str, group: str) -> None:
        if order in self._past:
            return
        self._past.add(order)
        name = f"{group}-{len(self._past):03d}"
        busy = sum(one.order != "" and one.state != "failed" for one in self._there.values())
        if busy >= self._settings.stock:
            self._there[name] = Server(
                id_of_order(group, order), group, order, "", "failed", "NoServer", "none is left", out_of_resources=True
            )
            return
        self.made[order] += 1
        provider_id = f"{SCHEME}{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"
        self._there[name] = Server(id_of(group, name), group, order, provider_id, "creating")
        done = self._fail if self._random.random() < self._settings.fails else self._join
        self._time.after(self._settings.on.draw(self._random), partial(done, name))

    def decompose(self, server: str) -> None:
        _, name, order = parts_of(server)
        if order:
            name = next((known for known, one in self._there.items() if one.order == order), "")
        one = self._there.get(name)
        if one is None or one.state == "deleting":
            return
        if one.state == "failed":
            self._off(name)
            return
        for call in self.leaving:
            call(name)
        self._there[name] = replace(one, state="deleting")
        self._time.after(self._settings.off.draw(self._random), partial(self._off, name))

    def close(self) -> None: ...

    def _fail(self, name: str) -> None:
        one = self._there.get(name)
        if one is not None and one.state == "creating":
            self._there[name] = replace(one, state="failed", code="PowerError", message="no answer of the BMC")

    def _join(self, name: str) -> None:
        one = self._there.get(name)
        if one is None or one.state != "creating":
            return
        settings = self._settings
        ready = ready_condition(
            "True", "KubeletReady", "kubelet is posting ready status", instants.written(self._time.now())
        )
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **settings.labels}},
            "spec": {
                "providerID": one.provider_id,
                "taints": [{"key": STARTING.key, "effect": STARTING.effect}],
            },
            "status": {"capacity": {**settings.amounts}, "allocatable": {**settings.amounts}, "conditions": [ready]},
        }
        try:
            self._client.create("nodes", made)
        except ApiError:
            self._time.after(RETRY, partial(self._join, name))
            return
        self._fabric.connect(name, settings.fabric)
        self._there[name] = replace(one, state="running")

    def _off(self, name: str) -> None:
        self._there.pop(name, None)
        self._fabric.disconnect(name)
