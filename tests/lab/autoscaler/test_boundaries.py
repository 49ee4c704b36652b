"""An autoscaler that ends at any boundary, of an append, a write, or a call to the provider of servers: no server is made twice
for an order, none is lost, and what Cluster Autoscaler sees is true at each refresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dds_core.autoscaler.component import AUTOSCALER
from dds_core.log import MemoryLog
from dds_core.log.chain import verify_log
from dds_core.replay import verify
from dds_lab.autoscaling import OurAutoscaler
from dds_lab.lab import Lab
from tests.lab.autoscaler.rack import Rack, Wanting, empty, policy, unreachable
from tests.support.exits import Boundaries, Exit, Kind, Watched, When

THERE = ["s0", "s1"]
KINDS: tuple[tuple[Kind, When], ...] = (
    ("append", "before"),
    ("append", "after"),
    ("write", "before"),
    ("write", "after"),
    ("call", "before"),
    ("call", "after"),
)


class Story:
    """Two servers more, then two less."""

    def __init__(self, boundaries: Boundaries, away: float) -> None:
        scenario = empty()
        self.log: Any = Watched(MemoryLog("lab/autoscaler", cluster="uid", recorded_at=scenario.start))
        self._away = away
        with Lab.virtual(scenario) as lab:
            self.lab = lab
            self.rack = Rack(lab, THERE)
            self.ours = self._another()
            self.caller = Wanting(lab, lambda: self.ours.provider, 2)
            boundaries.watch(self)  # type: ignore[arg-type]
            begin: Callable[[], None] = self.ours.start
            for wanted, until in ((4, 150), (4, 200), (2, 320), (2, 420)):
                self.caller.wanted = wanted
                begin = self._play(begin, scenario.start + until * 1_000_000)
                if until == 200:
                    self.grown = lab.client("test").list("nodes")
            self.names = self.rack.names
            self.nodes = sorted(one["metadata"]["name"] for one in lab.client("test").list("nodes"))

    def _another(self) -> OurAutoscaler:
        return OurAutoscaler(self.lab, self.log, policy(), self.rack)

    def _play(self, begin: Callable[[], None], until: int) -> Callable[[], None]:
        while True:
            try:
                begin()
                self.lab.run(until=until)
                return _nothing
            except Exit:
                begin = self._succeed

    def _succeed(self) -> None:
        """The process is gone; after a while there is another."""
        self.log.before = self.log.after = self.rack.before = self.rack.after = _nothing
        self.ours.kill()
        self.lab.time.after(self._away, self._begin_anew)

    def _begin_anew(self) -> None:
        self.ours = self._another()
        self.ours.start()

    def sound(self) -> None:
        assert self.caller.wrong == []
        assert self.ours.faults == [] and self.ours.crashed is None
        assert set(self.rack.made.values()) == {1}, "one server for an order"
        assert self.names == self.nodes and len(self.names) == 2, "none is lost, and none is left"
        assert len(self.grown) == 4 and not any(one["spec"].get("taints") for one in self.grown), "all may be used"
        assert self.rack.made.total() == 2, "nothing was ordered twice"
        verify_log(self.log.log)
        assert verify(self.log.log.read(), AUTOSCALER).ok


def _nothing() -> None: ...


def test_nobody_ends_it() -> None:
    boundaries = Boundaries()
    Story(boundaries, 1.0).sound()
    assert min(boundaries.passed[kind] for kind in KINDS) >= 4


@pytest.mark.parametrize("away", [0.3, 25.0])
@pytest.mark.parametrize(("kind", "when"), KINDS)
def test_whichever_boundary_it_ends_at_the_next_one_goes_on(kind: Kind, when: When, away: float) -> None:
    counted = Boundaries()
    Story(counted, away)
    for number in range(counted.passed[kind, when]):
        boundaries = Boundaries(kind, number, when)
        story = Story(boundaries, away)
        assert boundaries.reached
        try:
            story.sound()
        except AssertionError as fault:
            raise AssertionError(f"ended {when} {kind} {number}: {fault}") from fault


@pytest.mark.parametrize("when", ["before", "after"])
def test_answers_of_the_provider_that_are_lost(when: str) -> None:
    class Losing(Boundaries):
        def _pass(self, kind: Kind, which: When) -> None:
            number = self.passed.get((kind, which), 0)
            self.passed[kind, which] = number + 1
            if kind == "call" and which == when and number % 2 == 0:
                unreachable()

    story = Story(Losing(), 1.0)
    story.sound()
