"""Plays runs of a scenario on virtual time. A `Task` holds all that one run needs, so any process can play it."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dds_core.errors import DdsError, InputError
from dds_core.kit.policy import MICROSECONDS
from dds_core.log import MemoryLog
from dds_core.replay import moments
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy
from dds_core.timeline import Moment
from dds_lab.actors.scaler import ReferenceScaler
from dds_lab.driver import SCALER_USER, OurScaler
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario, parse, written
from dds_lab.scenario.parts import ScalerPart
from dds_lab.scenario.workload import write_rows
from dds_lab.setup import install_guard
from dds_whatif.driven import Phase
from dds_whatif.outcome import Outcome, outcome
from dds_whatif.world import Fitted, profiles_of

LOG, CLUSTER = "whatif/scaler", "kube-system-of-the-lab"
GOLDEN = 0.618034
"""Multiples of it, modulo one, are spread evenly: so are the phases of the reference's scans over the seeds."""


@dataclass(frozen=True)
class Task:
    """One run. `scenario` and `pods` are the contents of a scenario file and of its file of pods. `policy` is that of the dds
    scaler; None for the simulated reference scaler, whose durations are in the scenario. `guarded`: the objects of the
    guard are installed. `phases`: who drives when, instead of one for the whole run."""

    scenario: str
    pods: str
    policy: Policy | None
    seed: int
    guarded: bool = True
    phases: tuple[Phase, ...] = ()


def tasks_of(model: Fitted, policy: Policy | None, seeds: Iterable[int], phases: tuple[Phase, ...] = ()) -> list[Task]:
    """One task for each seed. If the policy names the schedulers' binding timeouts, the scenario gets these."""
    pods = io.StringIO()
    write_rows(pods, model.arrivals)
    text, rows = written(_as_told(model.scenario, policy)), pods.getvalue()
    return [Task(text, rows, policy, seed, model.guarded, phases) for seed in seeds]


def serving(policy: Policy, where: str) -> Policy:
    """The same policy. Raises InputError for mode observe, in which no pod is served, so that nothing could be compared."""
    if policy.observes:
        raise InputError(
            "mode observe writes nothing: under it no pod would be served, and nothing could be compared",
            where=where,
            fix="say mode: attach or mode: detach in the policy",
        )
    return policy


def _as_told(scenario: Scenario, policy: Policy | None) -> Scenario:
    scheduler = scenario.parts.scheduler
    if policy is None or scheduler is None or not policy.model_fields_set & {"scheduler", "schedulers"}:
        return scenario
    told = scheduler.model_copy(update={"profiles": profiles_of(policy, scheduler.profiles)})
    return scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"scheduler": told})})


def play(task: Task) -> Outcome:
    """Play a run to the scenario's end and return its outcome. Raises DdsError if the scaler stopped."""
    return outcome(*played(task))


def played(task: Task) -> tuple[Iterable[Moment], int]:
    """Play a run; returns its moments and the instant of its end in microseconds."""
    with tempfile.TemporaryDirectory(prefix="dds-whatif-") as folder:
        path = Path(folder) / "pods.csv"
        path.write_text(task.pods, encoding="utf-8")
        scenario = parse(task.scenario, "the scenario").model_copy(update={"seed": task.seed, "workload": str(path)})
        knobs = scenario.parts.scaler
        if knobs is not None:  # nobody knows when the reference began to scan
            phased = knobs.model_copy(update={"phase": task.seed * GOLDEN % 1 * knobs.interval})
            scenario = scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"scaler": phased})})
        return _played(scenario, task.phases or ((0.0, task.policy),), task.guarded)


def _played(scenario: Scenario, phases: tuple[Phase, ...], guarded: bool) -> tuple[Iterable[Moment], int]:
    """While the reference scaler drives, dds observes. Where it drives alone, it is a part of the lab."""
    ours = [policy for _, policy in phases if policy is not None]
    found = scenario
    if ours:
        found = scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"scaler": None})})
    watching = (ours or [Policy()])[-1].model_copy(update={"mode": "observe"})
    log = MemoryLog(LOG, cluster=CLUSTER, recorded_at=found.start)
    with Lab.virtual(found) as lab:
        if guarded:
            install_guard(lab.client("installer"), SCALER_USER)
        scaler = OurScaler(lab, log, phases[0][1] or watching)
        if ours:
            lab.cast("scaler", lambda: None, scaler.kill)
        scaler.start()
        try:
            for (_, policy), end in zip(phases, [*(begin for begin, _ in phases[1:]), found.duration], strict=True):
                scaler.change_policy(policy or watching)
                knobs = scenario.parts.scaler or ScalerPart()
                other = ReferenceScaler(lab.client("reference-scaler"), lab.time, knobs)
                if ours and policy is None:
                    other.start()
                lab.run(until=found.start + round(end * MICROSECONDS))
                if ours and policy is None:
                    other.stop()
            if scaler.faults:
                raise DdsError(f"the scaler stopped: {scaler.faults[0]}", where=f"seed {found.seed}")
        finally:
            scaler.kill()
        return moments(log.read_lean(0), SCALER), lab.time.now()
