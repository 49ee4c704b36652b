"""A scenario over HTTP with our scaler, to its end: every pod ran, every device is back in its pool.

story = Story(scenario, folder)
story.play()
story.sound()
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.process import Process
from dds_adapters.sql import Database, upgrade
from dds_core.events import Alerted
from dds_core.kit.work import FAULTS
from dds_core.log import EventLog
from dds_core.log.chain import verify_log
from dds_core.replay import event_of, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.judge import Finding, Judge
from dds_lab.judge.scaler import Measure
from dds_lab.scenario import Scenario
from dds_lab.scenario.parts import Profile, SchedulerPart
from tests.support.live_lab import QUICK, LiveLab, OurProcess, eventually, without_scaler
from tests.support.ours import Outcomes
from tests.support.wire import Traffic

LOG = "lab/scaler"
PATIENT = QUICK.model_copy(update={"scheduler": SchedulerPolicy(binding_timeout_seconds=300)})
"""A policy for a wire on which much takes long."""
_MIGRATING = threading.Lock()
"""Alembic keeps its environment in globals; stories may be played side by side."""
LENIENT = Measure(lately=600.0, patience=1_200.0, news=5.0, changes=12, beside=600.0)
"""A judge who knows that nobody could be told anything for a while."""


def unhurried(scenario: Scenario) -> Scenario:
    """The scenario without a scaler, and with a scheduler that waits for a device as long as it takes."""
    found = without_scaler(scenario)
    scheduler = SchedulerPart(profiles={"default-scheduler": Profile(binding_timeout=3_000.0)})
    return found.model_copy(update={"parts": found.parts.model_copy(update={"scheduler": scheduler})})


class Story:
    """One scenario, played once. Everything that is looked at afterwards is kept."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        *,
        speed: float = 4.0,
        policy: Policy = PATIENT,
        measure: Measure = LENIENT,
        settings: LiveSettings | None = None,
        prepare: Callable[[Process[Any]], None] = lambda process: None,
    ) -> None:
        """`prepare` is given our process before it begins."""
        self.scenario = scenario
        self.folder = folder
        self.speed = speed
        self.policy = policy
        self.measure = measure
        self.settings = settings
        self.prepare = prepare
        self.troubles: list[str] = []
        self.ran: set[str] = set()
        self.findings: list[Finding] = []
        self.attaches = 0
        self.struck: list[int] = []
        self.traffic: Traffic
        self.log: EventLog
        self.seconds = 0.0

    def play(
        self, pods: int = 1, *, within: float = 90.0, meanwhile: Callable[[LiveLab, OurProcess], None] | None = None
    ) -> None:
        """Until so many pods have run and nothing is attached any more."""
        url = f"sqlite:///{self.folder}/log.sqlite3"
        with _MIGRATING:
            upgrade(url)
        began = time.monotonic()
        with Database(url) as database, LiveLab(self.scenario, self.folder, speed=self.speed) as lab:
            self.traffic = Traffic(lab)
            judge, outcomes = lab.call(lambda lab: (Judge(lab, self.measure), Outcomes(lab)))

            def opened(uid: str) -> EventLog:
                self.log = database.open_log(LOG, cluster=uid, recorded_at=time.time_ns() // 1000)
                return self.log

            with OurProcess(lab.cluster(), opened, lambda: self.policy, self.settings, prepare=self.prepare) as ours:
                self.troubles = ours.troubles.lines
                if meanwhile is not None:
                    meanwhile(lab, ours)
                eventually(lambda: len(outcomes.ran) >= pods, within, 0.1)
                eventually(lambda: not lab.call(lambda lab: _attached(lab)), within, 0.1)
                eventually(lambda: ours.process.controller is not None and not ours.process.controller.behind)
            self.ran = set(outcomes.ran)
            self.findings = judge.findings
            self.attaches = lab.call(lambda lab: lab.ledger.count("attach", "done"))
            self.struck = list(lab.face.faults.struck) if lab.face.faults is not None else []
            self.seconds = time.monotonic() - began
            self._hold()

    def _hold(self) -> None:
        """The log proves itself, and tells of no error of ours."""
        verify_log(self.log)
        report = verify(self.log.read(), SCALER)
        assert report.ok, "\n".join(str(one) for one in report.differences[:3])
        alerts = [event_of(row, SCALER) for row in self.log.read(types={"Alerted"})]
        assert [one for one in alerts if isinstance(one, Alerted) and one.reason in FAULTS] == []
        self.types = [row.type for row in self.log.read()]


def _attached(lab: Any) -> dict[str, str]:
    found: dict[str, str] = lab.ledger.attached()
    return found
