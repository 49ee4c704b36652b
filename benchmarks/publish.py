"""The publisher on a large inventory: how long it takes to publish 64 fabrics of 8 models with 128 devices each, what it writes
then while nothing changes, and what one count costs that changes by one.

Everything is real but time and sockets: the publisher decides, logs into SQLite and writes to the lab's API server; it asks the
simulated manager by the client that real ones are asked with, token and all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Row
from dds_adapters.fabric.fabric_settings import FabricSettings
from dds_adapters.sql import Database, upgrade
from dds_core.log import EventLog
from dds_core.publisher.policy import PublishPolicy
from dds_lab.api.kinds import Object
from dds_lab.api.requests import Call
from dds_lab.driver import PUBLISHER_USER, OurPublisher, Pace, by_manager
from dds_lab.lab import Lab
from dds_lab.manager import Manager, ManagerSettings
from dds_lab.scenario.reading import parse

FABRICS, MODELS, DEVICES, NODES = 64, 8, 128, 256
TARGET = 30.0
IDLE = 300.0
INTERVAL = 60.0
"""Seconds between rounds while nothing changes; each of them asks 512 questions."""


@dataclass
class Writes:
    """What the publisher wrote, by verb and object."""

    all: list[tuple[str, str]]

    def see(self, call: Call, old: Object | None, new: Object | None) -> None:
        if (
            call.user.name == PUBLISHER_USER
            and not call.writing.dry_run
            and call.resource.plural in ("resourceslices", "nodes")
        ):
            self.all.append((call.verb, ((new or old or {}).get("metadata") or {}).get("name", call.name)))


def scenario() -> str:
    """The cluster as a scenario, with nobody in it but the API server."""
    models = [f"  - {{model: M{n}, device: model-{n}, product: P{n}}}" for n in range(MODELS)]
    devices = ", ".join(f"M{n}: {DEVICES}" for n in range(MODELS))
    fabrics = [f"  - {{id: {n}, devices: {{{devices}}}}}" for n in range(FABRICS)]
    each = NODES // FABRICS
    nodes = [f"  - {{first: {n * each}, count: {each}, fabric: {n}}}" for n in range(FABRICS)]
    parts = ", ".join(f"{part}: false" for part in ("publisher", "scaler", "operator", "scheduler", "vendor", "claims"))
    lines = [
        "cluster:", "  models:", *_deeper(models), "  fabrics:", *_deeper(fabrics), "  nodes:", *_deeper(nodes),
        f"parts: {{{parts}}}",
    ]  # fmt: skip
    return "\n".join(lines)


def _deeper(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


@dataclass
class Stage:
    """A lab, its manager, our publisher in it, and what that has written."""

    lab: Lab
    manager: Manager
    ours: OurPublisher
    writes: Writes

    def until(self, what: Callable[[], bool], step: float = 0.25) -> float:
        """Let time pass until something is so; gives the seconds of a clock on the wall that it took."""
        began = time.perf_counter()
        while not what():
            self.lab.run(step)
        return time.perf_counter() - began

    @property
    def shown(self) -> int:
        """Pools of which the publisher has seen that the cluster shows them."""
        return sum(row.settled for row in self.ours.publisher.state.pools.rows.values())


@contextmanager
def stage(folder: Path, log: EventLog, interval: float = INTERVAL) -> Iterator[Stage]:
    """Everything is there, and the publisher has just begun."""
    for name in ("username", "password", "realm", "client_id", "client_secret"):
        (folder / name).write_text(getattr(ManagerSettings().login, name), encoding="utf-8")
    with Lab.virtual(parse(scenario(), "a benchmark", "publish")) as lab:
        manager = Manager(lab.time, lab.fabric)
        settings = FabricSettings("fm", "https://manager.lab", manager.settings.tenant, credentials=folder)
        writes = Writes([])
        lab.server.admission.append(writes.see)
        policy = PublishPolicy(mode="publish")
        ours = OurPublisher(lab, log, policy, by_manager(manager, settings), pace=Pace(interval=interval))
        ours.start()
        yield Stage(lab, manager, ours, writes)
        ours.kill()


def measure(folder: Path) -> list[Row]:
    """Once: it is minutes of a small machine."""
    url = f"sqlite:///{folder}/log.sqlite3"
    upgrade(url)
    with (
        Database(url) as database,
        stage(folder, database.open_log("lab/publisher", cluster="lab", recorded_at=1)) as on,
    ):
        core = on.until(lambda: on.shown == FABRICS * MODELS)
        wire = (on.lab.time.now() - on.lab.scenario.start) / 1e6
        first, events = len(on.writes.all), on.ours.publisher.position
        questions = sum(on.manager.counts.values())
        began = time.perf_counter()
        on.lab.run(IDLE)
        idle, rest = time.perf_counter() - began, len(on.writes.all) - first
        said = on.ours.publisher.position - events
        asked = sum(on.manager.counts.values()) - questions
        on.lab.fabric.resize("17", "M3", -1)
        on.lab.run(INTERVAL + 5)
        one = len(on.writes.all) - first - rest
    return [
        Row(
            "from the start until every pool is published and seen",
            f"{core + wire:.1f} s",
            f"{core:.1f} s of a core, {wire:.1f} s on the wire: {first} writes, {questions} questions, {events} events",
            target=f"≤ {TARGET:g} s",
            met=core + wire <= TARGET,
        ),
        Row(
            f"{IDLE:g} s in which nothing changes",
            f"{rest} writes",
            f"{asked} questions, {said} events, {idle:.1f} s of a core, the manager's part included",
            target="0 writes",
            met=rest == 0,
        ),
        Row("one count changes by one", f"{one} write", target="1 write", met=one == 1),
    ]
