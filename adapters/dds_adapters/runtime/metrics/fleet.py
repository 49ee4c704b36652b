"""Durations of the stages of claims' waits, claims and devices by state, and idle time of devices. They are updated with each
event, so that a scrape never reads the state. The thread that decides writes, the one that scrapes reads, under a lock."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.metrics.catalogue import counters, histograms
from dds_core.events import ObjectObserved
from dds_core.lifecycle import CLAIM_STATES, GONE, IDLE, MARKED, RELEASED, WAITING
from dds_core.model import FAILED_CONDITION, Condition
from dds_core.scaler.events import ClaimMoved, HandOver
from dds_core.scaler.state import State
from dds_core.scaler.unallocated import unallocated

SECOND = 1_000_000
NO_STEERING = "none"
_OURS = "FabricDevice"
"""Prefix of the types of conditions that signal a device to the scheduler."""


@dataclass(slots=True)
class _Course:
    """Instants of one claim's wait, 0 if not seen: first of the cycle, the others of the current attempt."""

    began: int
    allocated: int
    ordered: int = 0
    ready: int = 0
    told: int = 0
    steering: str = NO_STEERING


class Stages:
    """Measures the stages of waiting claims: allocated, ordered, ready, signalled, bound. A stage is measured only if this
    process saw its begin and its end. A claim is dropped when its wait is over; a claim that got devices already on a node is
    not followed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._took = histograms(c.STAGE, registry)
        self._landings = counters(c.LANDINGS, registry)
        self._courses: dict[str, _Course] = {}

    def __len__(self) -> int:
        return len(self._courses)

    def forget(self, uid: str) -> None:
        self._courses.pop(uid, None)

    def observed(self, fact: ObjectObserved, at: int) -> None:
        """A claim changed: note when a condition signals its devices to the scheduler."""
        course = self._courses.get(fact.uid)
        if course is None or course.told:
            return
        conditions: object = fact.changes.conditions  # UNSET where they did not change
        if isinstance(conditions, tuple) and any(map(_tells, conditions)):
            course.told = at
            self._measure("signal", course.ready, at)

    def handed_over(self, decision: HandOver) -> None:
        """A hand-over by dds, in a mode that writes."""
        for signal in decision.signals:
            course = self._courses.get(signal.claim)
            if course is not None:
                course.steering = decision.steering

    def moved(self, move: ClaimMoved, at: int) -> None:
        course = self._courses.get(move.claim)
        if move.landed:
            self._landings[(course.steering if course is not None else NO_STEERING, move.landed)].inc()
        match move.trigger:
            case "allocated_pool":
                begun = move.began or at  # an allocation found at the start of the process is older than `at`
                again = course is not None and move.source in WAITING
                self._courses[move.claim] = _Course(course.began if again and course is not None else begun, begun)
            case "failed" | "released":
                self.forget(move.claim)
        if course is None:
            return
        match move.trigger:
            case "ordered":
                self._measure("order", course.allocated, at)
                course.ordered = at
            case "device_ready" | "signalled":
                self._measure("attach", course.ordered, at)
                course.ready = at
            case "pod_bound":
                self._measure("bind", course.told, at)
                self._measure("total", course.began, at)
                self.forget(move.claim)

    def _measure(self, stage: str, since: int, at: int) -> None:
        if since:
            self._took[(stage,)].observe((at - since) / SECOND)


def _tells(condition: Condition) -> bool:
    return condition.status == "True" and condition.type.startswith(_OURS) and condition.type != FAILED_CONDITION


# -- claims without an allocation ------------------------------------------------------------------------------------------


class WaitingCounts(Collector):
    """Counts of claims that wait without an allocation. `look` reads the state, on the thread that decides; a scrape does not."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: Mapping[tuple[str, str], int] = {}
        registry.register(self)

    def look(self, state: State) -> None:
        self._seen = Counter((" or ".join(one.models), one.reason) for one in unallocated(state))

    def describe(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(c.UNALLOCATED.name, c.UNALLOCATED.help, labels=c.UNALLOCATED.labels)

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(c.UNALLOCATED.name, c.UNALLOCATED.help, labels=c.UNALLOCATED.labels)
        for labels, number in self._seen.items():
            family.add_metric(labels, number)
        yield family


# -- claims and devices by state -----------------------------------------------------------------------------------------

_IDLING = frozenset({IDLE, MARKED})


class InState(NamedTuple):
    state: str
    since: int


class Standing(NamedTuple):
    state: str
    since: int
    model: str
    node: str


class _Idle:
    """Total idle time of the devices of a model on a node, in microseconds: `offset + spells * at`, where `spells` is the
    number of devices that are idle now. The total is continuous when a spell begins or ends."""

    __slots__ = ("offset", "spells")

    def __init__(self) -> None:
        self.offset = 0
        self.spells = 0

    def begin(self, at: int) -> None:
        self.spells += 1
        self.offset -= at

    def end(self, at: int) -> None:
        self.spells -= 1
        self.offset += at

    def until(self, at: int) -> int:
        return self.offset + self.spells * at


class StateCounts(Collector):
    """Counts of claims and devices by state. Hold `lock` for every change."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.lock = threading.Lock()
        self._now = 0
        self._claims: dict[str, InState] = {}
        self._devices: dict[str, Standing] = {}
        self._claims_in: Counter[str] = Counter()
        self._devices_in: Counter[tuple[str, str, str]] = Counter()
        self._idle: dict[tuple[str, str], _Idle] = {}
        self._spent: dict[tuple[str, str], int] = {}
        registry.register(self)

    # -- the thread that decides ---------------------------------------------------------------------------------------

    def recount(self, state: State) -> None:
        """Count the whole state: at the start, and after it was folded anew. For devices not known to be idle before, idle time
        counts from now on."""
        self._now = max(self._now, state.process.now)
        for uid in self._claims.keys() | state.lifecycle.lives.rows.keys():
            life = state.lifecycle.lives.get(uid)
            known = self._claims.get(uid)
            if life is None:
                self._claim(uid, None)
            elif known is None or known.state != life.state:
                self._claim(uid, InState(life.state, life.since))
        for uid in self._devices.keys() | state.lifecycle.devices.rows.keys():
            device, stood = state.lifecycle.devices.get(uid), self._devices.get(uid)
            if device is None:
                self._device(uid, None, self._now)
            elif stood is None or (stood.state, stood.model, stood.node) != (device.state, device.model, device.node):
                self._device(uid, Standing(device.state, device.since, device.model, device.node), self._now)

    def passed(self, at: int) -> None:
        """Advance the clock to this instant."""
        self._now = max(self._now, at)

    def spent(self, state: State, logged: int) -> None:
        """Take the device-time from the state, up to the instant `logged`, unless the state is ahead of the log: the value must
        not be lower after a restart, which starts from the log."""
        if state.process.now <= logged:
            self._spent = {key: row.until(logged) for key, row in state.lifecycle.spending.rows.items()}

    def claim(self, uid: str) -> InState | None:
        return self._claims.get(uid)

    def device(self, uid: str) -> Standing | None:
        return self._devices.get(uid)

    def claim_moved(self, uid: str, target: str, at: int, state: State) -> None:
        """A claim moved to `target`. A claim that the state no longer has is not counted any more."""
        known = self._claims.get(uid)
        if known is None or known.state != target:
            self._claim(uid, InState(target, at))
        self.claim_gone(uid, state)

    def claim_gone(self, uid: str, state: State) -> None:
        """Stop counting a claim that is Released and that the state no longer has."""
        known = self._claims.get(uid)
        if known is not None and known.state == RELEASED and uid not in state.lifecycle.lives:
            self._claim(uid, None)

    def device_moved(self, uid: str, target: str, at: int, state: State) -> None:
        if target == GONE:
            self._device(uid, None, at)
            return
        life, known = state.lifecycle.devices.get(uid), self._devices.get(uid)
        model = life.model if life is not None else known.model if known is not None else ""
        node = life.node if life is not None else known.node if known is not None else ""
        self._device(uid, Standing(target, at, model, node), at)

    def node_gone(self, state: State) -> None:
        """A node was deleted: drop the idle times of deleted nodes without idle devices."""
        for key, idle in list(self._idle.items()):
            if not idle.spells and state.fleet.node(key[1]) is None:
                del self._idle[key]

    def _claim(self, uid: str, new: InState | None) -> None:
        old = self._claims.pop(uid, None)
        if old is not None:
            self._claims_in[old.state] -= 1
        if new is not None:
            self._claims[uid] = new
            self._claims_in[new.state] += 1

    def _device(self, uid: str, new: Standing | None, at: int) -> None:
        old = self._devices.pop(uid, None)
        if old is not None:
            place = (old.state, old.model, old.node)
            self._devices_in[place] -= 1
            if not self._devices_in[place]:
                del self._devices_in[place]
        if new is not None:
            self._devices[uid] = new
            self._devices_in[(new.state, new.model, new.node)] += 1
        self._spell(old, new, at)

    def _spell(self, old: Standing | None, new: Standing | None, at: int) -> None:
        was = (old.model, old.node) if old is not None and old.state in _IDLING else None
        now = (new.model, new.node) if new is not None and new.state in _IDLING else None
        if was == now:
            return
        if was is not None:
            self._idle[was].end(at)
        if now is not None:
            self._idle.setdefault(now, _Idle()).begin(at)

    # -- the thread that scrapes ---------------------------------------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        yield from (GaugeMetricFamily(one.name, one.help) for one in (c.CLAIMS, c.DEVICES))
        yield from (CounterMetricFamily(one.name, one.help) for one in (c.IDLE, c.SPENDING))

    def collect(self) -> Iterator[Metric]:
        claims = GaugeMetricFamily(c.CLAIMS.name, c.CLAIMS.help, labels=c.CLAIMS.labels)
        devices = GaugeMetricFamily(c.DEVICES.name, c.DEVICES.help, labels=c.DEVICES.labels)
        idle = CounterMetricFamily(c.IDLE.name, c.IDLE.help, labels=c.IDLE.labels)
        spent = CounterMetricFamily(c.SPENDING.name, c.SPENDING.help, labels=c.SPENDING.labels)
        with self.lock:
            in_state, at_place = dict(self._claims_in), dict(self._devices_in)
            idled = {key: one.until(self._now) for key, one in self._idle.items()}
            spending = self._spent
        for state in CLAIM_STATES:
            claims.add_metric((state,), in_state.get(state, 0))
        for place, count in at_place.items():
            devices.add_metric(place, count)
        for key, micros in idled.items():
            idle.add_metric(key, micros / SECOND)
        for key, micros in spending.items():
            spent.add_metric(key, micros / SECOND)
        yield from (claims, devices, idle, spent)
