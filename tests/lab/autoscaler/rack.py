"""Servers on virtual time: who makes them, the Nodes that they become, and a loop that asks for them as Cluster Autoscaler does
when it wants so many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dds_adapters.autoscaler.provider import Away, Provider
from dds_adapters.fabric.provider import FabricUnreachable
from dds_adapters.machines.provider import id_of, parts_of
from dds_core.autoscaler.model import Group, NodeRef
from dds_core.autoscaler.policy import AutoscalePolicy, read_autoscale_policy
from dds_core.autoscaler.records import DELETED_BY_CA, STARTING, Server
from dds_lab.api.status import ApiError
from dds_lab.client import Client
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario, parse

CAPACITY = {"cpu": "16", "memory": "64Gi", "pods": "110"}
LABELS = {"pool": "yes"}
GROUP = "big"


def policy(**more: Any) -> AutoscalePolicy:
    template = {"capacity": CAPACITY, "labels": LABELS}
    return read_autoscale_policy(
        {"mode": "autoscale", "groups": [{"name": GROUP, "maximum": 6, "template": template}], **more}
    )


def empty() -> Scenario:
    return parse("cluster: {nodes: []}\nparts: {scaler: false, publisher: false}\nsteps: []", "test")


def provider_id(name: str) -> str:
    return f"metal://{name}"


class Rack:
    """A provider of machines. `made` counts the servers that each order ever got; `lost` are answers that never come, by the
    number of the call."""

    def __init__(self, lab: Lab, there: Sequence[str], *, seconds: float = 30.0) -> None:
        self.lab = lab
        self.made: Counter[str] = Counter()
        self.before: Callable[[], None] = _nothing
        self.after: Callable[[], None] = _nothing
        self._seconds = seconds
        self._client = lab.client("rack")
        self._servers: dict[str, Server] = {}
        self._past: set[str] = set()
        self._given_back: set[str] = set()
        for name in there:
            self._servers[name] = Server(id_of(GROUP, name), GROUP, "", provider_id(name), "running")
            register(self._client, name)

    @property
    def names(self) -> list[str]:
        """The servers that are there, or on their way to be or to go."""
        return sorted(self._servers)

    def servers(self) -> Sequence[Server]:
        return tuple(self._servers.values())

    def compose(self, order: str, group: str) -> None:
        self.before()
        if order not in self._past:
            self._past.add(order)
            name = f"srv-{len(self._past)}"
            self.made[order] += 1
            self._servers[name] = Server(id_of(group, name), group, order, provider_id(name), "creating")
            self.lab.time.after(self._seconds, partial(self._is_on, name))
        self.after()

    def decompose(self, server: str) -> None:
        self.before()
        group, name, order = parts_of(server)
        if order:
            name = next((known for known, one in self._servers.items() if one.order == order), "")
        one = self._servers.get(name)
        if one is not None and one.state != "deleting":
            self._servers[name] = Server(one.uid, group, one.order, one.provider_id, "deleting")
            self.lab.time.after(self._seconds / 2, partial(self._is_off, name))
        self.after()

    def close(self) -> None: ...

    def _is_on(self, name: str) -> None:
        one = self._servers.get(name)
        if one is not None and one.state == "creating":
            self._servers[name] = Server(one.uid, one.group, one.order, one.provider_id, "running")
            register(self._client, name, STARTING.key)

    def _is_off(self, name: str) -> None:
        self._servers.pop(name, None)


def _nothing() -> None: ...


def register(client: Client, name: str, *taints: str) -> None:
    """What a kubelet does as its server starts."""
    spec = {"providerID": provider_id(name), "taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    client.create("nodes", {"metadata": {"name": name, "labels": LABELS}, "spec": spec})
    status = {"allocatable": CAPACITY, "conditions": [{"type": "Ready", "status": "True"}]}
    client.patch("nodes", name, {"status": status}, subresource="status")


class Wanting:
    """Every ten seconds a loop: a refresh, then growth or removals until the target is what is `wanted`, and failed instances are
    given up. `wrong` is what a view showed that cannot be."""

    def __init__(self, lab: Lab, provider: Callable[[], Provider], wanted: int) -> None:
        self.wanted = wanted
        self.wrong: list[str] = []
        self.refused: list[str] = []
        self._lab = lab
        self._provider = provider
        self._client = lab.client("cluster-autoscaler")
        lab.time.after(1.0, self._loop)

    def _loop(self) -> None:
        self._lab.time.after(10.0, self._loop)
        provider = self._provider()
        try:
            provider.refresh()
            group = provider.view().group(GROUP)
            if group is None:
                return
            self._check(group)
            failed = [NodeRef(one.id, one.id) for one in group.instances if one.code]
            if failed:
                provider.delete(GROUP, failed)
            elif group.target < self.wanted:
                provider.increase(GROUP, self.wanted - group.target)
            elif group.target > self.wanted:
                self._remove(provider, group)
        except Away:
            return

    def _check(self, group: Group) -> None:
        counted = sum(one.state in ("running", "creating") and not one.code for one in group.instances)
        counted += sum(bool(one.code) and one.state == "creating" for one in group.instances)
        if counted != group.target:
            self.wrong.append(f"a target of {group.target}, and {counted} instances: {group.instances}")

    def _remove(self, provider: Provider, group: Group) -> None:
        """The last node by name: tainted, then removed."""
        nodes = {one["spec"].get("providerID"): one for one in self._client.list("nodes")}
        running = [nodes[one.id] for one in group.instances if one.state == "running" and one.id in nodes]
        victim = max(running, key=lambda one: one["metadata"]["name"], default=None)
        if victim is None:
            return
        name = victim["metadata"]["name"]
        taint = [{"key": DELETED_BY_CA, "effect": "NoSchedule"}]
        try:
            self._client.patch("nodes", name, {"spec": {"taints": taint}})
        except ApiError:
            return
        provider.delete(GROUP, [NodeRef(name, victim["spec"]["providerID"])])


def unreachable() -> None:
    """A call whose answer is lost."""
    raise FabricUnreachable("no answer came", where="the rack", fix="it is asked again")
