"""A scenario over HTTP under the eyes of a judge who looks on in the lab's own thread, and what must hold at its end.

with Scene("burst", folder, speed=5.0) as it, Program(it.lab, url, folder, it.policy) as ours:
    it.to_the_end()
it.held(log)
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dds_adapters.sql import Database, upgrade
from dds_core.events import Alerted
from dds_core.kit.work import FAULTS
from dds_core.log import EventLog
from dds_core.log.chain import Anchor, anchor_of, verify_log
from dds_core.replay import event_of, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.judge.cluster_view import Cell, ClusterView, Held
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from tests.support.expected_ends import ENDS, ExpectedEnd
from tests.support.live_lab import Lasting, LiveLab
from tests.support.ours import Outcomes, policy_for, told_to_us

LOG = "lab/scaler"
SECOND = 1_000_000
PATIENCE = 240.0
"""Seconds of the lab's time after a scenario's own end in which all must be as it should."""
REST = 8.0
"""And how long it must stay so."""
_MIGRATING = threading.Lock()
"""Alembic keeps its environment in globals; scenes may be played side by side."""


def measure_at(speed: float) -> Measure:
    """A judge who knows that news takes its time over a wire, most of a second of ours, and a cool-down two minutes and a bit."""
    return Measure(news=0.8 * speed, changes=12, patience=180.0, beside=180.0)


def scaled(policy: Policy, speed: float) -> Policy:
    """A policy for a lab that is faster than the clock: its durations, in whole seconds of ours."""

    def shorter(seconds: int) -> int:
        return max(1, round(seconds / speed)) if seconds else 0

    def scheduler(one: SchedulerPolicy) -> SchedulerPolicy:
        return one.model_copy(update={"binding_timeout_seconds": max(2, round(one.binding_timeout_seconds / speed))})

    names = [name for name in Policy.model_fields if name.endswith("_seconds")]
    return policy.model_copy(
        update={
            **{name: shorter(getattr(policy, name)) for name in names},
            "scheduler": scheduler(policy.scheduler),
            "schedulers": {name: scheduler(one) for name, one in policy.schedulers.items()},
        }
    )


def hurried(scenario: Scenario, times: float) -> Scenario:
    """The scenario with a story that is so many times faster, for a lab whose clock is ours: a process that starts again goes
    by the API server's time, which must be its own."""

    def faster(step: Any) -> Any:
        at = {} if step.at is None else {"at": step.at / times}
        run = {} if step.run is None or step.run.delete_after is None else {"run": _sooner(step.run, times)}
        return step.model_copy(update={**at, **run})

    return scenario.model_copy(
        update={"steps": tuple(map(faster, scenario.steps)), "duration": scenario.duration / times}
    )


def _sooner(run: BaseModel, times: float) -> BaseModel:
    return run.model_copy(update={"delete_after": getattr(run, "delete_after") / times})  # noqa: B009 - a model's field


class Elsewhere:
    """Counts devices (`devices`) for which a claim waits on another node than before. A hand-over that is not steered in time can
    land on any node, and each such device has to be attached again."""

    def __init__(self, view: ClusterView) -> None:
        self.devices = 0
        self._waited: dict[str, Counter[Cell]] = {}  # claim uid → what it waited for last
        view.on_claim.append(self._claim)

    def _claim(self, old: Held | None, new: Held | None) -> None:
        if new is not None and new.waits:
            before = self._waited.get(new.uid, new.waits)
            self.devices += (new.waits - before).total()
            self._waited[new.uid] = new.waits


