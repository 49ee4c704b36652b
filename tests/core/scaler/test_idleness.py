"""`idle: adaptive`: what is kept how long, what that may cost, and what it saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_core.errors import PolicyError
from dds_core.kit.policy import MICROSECONDS
from dds_core.model import FabricResource, Node
from dds_core.scaler import events as e
from dds_core.scaler import idleness
from dds_core.scaler.fold.reuse import chosen
from dds_core.scaler.model import Reuse
from dds_core.scaler.policy import read_policy
from tests.support.world import H100, World, one_node

WORTH = 600 * MICROSECONDS


class Pool:
    """Devices of one model and fabric: whoever needs one takes any that idles (`pick`, of so many), else the fabric attaches one.
    `cost` is what the idle times and attaches come to, `best` what they would have come to for one who knew when each device is
    wanted again; both in microseconds of idle time. What is taken away by force is not counted."""

    def __init__(
        self,
        keep: Callable[[Reuse], int] = lambda row: row.keep,
        pick: Callable[[int], int] = lambda number: number - 1,
    ) -> None:
        self.row, self._keep, self._pick = idleness.begun(WORTH), keep, pick
        self.cost = self.best = 0
        self._now = 0
        self._idle: list[int] = []
        self._gone: list[int] = []

    def play(self, steps: Iterable[tuple[int, bool | None]]) -> Pool:
        """Each step: so long after the one before, a device is let go of (True), needed (False), or taken away (None)."""
        for after, freed in steps:
            self._until(self._now + after)
            if freed is not None:
                (self._free if freed else self._need)()
            elif self._idle:
                self._idle.pop(0)
        self._until(self._now + 100 * WORTH)
        assert not self._idle
        self.best += WORTH * len(self._gone)
        return self

    def _until(self, at: int) -> None:
        while self._idle and max(self._now, self._idle[0] + self._keep(self.row)) <= at:
            since = self._idle.pop(0)
            self._now = max(self._now, since + self._keep(self.row))
            self.row = idleness.staked(self.row, WORTH, since, self._now - since)
            assert self.row.credit >= 0 and self.row.keep <= WORTH
            self._gone.append(since)
            self.cost += self._now - since + WORTH
        self._now = at

    def _free(self) -> None:
        self._idle.append(self._now)

    def _need(self) -> None:
        if self._idle:
            since = self._idle.pop(self._pick(len(self._idle)))
            gap = self._now - since
            self.row = idleness.used_again(self.row, WORTH, since, self._now)
            self.cost += gap
            self.best += min(gap, WORTH)
        else:
            self.row = idleness.wanted(self.row, WORTH, self._now)
            if self._gone:
                self.best += min(self._now - self._gone.pop(), WORTH)


SECONDS = st.integers(0, 3 * WORTH)


STEP = st.tuples(SECONDS, st.sampled_from([True, True, False, False, None]))


@given(st.lists(STEP, max_size=300), st.integers(0, 9))
def test_all_gaps_together_never_cost_more_than_twice_the_best_and_one_attach(
    steps: list[tuple[int, bool | None]], seed: int
) -> None:
    pool = Pool(pick=Random(seed).randrange).play(steps)
    assert pool.cost <= 2 * pool.best + WORTH


@given(st.lists(st.tuples(SECONDS, st.booleans()), max_size=100), SECONDS)
def test_before_anything_is_learned_no_gap_costs_more_than_twice_the_best(
    steps: list[tuple[int, bool]], gap: int
) -> None:
    alone = Pool().play([(0, True), (gap, False)])
    assert alone.cost <= 2 * alone.best
    fixed = Pool(lambda row: WORTH).play(steps)
    assert fixed.cost <= 2 * fixed.best


def gaps(*parts: tuple[int, Callable[[Random], float]]) -> list[tuple[int, bool]]:
    """One device, let go of and needed again and again: so many gaps, each so many times as long as an attach is worth."""
    random = Random(7)
    return [
        step
        for number, draw in parts
        for _ in range(number)
        for step in ((0, True), (int(draw(random) * WORTH), False))
    ]


@pytest.mark.parametrize(
    ("drawn", "most"),
    [
        ([(500, lambda r: 3.0)], 0.55),
        ([(500, lambda r: 0.05 if r.random() < 0.7 else 4.0)], 0.7),
        ([(500, lambda r: r.expovariate(1 / 2))], 0.85),
        ([(500, lambda r: 0.5)], 1.0),
        ([(500, lambda r: r.expovariate(4))], 1.02),
        ([(500, lambda r: r.uniform(0, 1.2))], 1.02),
        ([(250, lambda r: 4.0), (250, lambda r: 0.2)], 0.7),
        ([(250, lambda r: 0.2), (250, lambda r: 4.0)], 0.7),
    ],
    ids=[
        "long",
        "short or long",
        "exponential, long",
        "equal",
        "exponential, short",
        "uniform",
        "then short",
        "then long",
    ],
)
def test_what_is_learned_saves(drawn: list[tuple[int, Callable[[Random], float]]], most: float) -> None:
    """Beside keeping each for as long as an attach is worth."""
    steps = gaps(*drawn)
    assert Pool().play(steps).cost <= most * Pool(lambda row: WORTH).play(steps).cost


# -- in the scaler -------------------------------------------------------------------------------------------------------


def adaptive(**more: Any) -> World:
    world = one_node("detach", 8, idle="adaptive", attach_cost=1.0, idle_hour_cost=6.0, **more)
    world.request("ours", "node0", size=1, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("a0", "node0", request="ours")
    return world


def used(world: World, device: str, times: int = 1, then: float = 20) -> None:
    for _ in range(times):
        world.holds("train", "node0", f"gpu-GPU-{device}")
        world.bind("train")
        world.tick(5)
        world.finish("train")
        world.tick(then)


def taught(world: World, times: int = 6) -> str:
    """A device is wanted again within twenty seconds or not within many minutes; gives the one that is there now."""
    for number in range(times):
        used(world, f"a{number}", 3)
        world.tick(700)
        world.gone(world.get(FabricResource, f"a{number}"))
        world.unplug("node0", f"gpu-GPU-a{number}")
        world.online(f"a{number + 1}", "node0", request="ours")
    return f"a{times}"


def reasons(world: World, device: str) -> list[str]:
    return [one.reason for one in world.events(e.VictimMarked) if one.resource == device]


def test_it_keeps_a_device_as_long_as_an_attach_is_worth_until_it_knows_better() -> None:
    world = adaptive(no_removal_seconds=5)
    used(world, "a0", then=598)
    assert not reasons(world, "a0")
    world.tick(3)
    assert reasons(world, "a0") == ["idle for 600 s"]


def test_it_gives_it_back_as_soon_as_it_pays_and_says_why() -> None:
    world = adaptive()
    now = taught(world)
    used(world, now, then=37)
    assert not reasons(world, now)
    world.tick(1)
    assert reasons(world, now) == [
        "idle for 37 s; of the last 18 that idled 12 were wanted again within 37 s and 6 not within 600 s, "
        "which is what an attach is worth"
    ]


def test_what_may_not_go_for_long_is_kept_no_longer_for_that() -> None:
    """Seed 50008: each device that waited for its turn to go made the next one wait longer."""
    world = adaptive(detaches_per_hour=0)
    now = taught(world)
    used(world, now, then=5000)
    world.change_policy(detaches_per_hour=60)
    world.tick(60)
    assert reasons(world, now)
    assert world.state.idle_time("node0", "A100 40G") <= WORTH


def test_it_learns_by_model() -> None:
    world = adaptive()
    taught(world)
    world.request("theirs", "node0", H100, size=1, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("c", "node0", H100, request="theirs")
    used(world, "c", then=598)
    assert not reasons(world, "c")


def test_another_worth_is_learned_anew() -> None:
    world = adaptive()
    now = taught(world)
    assert len(world.state.lifecycle.reuse.rows["1", "A100 40G"].gaps) == 18
    world.change_policy(idle_hour_cost=12.0)
    assert not world.state.lifecycle.reuse.rows
    used(world, now, then=298)
    assert not reasons(world, now)
    world.tick(3)
    assert reasons(world, now) == ["idle for 300 s"]


def test_what_it_attached_for_a_claim_is_no_use_again() -> None:
    world = one_node("detach", 8, idle="adaptive")
    world.claim("train")
    world.allocate("train", "node0")
    world.carry_out()
    world.online("res", "node0", request=world.events(e.AttachOrdered)[-1].request)
    world.tick(30)
    world.allocate_local("train", "node0", "gpu-GPU-res")
    assert all(not row.gaps for row in world.state.lifecycle.reuse.rows.values())


def row_of(world: World) -> Reuse:
    return world.state.lifecycle.reuse.rows["1", "A100 40G"]


def test_what_is_wanted_while_it_leaves_is_a_gap() -> None:
    world = adaptive()
    used(world, "a0", then=601)
    assert reasons(world, "a0") and row_of(world).gone
    world.online("next", "node0", request="ours")
    assert not row_of(world).gone and 600 <= row_of(world).gaps[-1] / MICROSECONDS <= 602


def test_what_goes_before_its_time_for_another_reason_teaches_nothing() -> None:
    """As `rebalance` does: the credit went below nothing, and devices were kept for hours."""
    world = adaptive()
    taught(world)
    used(world, "a6", then=1)
    before = row_of(world)
    chosen(world.state, "a6", world.now)
    assert row_of(world) == before and not world.state.lifecycle.devices.rows["a6"].chosen


def test_a_node_that_vanishes_leaves_nothing_that_grows() -> None:
    world = adaptive()
    for number in range(6):
        used(world, f"a{number}", then=601)
        world.gone(world.get(Node, "node0"))
        world.gone(world.get(FabricResource, f"a{number}"))
        world.node("node0")
        world.tick(1200)
        world.online(f"a{number + 1}", "node0", request="ours")
    assert all(len(row.gone) <= 1 for row in world.state.lifecycle.reuse.rows.values())
    assert row_of(world).credit >= WORTH


def test_with_a_fixed_time_nothing_is_learned() -> None:
    world = one_node("detach", 8, no_removal_seconds=600)
    world.request("ours", "node0", size=1, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("a0", "node0", request="ours")
    life = world.state.lifecycle.devices.rows[taught(world)]
    assert not world.state.lifecycle.reuse.rows and not life.used and not life.chosen


@pytest.mark.parametrize("cost", [0, 1e-9, 1e9, -1, "inf"])
def test_a_worth_that_is_none_is_refused(cost: Any) -> None:
    with pytest.raises(PolicyError, match="attach_cost"):
        read_policy({"idle": "adaptive", "attach_cost": cost})
