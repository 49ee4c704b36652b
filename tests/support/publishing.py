"""A lab with our publisher in it: simulated manager, our scaler, operator and scheduler, on virtual time, under a judge's eyes.

with publishing(scenario(FABRICS)) as run:
    run.lab.run(120)
    run.at_rest()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dds_adapters.fabric.fabric_settings import FabricSettings
from dds_core.component import COMPONENTS
from dds_core.events import Event
from dds_core.log import EventLog, MemoryLog
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.model import MANAGED_BY
from dds_core.publisher.policy import PublishPolicy
from dds_core.publisher.rules.need import healthy
from dds_core.replay import event_of
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.actors.models import NAME, NAMESPACE
from dds_lab.check.subjects import CLUSTER, unsound
from dds_lab.driver import PACE, PUBLISHER_USER, OurPublisher, OurScaler, Pace, by_manager
from dds_lab.judge.publisher import Measure, PoolsJudge
from dds_lab.lab import Lab
from dds_lab.manager import Login, Manager, ManagerSettings
from dds_lab.manager.calls import Call, Done, Refused, error
from dds_lab.scenario import Scenario
from dds_lab.scenario.reading import parse
from tests.support.ours import Outcomes

LOG = "lab/publisher"
ENDPOINT = "https://manager.lab"
SCALER = Policy(
    mode="detach",
    scan_interval_seconds=60,
    no_removal_seconds=15,
    no_allocation_seconds=15,
    schedulers={"default-scheduler": SchedulerPolicy(binding_timeout_seconds=180)},
    detaches_per_hour=10_000,
)
PUBLISH = PublishPolicy(mode="publish")
USUAL = Measure()
REST = 300.0
"""Seconds in which nothing is written, once all is as it should be."""


def written(cluster: str, more: str = "", duration: str = "10m") -> Scenario:
    """A scenario of this cluster, with nobody in it who publishes or scales."""
    text = f"""
duration: {duration}
parts:
  scheduler: {{profiles: {{default-scheduler: {{binding_timeout: 3m}}}}}}
  operator: {{kind: ideal, sync: 0s}}
  vendor: {{start: {{between: [500ms, 2s]}}}}
  publisher: false
  scaler: false
