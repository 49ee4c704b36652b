"""A process that ends at any boundary, of an append or of a write, leaves nothing that the next one does not make good.

No device is attached twice for one need, none detached under a claim, nothing that was committed is lost, and the log proves
itself. On virtual time, so that each boundary is hit exactly: some of them here, all of them in the soak.
"""

from __future__ import annotations

from random import Random

import pytest

from dds_core.log.chain import verify_log
from dds_lab.driver import SCALER_USER, OurScaler, OurTimes, _Followed
from dds_lab.judge.scaler import Judge
from dds_lab.lab import Lab
from dds_lab.latency import LogNormal
from dds_lab.setup import install_guard
from tests.support.exits import Boundaries, Kind, When, crashed
from tests.support.expected_ends import ENDS, survived
from tests.support.ours import new_log, policy_for, told_to_us
from tests.support.over_http import hurried, measure_at

AWAY = (1.0, 0.05, 20.0)
KINDS: tuple[tuple[Kind, When], ...] = (
    ("append", "before"),
    ("append", "after"),
    ("write", "before"),
    ("write", "after"),
)

NOT_EVERY = {"burst", "faults", "empty", "playground", "shares", "preempted", "ready_mode"}
"""Too long, nothing to do, or a story that goes on at its own instants and leaves no time for a process to be away."""


def passed(name: str) -> dict[tuple[Kind, When], int]:
    """How many boundaries a run has that nobody ends."""
    boundaries = Boundaries()
    survived(crashed(name, boundaries), ENDS[name])
    return boundaries.passed


def at_every(name: str, step: int, first: int = 0, seed: int | None = None) -> int:
    """End a process at each `step`-th boundary of each kind, and say at how many."""
    ended, there = 0, passed(name)
    for kind, when in KINDS:
        for number in range(first, there[kind, when], step):
            boundaries = Boundaries(kind, number, when)
            run = crashed(name, boundaries, away=AWAY[number // step % len(AWAY)], seed=seed)
            assert boundaries.reached or seed is not None
            try:
                survived(run, ENDS[name])
            except AssertionError as fault:
                raise AssertionError(f"{name}, ended {when} {kind} {number}: {fault}") from fault
            ended += 1
    return ended


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize(("name", "step"), [("first_attach", 3), ("two_claims", 4), ("many_devices", 6)])
def test_whichever_boundary_a_process_ends_at_the_next_one_goes_on(name: str, step: int, turn: int) -> None:
    assert at_every(name, 3 * step, first=step * turn) >= 16


@pytest.mark.parametrize("name", ["coexistence", "extended_resource", "node_limit", "attach_failure", "withdrawn"])
def test_at_some_boundaries_of_others(name: str) -> None:
    assert at_every(name, 20, first=3) >= 10


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(set(ENDS) - NOT_EVERY))
@pytest.mark.parametrize("turn", range(3))
def test_at_every_boundary(name: str, turn: int) -> None:
    assert at_every(name, 3, first=turn) > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_the_middle_of_a_burst(seed: int) -> None:
    assert at_every("burst", 23, first=seed, seed=seed) > 60


# -- at random instants, of a process that hears and writes slowly

KILLS = 10
SLOW = OurTimes(watch=LogNormal(0.012, 0.8, 0.9), write=LogNormal(0.018, 0.8, 0.9), turn=0.009)


class Uneven(OurScaler):
    """Its lists are made at instants of their own, so that each shows another moment of the cluster."""

    def start(self) -> None:
        self.controller.open(self._now())
        self.alive = True
        known = self.controller.seeds()
        for one in self.controller.watched():
            followed = self._followed[one.resource] = _Followed(self, one, known.get(one.resource, ()))
            self._time.after(self._random.uniform(0.0, 0.15), followed.begin)
        self.controller.begin()


def killed_at_random(seed: int, *, guarded: bool) -> Judge:
    random = Random(seed)
    scenario, policy = hurried(told_to_us("burst"), 2.0), policy_for("burst", no_removal_seconds=8)
    log = new_log(scenario)
    with Lab.virtual(scenario, seed=seed) as lab:
        if guarded:
            install_guard(lab.client("installer"), SCALER_USER)
        judge = Judge(lab, measure_at(1.0))
        instances: list[Uneven] = []

        def begin() -> None:
            instances.append(Uneven(lab, log, policy, times=SLOW))
            instances[-1].start()
            if len(instances) <= KILLS:
                lab.time.after(random.uniform(0.1, 4.5), kill)

        def kill() -> None:
            instances[-1].kill()
            lab.time.after(random.uniform(1.0, 2.0), begin)

        begin()
        lab.run(until=scenario.start + round((scenario.duration + 240.0) * 1_000_000))
        instances[-1].kill()
    verify_log(log)
    return judge


def no_device_too_many(seed: int, *, guarded: bool) -> None:
    """That a pod comes between the last look and the detach, and takes the device, is the risk that stays."""
    assert killed_at_random(seed, guarded=guarded).rules.keys() <= {"detached in use"}


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("seed", [27, 75, 80])
def test_ten_kills_at_random_instants(seed: int, guarded: bool) -> None:
    no_device_too_many(seed, guarded=guarded)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(1000, 1200, 50))
def test_very_many_kills_at_random_instants(first: int) -> None:
    for seed in range(first, first + 50):
        no_device_too_many(seed, guarded=seed % 2 == 0)
