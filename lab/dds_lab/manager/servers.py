"""Servers that the cluster manager composes from a stock and decomposes again, with latencies.

A composed server is a machine of the fabric as soon as it is on. `on_change` reports that, so that its Node can be registered.
Faults are those of the fabric: `attach` means composing, `detach` decomposing; a fault's `nodes` are names of servers and its
`models` node groups. `refuse` fails with the fault's words, `hang` never ends.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from dds_lab.actors.fabric import Fabric, Machine
from dds_lab.actors.faults import HardwareFaults
from dds_lab.latency import Latency, Uniform
from dds_lab.time import Time

NO_STOCK = "E020507"
"""Error code of a composition when the stock is empty."""

Status = Literal["ACTIVE", "ADD_IN_PROGRESS", "ADD_FAILED", "REMOVE_IN_PROGRESS", "REMOVE_FAILED"]


@dataclass(frozen=True)
class Stock:
    """Servers that can be composed for a node group, cabled to a fabric; latencies in seconds. `late`: with an empty stock a
    request is accepted, and its composition fails later."""

    group: str
    count: int
    fabric: str = ""
    compose: Latency = field(default=Uniform(60.0, 180.0))
    decompose: Latency = field(default=Uniform(20.0, 40.0))
    late: bool = False


@dataclass(slots=True)
class Composed:
    """A server of a node group; its node has the same name. `held`: it was taken from the stock."""

    uuid: str
    name: str
    group: str
    status: Status
    reason: str = ""
    held: bool = True


OnChange = Callable[[Composed, bool], None]
"""Called with a server and whether it is on."""


class NoStock(Exception):
    """The group's stock is empty."""


class Servers:
    """All servers that were composed or are being decomposed. `composed`: number of started compositions by name."""

    def __init__(self, time: Time, fabric: Fabric, stocks: tuple[Stock, ...]) -> None:
        self.faults = HardwareFaults(time, "manager/servers/faults")
        self.composed: Counter[str] = Counter()
        self._time = time
        self._fabric = fabric
        self._random: Random = time.random("manager/servers")
        self._stocks = {one.group: one for one in stocks}
        self._left = {one.group: one.count for one in stocks}
        self._there: dict[str, Composed] = {}
        self._listeners: list[OnChange] = []

    def on_change(self, call: OnChange) -> None:
        self._listeners.append(call)

    def groups(self) -> tuple[str, ...]:
        return tuple(self._stocks)

    def of(self, group: str) -> tuple[Composed, ...]:
        return tuple(one for one in self._there.values() if one.group == group)

    def find(self, uuid: str) -> Composed | None:
        return self._there.get(uuid)

    def left(self, group: str) -> int:
        return self._left.get(group, 0)

    def restock(self, group: str, by: int = 1) -> None:
        self._left[group] += by

    def was_named(self, name: str) -> bool:
        """Whether a machine has or had this name."""
        return self._fabric.machine(name) is not None or name in self.composed

    def compose(self, group: str, name: str) -> None:
        """Start to compose a server. Raises NoStock if the stock is empty, unless it is `late`."""
        stock = self._stocks.get(group)
        held = self.left(group) > 0
        if stock is None or not (held or stock.late):
            raise NoStock
        made = Composed(str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), name, group, "ADD_IN_PROGRESS", held=held)
        self._there[made.uuid] = made
        self.composed[name] += 1
        self._left[group] -= held
        fault = self.faults.take("attach", name, group)
        if fault is not None and fault.kind == "hang":
            return
        trouble = fault.words if fault is not None else "" if held else f"{NO_STOCK} no server of group {group} is left"

        def done() -> None:
            if made.status != "ADD_IN_PROGRESS":
                return  # it is being decomposed
            if trouble:
                made.status, made.reason = "ADD_FAILED", trouble
                self._release(made)
                return
            made.status = "ACTIVE"
            self._fabric.connect(name, stock.fabric)
            self._report(made, True)

        self._time.after(stock.compose.draw(self._random), done)

    def remove(self, machine: Machine, group: str) -> None:
        """Start to decompose a machine, also one that existed from the start."""
        found = self._there.setdefault(machine.uuid, Composed(machine.uuid, machine.node, group, "ACTIVE"))
        if found.status == "REMOVE_IN_PROGRESS":
            return
        found.status, found.reason = "REMOVE_IN_PROGRESS", ""
        fault = self.faults.take("detach", found.name, group)
        if fault is not None and fault.kind == "hang":
            return

        def done() -> None:
            if fault is not None:
                found.status, found.reason = "REMOVE_FAILED", fault.words
                return
            del self._there[found.uuid]
            self._release(found)
            was_on = self._fabric.machine(found.name) is not None
            self._fabric.disconnect(found.name)
            if was_on:
                self._report(found, False)

        stock = self._stocks.get(group)
        self._time.after(stock.decompose.draw(self._random) if stock is not None else 0.0, done)

    def _release(self, server: Composed) -> None:
        if server.held and server.group in self._left:
            self._left[server.group] += 1
        server.held = False

    def _report(self, server: Composed, on: bool) -> None:
        for call in self._listeners:
            call(server, on)
