"""Allocations that the scheduler writes late in the windows that a scenario plans, and faults at random instants (`Chaos`).

They use only operations that actors and hardware offer, and change no object directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from dds_lab.actors.fabric import Fabric
from dds_lab.actors.workloads import Workloads
from dds_lab.client import Client, tolerating
from dds_lab.scenario import trouble as written
from dds_lab.scenario.parts import PartName
from dds_lab.time import MICROSECONDS, Time, Timers


class Stalled:
    """A latency for the scheduler: the time before an allocation is written. It is 0 unless a window is open."""

    def __init__(self, time: Time, windows: Sequence[written.Stalled]) -> None:
        self._time = time
        self._began = time.now()
        self._windows = [(one, one.times or None) for one in windows]

    def draw(self, random: Random) -> float:
        passed = (self._time.now() - self._began) / MICROSECONDS
        for place, (one, left) in enumerate(self._windows):
            if left != 0 and one.since <= passed and (one.until is None or passed < one.until):
                self._windows[place] = (one, None if left is None else left - 1)
                return one.takes
        return 0.0


class World(Protocol):
    """The operations of a lab that steps and chaos use."""

    time: Time
    fabric: Fabric
    workloads: Workloads

    def client(self, user: str) -> Client: ...

    def restart(self, part: PartName, down: float = 0.0, node: str = "") -> None: ...

    def relist(self, part: PartName, blind: float = 0.0) -> None: ...

    def restart_plugin(self, node: str) -> None: ...

    def partition(self, node: str, serial: str, profiles: tuple[str, ...]) -> None: ...

    def lose_node(self, node: str) -> None: ...

    def silence(self, node: str, lasts: float | None = None) -> None: ...


class Chaos:
    """Causes faults at random instants; the scenario has the mean interval for each kind."""

    def __init__(self, world: World, wanted: written.Chaos) -> None:
        self._world = world
        self._wanted = wanted
        self._timers = Timers(world.time)  # by kind
        self._drained = Timers(world.time)  # by node: uncordons it
        self._blows: dict[str, Callable[[Random], None]] = {
            "restart_scheduler": lambda random: world.restart("scheduler"),
            "restart_operator": lambda random: world.restart("operator"),
            "restart_vendor": self._at_a_node(lambda node: world.restart("vendor", node=node)),
            "lose_node": self._at_a_node(world.lose_node),
            "drop_out": self._drop_out,
            "drain": self._at_a_node(self._drain),
            "shrink": self._shrink,
        }

    def start(self) -> None:
        for kind in self._blows:
            mean = getattr(self._wanted, kind)
            if mean is not None:
                self._wait(kind, mean, self._world.time.random(f"chaos/{kind}"))

    def stop(self) -> None:
        self._timers.clear()
        self._drained.clear()

    def _wait(self, kind: str, mean: float, random: Random) -> None:
        seconds = random.expovariate(1.0 / mean)
        self._timers.after(kind, seconds, lambda: self._strike(kind, mean, random))

    def _strike(self, kind: str, mean: float, random: Random) -> None:
        self._blows[kind](random)
        self._wait(kind, mean, random)

    def _drain(self, node: str) -> None:
        self._world.workloads.drain(node)
        self._drained.after(node, self._wanted.drained_for, lambda: self._uncordon(node))

    def _uncordon(self, node: str) -> None:
        with tolerating(404):  # the node may be lost meanwhile
            self._world.workloads.cordon(node, on=False)

    def _drop_out(self, random: Random) -> None:
        attached = [
            one.device.serial
            for machine in self._world.fabric.machines()
            for one in self._world.fabric.attached(machine.node)
            if not one.fixed
        ]
        if attached:
            self._world.fabric.drop(random.choice(attached))

    def _shrink(self, random: Random) -> None:
        fabric = self._world.fabric
        pools = [pool for pool in fabric.pools() if fabric.free(*pool)]
        if pools:
            fabric.resize(*random.choice(pools), by=-1)

    def _at_a_node(self, blow: Callable[[str], None]) -> Callable[[Random], None]:
        """A fault that hits a random node."""

        def strike(random: Random) -> None:
            nodes = self._world.client("chaos").list("nodes")
            if nodes:
                blow(random.choice(nodes)["metadata"]["name"])

        return strike
