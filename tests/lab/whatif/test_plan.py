"""How big a pool has to be: what an objective may say, and that the search finds what playing everything finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from dds_core.errors import InputError
from dds_core.scaler.policy import Policy, read_policy
from dds_lab.scenario import parse
from dds_lab.scenario.cluster import Nodes
from dds_lab.scenario.scenario import Run as Pod
from dds_lab.scenario.workload import Arrival
from dds_whatif.plan import IDLE_SECONDS, OutOfReach, Plan, Planner, objective_of
from dds_whatif.sweep import Cell, Run, Store, Wanted, changed, swept, wanted
from dds_whatif.world import Fitted
from tests.lab.whatif.test_sweep import POLICY, Counting

SEEDS = (1,)
MODEL = Fitted(
    parse(
        """
duration: 4m
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 6}}]
  nodes: [{count: 3}]
parts: {operator: {kind: ideal}, scaler: false, fabric: {attach: {between: [2s, 3s]}, detach: {between: [1s, 2s]}}}
""",
        "a test",
    ),
    tuple(
        Arrival(at=5.0 + 4.0 * n, run=Pod(name=f"p{n}", devices={"nvidia-a100-40": 1}, delete_after=20.0))
        for n in range(10)
    ),
    (),
    (),
)


@pytest.mark.parametrize(
    ("text", "measure", "most"),
    [
        ("p95 wait <= 60s", "wait p95", 60.0),
        ("  MEAN wait<=1.5m ", "wait mean", 90.0),
        ("max wait <= 2h", "wait max", 7200.0),
        ("never bound <= 0", "never bound", 0.0),
    ],
)
def test_an_objective(text: str, measure: str, most: float) -> None:
    assert objective_of(text)[1:] == (measure, most)


@pytest.mark.parametrize(
    "text", ["", "p95", "p99 wait <= 60s", "p95 wait >= 60s", "p95 wait <= 60", "never bound <= 5s"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no objective"):
        objective_of(text)


class Player:
    """Plays here, and nothing twice."""

    def __init__(self) -> None:
        self._store = Store()

    def __call__(self, runs: Sequence[Wanted]) -> list[Run]:
        return swept(runs, Counting(), self._store, 1)

    def measures(self, cell: Cell) -> dict[str, float]:
        runs = self(wanted(MODEL, POLICY, [cell], SEEDS, "brute force"))
        return {name: fmean(one.measures[name] for one in runs) for name in runs[0].measures}


@pytest.fixture(scope="module")
def play() -> Player:
    return Player()


def planned(play: Player, *texts: str, policy: Policy = POLICY) -> Plan:
    return Planner(MODEL, policy, [objective_of(text) for text in texts], SEEDS, play).plan()


@pytest.mark.parametrize("text", ["max wait <= 60s", "p95 wait <= 70s", "max wait <= 110s", "mean wait <= 45s"])
def test_it_finds_the_least_that_is_enough_as_playing_every_size_does(play: Player, text: str) -> None:
    objective = objective_of(text)
    plan = planned(play, text)
    brute = {size: play.measures({"pools.A100 40G": size}) for size in range(8)}
    never = brute[6]["never bound"]
    enough = [size for size, found in brute.items() if objective.met(found) and found["never bound"] <= never]
    assert plan.pools == {"A100 40G": min(enough)} and plan.today == {"A100 40G": 6}
    assert all(objective.met(brute[size]) for size in range(min(enough), 8)), "the search rests on this"
    assert objective.met(plan.then)


def test_the_limit_of_a_node_is_the_least_that_is_enough(play: Player) -> None:
    plan = planned(play, "max wait <= 60s")
    pools = {f"pools.{name}": number for name, number in plan.pools.items()}
    met = [
        limit
        for limit in range(1, 7)
        if plan.objectives[0].met(
            play.measures({**pools, "policy.limit": {"max": limit, "min": 0}, "policy.limits": {}})
        )
    ]
    assert plan.node == min(met)


def test_an_idle_time_is_the_cheapest_by_the_prices_of_the_policy(play: Player) -> None:
    """One node, to which a pod comes each minute."""
    rare = tuple(Arrival(at=5.0 + 60.0 * n, run=one.run) for n, one in enumerate(MODEL.arrivals[:3]))
    cluster = MODEL.scenario.cluster.model_copy(update={"nodes": (Nodes(count=1),)})
    model = replace(MODEL, arrivals=rare, scenario=MODEL.scenario.model_copy(update={"cluster": cluster}))
    objectives = [objective_of("max wait <= 200s")]
    dear = Planner(model, POLICY.model_copy(update={"idle_hour_cost": 3600.0}), objectives, SEEDS, play).plan()
    cheap = Planner(model, POLICY.model_copy(update={"attach_cost": 100.0}), objectives, SEEDS, play).plan()
    assert dear.idle in (None, 0) and (cheap.idle is None or cheap.idle >= 20)
    assert dear.then["attaches"] > cheap.then["attaches"] == 1


def test_no_worker_waits_between_idle_times_nor_for_prewarming(play: Player) -> None:
    """Whatever the next decision needs is handed over at once."""
    handed: list[int] = []

    def counted(runs: Sequence[Wanted]) -> list[Run]:
        handed.append(len(runs))
        return play(runs)

    Planner(MODEL, POLICY, [objective_of("max wait <= 90s")], SEEDS, counted).plan()
    assert handed[-2] >= len(IDLE_SECONDS) and handed[-1] >= 1


def test_what_was_played_is_told(play: Player) -> None:
    plan = planned(play, "max wait <= 90s")
    points = plan.curves["A100 40G"]
    assert {one.value for one in points if one.met} and {one.value for one in points if not one.met}
    assert all(one.met for one in points if one.value is not None and one.value >= plan.pools["A100 40G"])
    assert {one.value for one in plan.curves["idle"]} >= {None, 0, 60, 20}


def test_a_pool_that_is_too_small_grows(play: Player) -> None:
    small, _ = changed(MODEL, POLICY, {"pools.A100 40G": 1}, "a test")
    plan = Planner(small, POLICY, [objective_of("max wait <= 90s")], SEEDS, play).plan()
    assert plan.today == {"A100 40G": 1} and 1 < plan.pools["A100 40G"] < 6
    assert plan.now["wait max"] > 90 >= plan.then["wait max"]


def test_the_limits_and_minima_of_the_policy_stay(play: Player) -> None:
    policy = read_policy(
        {**POLICY.model_dump(mode="json"), "limit": {"max": 2, "min": 1}, "limits": {"node0000/A100 40G": {"max": 1}}}
    )
    plan = Planner(MODEL, policy, [objective_of("never bound <= 10")], SEEDS, play).plan()
    assert plan.cell["policy.limit"] == {"max": min(2, plan.node), "min": 1}
    assert plan.cell["policy.limits"] == {"node0000/A100 40G": {"max": 1, "min": 0}}


def test_a_policy_whose_prices_are_none_to_learn_by_is_planned_without(play: Player) -> None:
    policy = POLICY.model_copy(update={"idle_hour_cost": 0.01})
    plan = Planner(MODEL, policy, [objective_of("max wait <= 200s")], SEEDS, play).plan()
    assert plan.idle is not None and None not in {one.value for one in plan.curves["idle"]} and plan.met


def test_what_no_pool_can_meet_is_told_with_what_came_of_it(play: Player) -> None:
    with pytest.raises(OutOfReach, match=r"32 times as many devices do not meet it: wait p95 is .*, not 0\.5"):
        planned(play, "p95 wait <= 0.5s")
