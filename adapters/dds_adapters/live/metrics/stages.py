"""How long each stage of a claim's wait took: allocated, asked for, ready, told, bound.

A stage is measured when this process saw both its ends. What is kept of a claim is dropped when its wait is over. A claim that
found its devices on a node from the start never waits here.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from dds_adapters.live.metrics import catalogue as c
from dds_adapters.live.metrics.instruments import counters, histograms
from dds_core.events import ClaimMoved, ClaimObserved, HandOver
from dds_core.lifecycle import WAITING
from dds_core.model import FAILED_CONDITION, Condition

SECOND = 1_000_000
NO_STEERING = "none"
_OURS = "FabricDevice"
"""Begins the names of the conditions by which a scheduler is told of a device."""


@dataclass(slots=True)
class _Course:
    """Instants of one claim's wait, 0 where not seen: of the cycle's first allocation, then of the attempt."""

    began: int
    allocated: int
    ordered: int = 0
    ready: int = 0
    told: int = 0
    steering: str = NO_STEERING


class Stages:
    """Follows the claims that wait."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._took = histograms(c.STAGE, registry)
        self._landings = counters(c.LANDINGS, registry)
        self._courses: dict[str, _Course] = {}

    def __len__(self) -> int:
        """How many claims are followed."""
        return len(self._courses)

    def forget(self, uid: str) -> None:
        """The claim was deleted."""
        self._courses.pop(uid, None)

    def observed(self, fact: ClaimObserved, at: int) -> None:
        """A claim changed: whether the scheduler was told that its devices are there."""
        course = self._courses.get(fact.uid)
        if course is None or course.told:
            return
        conditions: object = fact.changes.conditions  # UNSET where they did not change
        if isinstance(conditions, tuple) and any(map(_tells, conditions)):
            course.told = at
            self._measure("signal", course.ready, at)

    def handed_over(self, decision: HandOver) -> None:
        """A hand-over of ours, in a mode that writes."""
        for signal in decision.signals:
            course = self._courses.get(signal.claim)
            if course is not None:
                course.steering = decision.steering

    def moved(self, move: ClaimMoved, at: int) -> None:
        """A step of a claim."""
        course = self._courses.get(move.claim)
        if move.landed:
            self._landings[(course.steering if course is not None else NO_STEERING, move.landed)].inc()
        match move.trigger:
            case "allocated_pool":
                begun = move.began or at  # what a start finds is older than the start
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
