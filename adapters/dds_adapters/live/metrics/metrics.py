"""`Metrics`: a watcher of commits that counts what was committed.

Work is in proportion to the events of a commit; only a picture that was folded anew is counted through, on the thread that
decides. Scrapes come from another thread and never see the picture.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from dds_adapters.live.metrics import catalogue as c
from dds_adapters.live.metrics.common import Common, Row
from dds_adapters.live.metrics.fleet import Fleet
from dds_adapters.live.metrics.instruments import counters, gauge, histograms
from dds_adapters.live.metrics.sources import Asked, Sources
from dds_adapters.live.metrics.stages import Stages
from dds_core import events as e
from dds_core.events import Event
from dds_core.lifecycle import GONE, LEAVING, REQUESTED
from dds_core.picture import Picture
from dds_core.policy import MODES

LOG = logging.getLogger("dds.metrics")

SECOND = 1_000_000


class Metrics:
    """All metrics of the scaler, in the registry that is given."""

    def __init__(
        self, registry: CollectorRegistry, *, version: str, fingerprint: str, sources: Sources | None = None
    ) -> None:
        self._common = Common(registry, version=version, fingerprint=fingerprint, modes=MODES)
        self._picture: Picture | None = None
        self._fleet = Fleet(registry)
        self._stages = Stages(registry)
        self._transitions = counters(c.TRANSITIONS, registry)
        self._states = histograms(c.CLAIM_STATE, registry)
        self._bound = counters(c.BOUND, registry)
        self._attaches = counters(c.ATTACHES, registry)
        self._attach = histograms(c.ATTACH, registry)
        self._departures = counters(c.DEPARTURES, registry)
        self._hand_overs = counters(c.HAND_OVERS, registry)
        self._gauges = tuple((gauge(named, registry), read) for named, read in _FROM_PICTURE)
        Asked(sources or Sources(), registry)
        self._take: dict[type[Event], Callable[[Any, int, Picture], None]] = {
            e.ClaimObserved: lambda fact, at, picture: self._stages.observed(fact, at),
            e.ClaimGone: self._claim_gone,
            e.NodeGone: lambda fact, at, picture: self._fleet.node_gone(picture),
            e.ClaimMoved: self._claim_moved,
            e.DeviceMoved: self._device_moved,
            e.HandOver: self._handed_over,
        }

    # -- the thread that decides ---------------------------------------------------------------------------------------

    def committed(self, steps: Sequence[Row], picture: Picture) -> None:
        """Count what is in the log now. `picture` may already know more than that."""
        with self._fleet.lock:
            for one in steps:
                self._counted(one, picture)
            if picture is not self._picture:
                self._picture = picture
                self._fleet.recount(picture)
        for instrument, read in self._gauges:
            instrument.set(read(picture))
        self._common.show(steps, picture)

    def _counted(self, one: Row, picture: Picture) -> None:
        """A fault of ours must not reach the thread that decides: it costs what it could not count."""
        try:
            self._group(one, picture)
        except Exception as error:
            self._picture = None  # count through what stands now
            self._common.uncounted.inc()
            LOG.error("a group cannot be counted (%s); please report it", type(error).__name__)

    def _group(self, one: Row, picture: Picture) -> None:
        step, at = one.step, one.step.at
        self._fleet.passed(at)
        self._common.count(one)
        self._follow(step.fact, at, picture)
        for event, _ in step.caused:
            self._follow(event, at, picture)

    def _follow(self, event: Event, at: int, picture: Picture) -> None:
        take = self._take.get(type(event))
        if take is not None:
            take(event, at, picture)

    def _handed_over(self, decision: e.HandOver, at: int, picture: Picture) -> None:
        self._hand_overs[(decision.steering, decision.mode)].inc()
        if decision.mode != MODES[0]:
            self._stages.handed_over(decision)

    def _claim_gone(self, fact: e.ClaimGone, at: int, picture: Picture) -> None:
        self._fleet.claim_gone(fact.uid, picture)
        self._stages.forget(fact.uid)

    def _claim_moved(self, move: e.ClaimMoved, at: int, picture: Picture) -> None:
        self._transitions[("claim", move.trigger)].inc()
        if move.source and move.source != move.target:
            known = self._fleet.claim(move.claim)
            if known is not None and known.state == move.source:
                self._states[(move.source,)].observe((at - known.since) / SECOND)
        if move.trigger == "pod_bound":
            self._count_bound(move.claim, picture)
        self._stages.moved(move, at)
        self._fleet.claim_moved(move.claim, move.target, at, picture)

    def _count_bound(self, uid: str, picture: Picture) -> None:
        life = picture.lives.get(uid)
        if life is None or life.allocation is None:
            return
        for _, _, model in picture.pool_results(life.allocation):
            self._bound[(model.model,)].inc()
        for result in picture.local_results(life.allocation):
            resource = picture.resource_of(result.key)
            if resource is not None:
                self._bound[(resource.model,)].inc()

    def _device_moved(self, move: e.DeviceMoved, at: int, picture: Picture) -> None:
        self._transitions[("device", move.trigger)].inc()
        known = self._fleet.device(move.resource)
        self._fleet.device_moved(move.resource, move.target, at, picture)
        now = self._fleet.device(move.resource) or known
        model = now.model if now is not None else ""
        if move.source == REQUESTED and move.trigger in ("online", "taken"):
            self._attaches[(model,)].inc()
            if known is not None:
                self._attach[(model,)].observe((at - known.since) / SECOND)
        elif move.target == GONE and move.source != REQUESTED:
            self._departures[(model, "detached" if move.source == LEAVING else "lost")].inc()


_FROM_PICTURE: tuple[tuple[c.Named, Callable[[Picture], float]], ...] = (
    (c.ORDERS, lambda picture: len(picture.orders)),
    (c.RESERVATIONS, lambda picture: len(picture.reservations)),
    (c.VICTIMS, lambda picture: len(picture.fences)),
    (c.COOLING, lambda picture: len(picture.cooling)),
)
"""What one look at the picture's tables tells, after each commit."""
