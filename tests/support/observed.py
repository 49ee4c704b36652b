"""A lab with our scaler and our publisher, both with the metrics that the product shows, scraped on virtual time.

    with observing(scenario) as site:
        site.at(5, site.scaler.kill)
        site.lab.run(1200)
    site.series()

What is scraped is the text that `/metrics` would serve; a process that has ended answers no scrape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from dds_adapters.fabric.fabric_settings import Outside
from dds_adapters.fabric.provider import Provider
from dds_adapters.runtime.metrics import Calls, Metrics, PoolMetrics, Program
from dds_adapters.runtime.operation import sources_of
from dds_core.log import MemoryLog
from dds_core.scaler.component import SCALER as SCALER_COMPONENT
from dds_core.scaler.policy import Policy
from dds_lab.api.requests import Request, Response
from dds_lab.api.watches import Stream
from dds_lab.check.subjects import CLUSTER
from dds_lab.driver import SCALER_USER, OurProcess, OurPublisher, OurScaler, Pace, by_manager
from dds_lab.lab import Lab
from dds_lab.manager import Manager, ManagerSettings
from dds_lab.scenario import Scenario
from dds_lab.setup import install_guard
from tests.support.exits import Watched
from tests.support.publishing import PUBLISH, SCALER, settings_of

EVERY = 60.0
"""Seconds between scrapes."""
PACE = Pace(interval=20.0)
Series = dict[str, str]
"""By series all values in promtool's words: `_` where there is none, `stale` where one ends."""
SIGN = 10.0
"""Seconds between signs of life of a watch that is quiet."""


class Target:
    """An address that is scraped, whichever process answers there."""

    def __init__(self, job: str) -> None:
        self.ours: OurProcess[Any] | None = None
        self.registry = CollectorRegistry()
        self.look: Callable[[], None] = lambda: None
        self.scrapes: list[dict[str, str]] = []
        self._own = f'instance="{job}-0",job="{job}",namespace="composable-dra"'

    def taken_by(self, ours: OurProcess[Any], lease: str) -> CollectorRegistry:
        """Another process answers from now on, with counters of its own."""
        self.ours, self.registry = ours, CollectorRegistry()
        program = Program(self.registry)
        program.leads(lease, lambda: ours.leads() > 0)
        carry = ours.requests.carry

        def carried(request: Request) -> Response | Stream:
            response = carry(request)
            program.asked(request.method, response.code if isinstance(response, Response) else 200, 0.004)
            return response

        ours.requests.carry = carried
        return self.registry

    def scrape(self) -> None:
        """One more row: the value by series, none where nobody answers."""
        row: dict[str, str] = {}
        if self.ours is not None and self.ours.alive:
            self.look()
            for line in generate_latest(self.registry).decode().splitlines():
                if found := re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line):
                    row[f"{found[1]}{{{','.join(filter(None, (found[2], self._own)))}}}"] = found[3]
        self.scrapes.append(row)

    def series(self) -> Series:
        """Everything that was scraped here."""
        names = dict.fromkeys(name for row in self.scrapes for name in row)
        return {name: " ".join(_values(row.get(name, "") for row in self.scrapes)) for name in names}


def _values(found: Iterator[str]) -> Iterator[str]:
    before = ""
    for value in found:
        yield value or ("stale" if before else "_")
        before = value


class Site:
    """Scaler and publisher side by side, each on its log and at its address."""

    scaler: OurScaler
    publisher: OurPublisher

    def __init__(self, lab: Lab, folder: Path, policy: Policy) -> None:
        self.lab = lab
        self.manager = Manager(lab.time, lab.fabric, ManagerSettings())
        self.log = Watched(MemoryLog("lab/scaler", cluster=CLUSTER, recorded_at=lab.scenario.start))
        self.ends = ExitStack()
        """What is undone in the end."""
        self.targets = {one: Target(one) for one in ("dds", "dds-publisher")}
        self._pool_log = MemoryLog("lab/publisher", cluster=CLUSTER, recorded_at=lab.scenario.start)
        self._policy = policy
        self._settings = settings_of(self.manager.settings, folder, str(lab.scenario.cluster.fabrics[0].id))
        install_guard(lab.client("installer"), SCALER_USER)
        self._again(EVERY, self.scrape)
        self._again(SIGN, self._signs)

    def at(self, minute: float, what: Callable[[], object]) -> None:
        """Something that happens in this minute of the run."""
        self.lab.time.after(minute * 60.0, lambda: _void(what()))

    def start_scaler(self, **more: Any) -> None:
        """Another scaler on its log."""
        listeners: list[Metrics] = []
        target = self.targets["dds"]
        ours = self.scaler = OurScaler(self.lab, self.log, self._policy, listeners=listeners, **more)
        registry = target.taken_by(ours, "dds-scaler")
        sources = sources_of(_process(ours))
        metrics = Metrics(registry, version="lab", fingerprint=SCALER_COMPONENT.fingerprint, sources=sources)
        listeners.append(metrics)
        scaler = ours.scaler
        target.look = lambda: metrics.look(scaler.state)
        ours.start()

    def start_publisher(self) -> None:
        """Another publisher on its log."""
        listeners: list[PoolMetrics] = []
        calls: list[Calls] = []
        way = by_manager(self.manager, self._settings)

        def reach(outside: Outside) -> Provider:
            return way(replace(outside, observe=lambda *told: calls[0].observe(*told)))

        target = self.targets["dds-publisher"]
        ours = self.publisher = OurPublisher(self.lab, self._pool_log, PUBLISH, reach, pace=PACE, listeners=listeners)
        registry = target.taken_by(ours, "dds-publisher")
        calls.append(Calls(registry))
        publisher = ours.publisher
        metrics = PoolMetrics(
            registry,
            version="lab",
            sources=sources_of(_process(ours)),
            ages=publisher.ages,
        )
        listeners.append(metrics)
        target.look = lambda: metrics.look(publisher.state)
        ours.start()

    def scrape(self) -> None:
        """Ask at both addresses, as is done every so many seconds."""
        for one in self.targets.values():
            one.scrape()

    def _signs(self) -> None:
        """An API server's bookmarks: a watch that stands shows that it does."""
        for ours in (self.scaler, self.publisher):
            for resource, followed in ours._followed.items():
                if followed._mirror is not None:
                    ours.arrivals.heard(resource, 60.0)

    def _again(self, seconds: float, what: Callable[[], object]) -> None:
        def due() -> None:
            what()
            self.lab.time.after(seconds, due)

        self.lab.time.after(seconds, due)

    def series(self) -> Series:
        """Everything that was scraped."""
        return {name: values for one in self.targets.values() for name, values in one.series().items()}


def _process(ours: OurProcess[Any]) -> Any:
    """What metrics read of a process."""
    clock = SimpleNamespace(now=ours._now)
    return SimpleNamespace(arrivals=ours.arrivals, writer=ours.outbox, controller=ours.controller, clock=clock)


def _void(_: object) -> None: ...


@contextmanager
def observing(
    scenario: Scenario, policy: Policy = SCALER, *, prepare: Callable[[Site], object] = lambda site: None, **more: Any
) -> Iterator[Site]:
    """A site in which both have begun; `prepare` is called before, `more` goes to the first scaler."""
    with Lab.virtual(scenario) as lab, TemporaryDirectory() as folder:
        site = Site(lab, Path(folder), policy)
        site.start_scaler(**more)
        site.start_publisher()
        site.scrape()
        prepare(site)
        try:
            yield site
        finally:
            site.scaler.kill()
            site.publisher.kill()
            site.ends.close()
