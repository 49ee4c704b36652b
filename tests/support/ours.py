"""A scenario with our own scaler in the place of the reference, on virtual time, under the eyes of a judge.

    with running(told_to_us("burst")) as run:
        run.lab.run()
    run.sound()

`told_to_us` also takes the hand-made moves out of a scenario that plays the scaler's part itself, and gives it an operator.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dds_core.events import Event
from dds_core.log import EventLog, MemoryLog
from dds_core.replay import event_of
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy
from dds_lab import shipped
from dds_lab.check.subjects import CLUSTER, LOG, policy_of, unsound, without_hands
from dds_lab.driver import SCALER_USER, OurScaler
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.setup import install_guard
from dds_lab.tally import Tally

Object = dict[str, Any]
USUAL = Measure()


def told_to_us(name: str, **parts: Any) -> Scenario:
    """A scenario that comes with dds, in which nobody does the scaler's work yet; `parts` replace parts of it."""
    return without_hands(shipped.find(name), **parts)


def policy_for(name: str, **more: Any) -> Policy:
    """Its own durations, everything allowed."""
    return policy_of(shipped.find(name), **more)


def begins(name: str) -> float:
    """The whole second of a scenario's first step."""
    return float(int(shipped.find(name).steps[0].at or 0.0))


def new_log(scenario: Scenario) -> MemoryLog:
    return MemoryLog(LOG, cluster=CLUSTER, recorded_at=scenario.start)


class Outcomes:
    """What became of pods and claims, by name: `ran` are pods that got a node, `waits` counts how often a claim came to wait for
    devices of a pool, `failed` are the words that claims were failed with."""

    def __init__(self, lab: Lab) -> None:
        self.ran: dict[str, str] = {}
        self.waits: Counter[str] = Counter()
        self.failed: defaultdict[str, list[str]] = defaultdict(list)
        client = lab.client("outcomes")
        client.mirror("pods").on_change(self._pod)
        client.mirror("resourceclaims").on_change(self._claim)

    def _pod(self, old: Object | None, new: Object | None) -> None:
        if new is not None and new["spec"].get("nodeName"):
            self.ran.setdefault(new["metadata"]["name"], new["spec"]["nodeName"])

    def _claim(self, old: Object | None, new: Object | None) -> None:
        before, after = _failure(old), _failure(new)
        if new is None:
            return
        if after and after != before:
            self.failed[new["metadata"]["name"]].append(after)
        if _waits(new) and _waits(new) != _waits(old):
            self.waits[new["metadata"]["name"]] += 1


def _waits(claim: Object | None) -> list[Object]:
    """The allocation's devices, if one of them is a pool's."""
    allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
    results: list[Object] = allocation.get("devices", {}).get("results") or []
    return results if any(one.get("bindingConditions") for one in results) else []


def _failure(claim: Object | None) -> str:
    """Reason and words of the failure that is told of a claim now."""
    entries = ((claim or {}).get("status") or {}).get("devices") or ()
    conditions = (one for entry in entries for one in entry.get("conditions") or ())
    found = (one for one in conditions if one["type"] == "FabricDeviceFailed" and one["status"] == "True")
    return next((f"{one['reason']}: {one['message']}" for one in found), "")


class Running:
    """A lab with our scaler in it. `instances` are all processes that there were, the newest last."""

    def __init__(self, lab: Lab, log: EventLog, policy: Policy, measure: Measure, **more: Any) -> None:
        self.lab = lab
        self.log = log
        self.policy = policy
        self.judge = Judge(lab, measure)
        self.tally = Tally()
        self.tally.follow(lab.client("tally"))
        self.outcomes = Outcomes(lab)
        self.instances: list[OurScaler] = []
        self._more = more

    @property
    def ours(self) -> OurScaler:
        return self.instances[-1]

    def another(self, **more: Any) -> OurScaler:
        """One more process on the same log; it has not begun."""
        self.instances.append(OurScaler(self.lab, self.log, self.policy, **{**self._more, **more}))
        return self.ours

    def events(self, *types: type[Event]) -> list[tuple[int, Event]]:
        """(instant, event) of the log, of these types, or all."""
        names = {one.__name__ for one in types} or None
        found = (
            (row.occurred_at, event_of(row, SCALER)) for row in self.log.read(types=names) if row.type != "LogOpened"
        )
        return [(at, event) for at, event in found if event is not None]

    def events_per_claim_hour(self) -> float:
        """Rows of the log for each hour that a claim was there."""
        hours = (self.lab.time.now() - self.lab.scenario.start) / 3_600e6
        return self.log.head().position / max(1, self.tally.claims) / hours

    def attached(self) -> dict[str, str]:
        """Where the devices are that were moved and are out of the pool."""
        return self.lab.ledger.attached()

    def sound(self, *, verified: bool = True) -> None:
        """The log tells of no error of ours, its chain holds, and it decides the same again."""
        assert unsound(self.instances, self.log, SCALER, verified=verified) == []


@contextmanager
def running(
    scenario: Scenario,
    policy: Policy | None = None,
    *,
    seed: int | None = None,
    log: EventLog | None = None,
    measure: Measure = USUAL,
    prepare: Callable[[Running], None] = lambda run: None,
    begin: bool = True,
    guarded: bool = True,
    **more: Any,
) -> Iterator[Running]:
    """A lab that has started, with one process of ours in it that has started as well (unless `begin` is False). `prepare` is
    called before that; `more` goes to each process. `guarded`: the installation brings what an exchange needs."""
    with Lab.virtual(scenario, seed=seed) as lab:
        if guarded:
            install_guard(lab.client("installer"), SCALER_USER)
        given = policy if policy is not None else policy_for(scenario.name)
        run = Running(lab, log if log is not None else new_log(scenario), given, measure, **more)
        run.another()
        if scenario.parts.scaler is None:
            lab.cast("scaler", lambda: run.another().start(), lambda: run.ours.kill())
        prepare(run)
        if begin:
            run.ours.start()
        try:
            yield run
        finally:
            run.ours.kill()