class Scene(Lasting):
    """What happens, as the judge and others who look on see it. All that they gather is read in the lab's own thread."""

    def __init__(
        self,
        what: str | Scenario,
        folder: Path,
        *,
        end: ExpectedEnd | None = None,
        policy: Policy | None = None,
        speed: float = 1.0,
        seed: int | None = None,
        measure: Measure | None = None,
        rest: float = REST,
    ) -> None:
        """A name stands for the scenario with room for us."""
        scenario = told_to_us(what) if isinstance(what, str) else what
        self.rest = rest
        self.scenario = scenario
        self.speed = speed
        self.end = end if end is not None else ENDS[scenario.name]
        self.policy = policy if policy is not None else scaled(policy_for(scenario.name), speed)
        self.lab = LiveLab(scenario, folder, speed=speed, seed=seed, prepare=self._look_on)
        self.judge: Judge
        self.elsewhere: Elsewhere
        self.outcomes: Outcomes
        self.seconds = 0.0
        self._measure = measure if measure is not None else measure_at(speed)

    def start(self) -> None:
        self.lab.start()

    def stop(self) -> None:
        self.lab.stop()

    def _look_on(self, lab: Lab) -> None:
        self.judge = Judge(lab, self._measure)
        self.elsewhere = Elsewhere(self.judge.view)
        self.outcomes = Outcomes(lab)

    # -- until when

    def to_the_end(self) -> None:
        """Until all is as it should be, and stays so for a while."""
        began = time.monotonic()
        until = began + (self.scenario.duration + PATIENCE) / self.speed
        good_since = None
        while True:
            missing = self.lab.call(self.missing)
            now = time.monotonic()
            good_since = None if missing else good_since or now
            if good_since is not None and now - good_since >= self.rest / self.speed:
                break
            if now > until:
                raise AssertionError(f"{self.scenario.name}: {'; '.join(missing)}; the judge: {self.judge.findings}")
            time.sleep(0.1)
        self.seconds = now - began

    def missing(self, lab: Lab) -> list[str]:
        """What is not yet as it should be; in the lab's thread."""
        ran, counted = frozenset(self.outcomes.ran), self.end.ran
        fine = {
            f"step {lab.steps.done} of {len(lab.steps._steps)}": lab.steps.finished,
            f"{sorted(ran)} ran": ran == counted if isinstance(counted, frozenset) else len(ran) >= counted,
            f"attached are {lab.ledger.attached()}": len(lab.ledger.attached()) == self.end.stays,
            f"{lab.ledger.count('attach', 'done')} attaches": lab.ledger.count("attach", "done")
            >= self.end.attaches[0],
            f"failures {dict(self.outcomes.failed)}": all(
                words in self.outcomes.failed[claim] for claim, words in self.end.failed.items()
            ),
        }
        return [what for what, well in fine.items() if not well]

    # -- what must hold

    def held(self, log: EventLog, *, found: frozenset[str] = frozenset(), anchors: tuple[Anchor, ...] = ()) -> None:
        """The judge saw nothing (but what `found` names), as much was moved as was needed, and the log proves itself. A hand-over
        is steered within a second or two, which a lab that is faster than the clock makes some tenths of one: on a busy machine
        it comes too late now and then, and what lands elsewhere is attached there once more."""
        assert self.lab.lab.steps.failures == [], self.lab.lab.steps.failures
        assert set(self.judge.rules) <= self.end.found | found, self.judge.findings
        attaches = self.lab.lab.ledger.count("attach", "done")
        elsewhere, beyond = self.elsewhere.devices, sum(self.judge.rules[rule] for rule in found)
        assert attaches <= self.end.attaches[1] + elsewhere + beyond, (
            f"{attaches} attaches, {elsewhere} for what landed elsewhere, {beyond} ordered before an outage"
        )
        proved(log, anchors)


def proved(log: EventLog, anchors: tuple[Anchor, ...] = ()) -> None:
    """Nothing was lost that was seen before, the chain holds, it decides the same again, and tells of no error of ours."""
    verify_log(log, anchors=anchors)
    report = verify(log.read(), SCALER)
    assert report.ok, "\n".join(str(one) for one in report.differences[:3])
    alerts = [event_of(row, SCALER) for row in log.read(types={"Alerted"})]
    faults = [one for one in alerts if isinstance(one, Alerted) and one.reason in FAULTS]
    assert not faults, faults


@contextmanager
def database_of(url: str) -> Iterator[Database]:
    """A database with the schema of a log."""
    with _MIGRATING:
        upgrade(url)
    with Database(url) as database:
        yield database


def anchored(database: Database) -> Anchor | None:
    """Where the log stands; None when there is none yet."""
    return next((anchor_of(head) for head in database.heads() if head.log == LOG), None)