cluster:
{_indented(cluster)}
{more}
"""
    return parse(text, "a test", "publishing")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip("\n").splitlines())


@dataclass(frozen=True)
class Surroundings:
    """What a publisher is given beside its log: policy, how the fabric is asked, and how the manager is set up; and how strictly
    it is judged."""

    policy: PublishPolicy = PUBLISH
    pace: Pace = PACE
    manager: ManagerSettings = field(default_factory=ManagerSettings)
    measure: Measure = USUAL


class PublishRun:
    """`publishers` and `scalers` are all processes that there were, the newest last."""

    def __init__(self, lab: Lab, log: EventLog, around: Surroundings, scaler: Policy, folder: Path) -> None:
        self.lab = lab
        self.log = log
        self.around = around
        self.manager = Manager(lab.time, lab.fabric, around.manager)
        self.outcomes = Outcomes(lab)
        self.troubled: set[str] = set()
        """What keeps the publisher from seeing or writing just now, beside what can be seen."""
        self.publishers: list[OurPublisher] = []
        self.scaler_log = MemoryLog("lab/scaler", cluster=CLUSTER, recorded_at=lab.scenario.start)
        self.scalers = [OurScaler(lab, self.scaler_log, scaler)]
        self._scaler = scaler
        self.folder = folder
        """Where the client finds its credentials."""
        named = around.manager.api == "nec"
        self.judge = PoolsJudge(
            lab, PUBLISHER_USER, around.measure, mark=MANAGED_BY, blind=self._is_blind, names_devices=named
        )
        self._settings = settings_of(around.manager, folder, str(lab.scenario.cluster.fabrics[0].id))

    @property
    def ours(self) -> OurPublisher:
        return self.publishers[-1]

    def another(self, log: EventLog | None = None) -> OurPublisher:
        """One more publisher on the same log, or on this one; it has not begun."""
        self.log = log if log is not None else self.log
        reach = by_manager(self.manager, self._settings)
        self.publishers.append(OurPublisher(self.lab, self.log, self.around.policy, reach, pace=self.around.pace))
        return self.ours

    def another_scaler(self) -> OurScaler:
        """One more scaler on its log; it has not begun."""
        self.scalers.append(OurScaler(self.lab, self.scaler_log, self._scaler))
        return self.scalers[-1]

    def empty_log(self) -> MemoryLog:
        """A log in which nothing is."""
        return MemoryLog(LOG, cluster=CLUSTER, recorded_at=self.lab.time.now())

    @contextmanager
    def failing(self, which: Callable[[Call], bool]) -> Iterator[None]:
        """Calls to the manager that are answered with 500 while the block lasts."""
        ask = self.manager.ask

        def asked(call: Call, done: Done) -> None:
            if which(call):
                done(error(Refused(500, "E99500", "it fails")))
            else:
                ask(call, done)

        self.manager.ask = asked  # type: ignore[method-assign]
        try:
            yield
        finally:
            self.manager.ask = ask  # type: ignore[method-assign]

    def after(self, seconds: float, what: Callable[[], object]) -> None:
        """Something that happens so long from now."""
        self.lab.time.after(seconds, lambda: void(what()))

    def events(self, *types: type[Event]) -> list[tuple[int, Event]]:
        """(instant, event) of the publisher's log, of these types, or all."""
        names = {one.__name__ for one in types} or None
        rows = (row for row in self.log.read(types=names) if row.type != "LogOpened")
        found = ((row.occurred_at, event_of(row, PUBLISHER)) for row in rows)
        return [(at, event) for at, event in found if event is not None]

    def _is_blind(self) -> bool:
        """Whether the publisher cannot know what there is, does not believe what it is told, or cannot write."""
        if not self.publishers or self.troubled or self.manager.faults.waiting() or not self.ours.alive:
            return True
        publisher = self.ours.publisher
        state = publisher.state
        unbelieved = any(healthy(stock) > state.policy.pool_devices for stock in state.fabric.stocks.rows.values())
        return publisher.away or not publisher.synced or bool(state.process.stale) or unbelieved

    def at_rest(self, seconds: float = REST) -> None:
        """What is published is what there is, and then nothing is written any more."""
        assert self.judge.differences() == []
        written = len(self.judge.writes)
        self.lab.run(seconds)
        assert self.judge.writes[written:] == []
        assert self.judge.differences() == []

    def sound(self) -> None:
        """The judge is silent, the logs tell of no error of ours, their chains hold, and they decide the same again."""
        assert self.judge.findings == []
        assert unsound(self.publishers, self.log, PUBLISHER) == []
        assert unsound(self.scalers, self.scaler_log, COMPONENTS["scaler"]) == []


def void(_: object) -> None: ...


def change_models(lab: Lab, change: Callable[[Any], object]) -> None:
    """Change device-info in place, as an administrator does."""
    client = lab.client("admin")
    found = client.get("configmaps", NAME, NAMESPACE)
    entries = json.loads(found["data"]["device-info"])
    change(entries)
    client.update("configmaps", {**found, "data": {**found["data"], "device-info": json.dumps(entries)}})


def settings_of(manager: ManagerSettings, folder: Path, fabric: str) -> FabricSettings:
    """How a client reaches the manager; the login is written as a mounted Secret has it. A CDIM has one `fabric`."""
    write_login(manager.login, folder)
    return FabricSettings(
        api=manager.api,
        endpoint=ENDPOINT,
        tenant=manager.tenant,
        cluster=manager.cluster,
        credentials=folder,
        fabric=fabric,
    )


def write_login(login: Login, folder: Path) -> None:
    """The files of a Secret that holds this login."""
    for name in ("username", "password", "realm", "client_id", "client_secret"):
        (folder / name).write_text(getattr(login, name), encoding="utf-8")


@contextmanager
def publishing(
    scenario: Scenario,
    around: Surroundings = Surroundings(),
    *,
    scaler: Policy = SCALER,
    seed: int | None = None,
    log: EventLog | None = None,
    prepare: Callable[[PublishRun], Any] = lambda run: None,
    begin: bool = True,
    sound: bool = True,
) -> Iterator[PublishRun]:
    """A lab in which scaler and publisher have begun (the publisher not, unless `begin`); `prepare` is called before they do. In
    the end the run must have been sound, unless a test is about one that is not."""
    with Lab.virtual(scenario, seed=seed) as lab, TemporaryDirectory() as folder:
        run = PublishRun(
            lab, log or MemoryLog(LOG, cluster=CLUSTER, recorded_at=scenario.start), around, scaler, Path(folder)
        )
        run.another()
        prepare(run)
        run.scalers[-1].start()
        if begin:
            run.ours.start()
        try:
            yield run
        finally:
            run.ours.kill()
            run.scalers[-1].kill()
    if sound:
        run.sound()
