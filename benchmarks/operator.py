"""What a pod waits for behind the composable-resource-operator as it is, in the lab on virtual time: with a device given once it is
listed and an operator that is nudged, beside the scaler as it was (`device_ready: online`, `operator_nudge: off`).

Times are of the lab's clock: they depend on the scenario and the rules, not on the machine.
"""

from __future__ import annotations

import json
from collections import Counter
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


def _refused(operation: str, since: float, until: float) -> dict[str, Any]:
    window = {"since": START + since, "until": START + until}
    return {"fabric": [{"kind": "refuse", "operation": operation, **window}]}


def burst(pods: int, seconds: float, seed: int = 7) -> tuple[tuple[float, int, float], ...]:
    random = Random(seed)
    arrivals = sorted(random.uniform(START, START + seconds) for _ in range(pods))
    return tuple((at, 1, random.uniform(15, 40)) for at in arrivals)


@dataclass(frozen=True)
class Outcome:
    """What a run showed. `waits`: seconds from a pod's creation to its node; `orders`: from the order for its claim, of those that
    had one. `overtaken`: by claim how often another claim took the device that it was about to get."""

    waits: list[float]
    orders: list[float]
    unbound: int
    attaches: int
    restarts: int
    overtaken: Counter[str]
    findings: list[str]


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
        orders, overtaken = _orders(run)
        bound = {name: at for name, at in watch.bound.items() if name in watch.created}
        return Outcome(
            waits=[(at - watch.created[name]) / 1e6 for name, at in bound.items()],
            orders=[(bound[name] - at) / 1e6 for name, at in orders.items() if name in bound],
            unbound=len(watch.created) - len(bound),
            attaches=run.lab.ledger.count("attach", "done"),
            restarts=sum(run.lab.plugin_restarts().values()),
            overtaken=overtaken,
            findings=[f"{one.rule}: {one.of}: {one.text}" for one in run.judge.findings],
        )


def _orders(run: Running) -> tuple[dict[str, int], Counter[str]]:
    """By claim the instant of the first order for it, and how often an exchange ended because another claim took the device."""
    names: dict[str, str] = {}
    orders: dict[str, int] = {}
    overtaken: Counter[str] = Counter()
    for at, event in run.events(e.ClaimObserved, e.AttachOrdered, e.ExchangeEnded):
        if isinstance(event, e.AttachOrdered):
            for claim in event.claims:
                orders.setdefault(names[claim], at)
        elif isinstance(event, e.ExchangeEnded):
            overtaken[names[event.claim]] += event.reason.startswith("claim ")
        elif event.changes.name is not UNSET:  # type: ignore[attr-defined]
            names[event.uid] = event.changes.name  # type: ignore[attr-defined]
    return orders, overtaken


def percentile(found: Sequence[float], percent: int) -> float:
    ordered = sorted(found)
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else float("nan")


ONE = (START, 1, 20.0)
SEEDS = range(1, 11)
CASES = (
    (Case("one pod"), 8),
    (Case("a vendor that lists at once", vendor={"start": 0.05, "hot_plug": True}), 8),
    (Case("a claim of two", pods=((START, 2, 20.0),)), None),
    (Case("two pods on a node", pods=(ONE, (START + 0.5, 1, 20.0)), nodes=1), 8),
    (Case("attach of 70 s, two pods", pods=(ONE, (START + 0.5, 1, 20.0)), attach=70.0, seconds=500.0), None),
    (
        Case(
            "CM, attach of 40 s, ten pods one after the other",
            pods=tuple((START + 150.0 * n, 1, 20.0) for n in range(10)),
            attach=40.0,
            api="cm",
            seconds=1700.0,
        ),
        50,
    ),
    (Case("an error at once after Online", faults=_refused("check", 0.0, 10.0)), 8),
    (Case("devices in Warning", faults={"fabric": [{"kind": "warning"}]}), 8),
    (Case("nvidia-smi fails for 4 s", faults=_refused("smi", 0.0, 4.0)), 8),
    (Case("the answer to the order is lost", faults={"fabric": [{"kind": "lose_answer", "times": 1}]}), None),
    (Case("the fabric refuses for 30 s", faults=_refused("attach", 0.0, 30.0), seconds=500.0), None),
)


def measure() -> list[Row]:
    """Each case once, before and after; the bursts with ten seeds."""
    rows = [_row(case, played(case, **BEFORE), played(case), most) for case, most in CASES]
    for pods, over, nodes, pool in ((20, 60.0, 6, 12), (40, 120.0, 10, 24)):
        cases = [
            Case(f"burst of {pods}", burst(pods, over, seed), seconds=400.0, nodes=nodes, pool=pool) for seed in SEEDS
        ]
        before, after = (_joined([played(case, **policy) for case in cases]) for policy in (BEFORE, {}))
        what = f"{pods} pods in {over:g} s on {nodes} nodes, pool of {pool}, {len(SEEDS)} seeds: wait of all pods"
        p95 = percentile(after.waits, 95)
        rows.append(
            Row(
                what,
                f"p50 {percentile(after.waits, 50):.1f} s, p95 {p95:.1f} s; {_per_attach(after)}; overtaken at most "
                f"{max(after.overtaken.values(), default=0)} times",
                f"p50 {percentile(before.waits, 50):.1f} s, p95 {percentile(before.waits, 95):.1f} s; {_per_attach(before)}",
                target="p95 ≤ 20 s",
                met=p95 <= 20 and not after.unbound,
            )
        )
    return rows


def _row(case: Case, before: Outcome, after: Outcome, most: float | None) -> Row:
    p50 = percentile(after.orders, 50)
    met = None if most is None else p50 <= most and not after.unbound
    target = "" if most is None else f"≤ {most:g} s"
    return Row(f"{case.what}: order to bound", _told(after), _told(before), target=target, met=met)


def _told(one: Outcome) -> str:
    times = " and ".join(f"{each:.1f}" for each in sorted(one.orders)) if len(one.orders) < 3 else ""
    times = times or f"p50 {percentile(one.orders, 50):.1f}, p95 {percentile(one.orders, 95):.1f}"
    return f"{times} s; {one.attaches} attaches; {_per_attach(one)}"


def _per_attach(one: Outcome) -> str:
    return f"{one.restarts / max(1, one.attaches):.2f} restarts of a plugin an attach"


def _joined(found: Sequence[Outcome]) -> Outcome:
    return Outcome(
        waits=[each for one in found for each in one.waits],
        orders=[each for one in found for each in one.orders],
        unbound=sum(one.unbound for one in found),
        attaches=sum(one.attaches for one in found),
        restarts=sum(one.restarts for one in found),
        overtaken=Counter({f"{n}/{name}": many for n, one in enumerate(found) for name, many in one.overtaken.items()}),
        findings=[each for one in found for each in one.findings],
    )
