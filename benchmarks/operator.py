"""What a pod waits for behind the composable-resource-operator as it is, in the lab on virtual time: with a device given once it is
listed and an operator that is nudged, beside the scaler as it was (`device_ready: online`, `operator_nudge: off`).

Times are of the lab's clock: they depend on the scenario and the rules, not on the machine.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec import UNSET

from benchmarks.measure import Row
from dds_core.scaler import events as e
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.judge.scaler import Measure
from dds_lab.scenario.reading import parse
from dds_lab.steps import Steps
from tests.support.ours import Running, running

MODEL, CLASS = "A100 40G", "nvidia-a100-40"
BEFORE: Mapping[str, Any] = {"device_ready": "online", "operator_nudge": "off"}
START = 30.0
"""Seconds after which pods come: the plugins are old by then."""
PATIENT = Measure(lately=600.0, patience=600.0, twice=True, rounds=8)


@dataclass(frozen=True)
class Case:
    """A scenario: pods as (instant, devices, seconds that they run), and what is particular about the hardware."""

    what: str
    pods: tuple[tuple[float, int, float], ...] = ((START, 1, 20.0),)
    seconds: float = 200.0
    nodes: int = 2
    pool: int = 4
    attach: Any = 1.0
    api: str = "fm"
    vendor: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Mapping[str, Any], ...] = ()
    timeout: int = 600

    def scenario(self) -> Any:
        runs = [
            {"at": at, "run": {"name": f"b-{n:02}", "devices": {CLASS: count}, "delete_after": lasts}}
            for n, (at, count, lasts) in enumerate(self.pods)
        ]
        document = {
            "seed": 1,
            "duration": self.seconds,
            "cluster": {
                "models": [{"model": MODEL, "device": CLASS, "product": "NVIDIA A100 40GB PCIe"}],
                "fabrics": [{"id": 1, "devices": {MODEL: self.pool}}],
                "nodes": [{"count": self.nodes, "fabric": 1}],
            },
            "parts": {
                "scheduler": {"profiles": {"default-scheduler": {"binding_timeout": self.timeout}}},
                "fabric": {"attach": self.attach, "detach": 0.5},
                "vendor": {"start": 3.0, **self.vendor},
                "publisher": {"interval": 0},
                "operator": {"kind": "real", "api": self.api},
                "scaler": False,
            },
            "steps": sorted([*runs, *self.steps], key=lambda one: one["at"]),
            "faults": self.faults,
        }
        return parse(json.dumps(document), self.what)


def burst(pods: int, seconds: float, seed: int = 7) -> tuple[tuple[float, int, float], ...]:
    random = Random(seed)
    arrivals = sorted(random.uniform(START, START + seconds) for _ in range(pods))
    return tuple((at, 1, random.uniform(15, 40)) for at in arrivals)


@dataclass
class Outcome:
    """What a run showed. `waits`: seconds from a pod's creation to its node; `orders`: from the order for it, of pods that had
    one. `overtaken`: how often the pods lost a device that came for them to a later pod."""

    waits: list[float]
    orders: list[float]
    unbound: int
    attaches: int
    restarts: int
    findings: list[str]
    overtaken: list[int]


class Watch:
    """Follows the pods: creation and binding, by name."""

    def __init__(self, run: Running) -> None:
        self.created: dict[str, int] = {}
        self.bound: dict[str, int] = {}
        self._now = run.lab.time.now
        run.lab.client("benchmark").mirror("pods").on_change(self._pod)

    def _pod(self, old: Any, new: Any) -> None:
        if new is None:
            return
        name = new["metadata"]["name"]
        self.created.setdefault(name, self._now())
        if new["spec"].get("nodeName"):
            self.bound.setdefault(name, self._now())


def played(case: Case, **policy: Any) -> Outcome:
    """Play a case with the scaler in mode detach."""
    given = Policy(
        mode="detach",
        no_removal_seconds=15,
        no_allocation_seconds=5,
        scan_interval_seconds=60,
        detaches_per_hour=10_000,
        scheduler=SchedulerPolicy(binding_timeout_seconds=case.timeout),
        **policy,
    )
    watches: list[Watch] = []
    with running(case.scenario(), given, measure=PATIENT, prepare=lambda run: watches.append(Watch(run))) as run:
        run.lab.run()
        run.lab.run(60)
        (watch,) = watches
        restarts = sum(run.lab.plugin_restarts().values())
        orders: dict[str, int] = {}
        names: dict[str, str] = {}
        for at, event in run.events(e.AttachOrdered, e.ClaimObserved):
            if isinstance(event, e.ClaimObserved):
                if event.changes.name is not UNSET:
                    names[event.uid] = event.changes.name
            elif isinstance(event, e.AttachOrdered):
                for claim in event.claims:
                    orders.setdefault(names.get(claim, claim), at)
        return Outcome(
            waits=[(watch.bound[name] - at) / 1e6 for name, at in watch.created.items() if name in watch.bound],
            orders=[(watch.bound[name] - at) / 1e6 for name, at in orders.items() if name in watch.bound],
            unbound=len(watch.created.keys() - watch.bound.keys()),
            attaches=run.lab.ledger.count("attach", "done"),
            restarts=restarts,
            findings=[f"{one.rule}: {one.of}: {one.text}" for one in run.judge.findings],
            overtaken=[],
        )
