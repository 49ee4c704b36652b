"""Random fleets with both our programs in them: nothing that must not happen does, and in the end all is as it should be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dds_core.errors import Fenced
from dds_lab.check.fleets import Blow, Draw, fleet_of
from dds_lab.check.playing import FleetRun, fleet_cases, fleet_run, played
from dds_lab.scenario.checks import problems

FEW = (8, 13, 16, 18)
CORPUS = {
    1: "partitions of a small GPU, and three fabrics",
    3: "a log whose answers are lost, and a leader that stands still",
    5: "four models on one node, and pools that are too small",
    6: "a device that falls off its bus before anybody saw it",
    7: "an API server that is away, and another policy for a while",
    12: "a pod that wants more than one node may have, and another node that is lost",
    14: "all that can befall processes within fifteen minutes",
    15: "a scaler that attaches only, and an order that is carried out half an hour late",
    17: "four models, kills and pauses",
    20: "three fabrics and two replicas",
    25: "a fabric that refuses everything and attaches some of it",
    32: "a node that is silent while its device goes to another one, whose driver does not see it",
    34: "a claim of four choices that the fabric refuses one after the other",
    51: "fifteen devices that go back at once",
}
"""Seeds that have to stay clean, with what they are rich in. One that finds something comes here when that is mended."""


@pytest.mark.parametrize("seed", FEW)
def test_a_few_fleets(seed: int) -> None:
    assert played(seed).found == ()


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", CORPUS)
def test_fleets_that_stay_clean(seed: int) -> None:
    assert played(seed).found == (), CORPUS[seed]


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("turn", range(10))
def test_two_hundred_fleets(turn: int) -> None:
    found = [one for one in fleet_cases(range(turn * 20 + 1000, turn * 20 + 1020)) if one.found]
    assert [(one.seed, one.found) for one in found] == []


def test_a_seed_draws_the_same_each_time_and_a_scenario_that_can_be_played() -> None:
    for seed in range(30):
        fleet = fleet_of(seed)
        assert fleet == fleet_of(seed) and list(problems(fleet.scenario)) == []
    draw = Draw(1)
    assert [draw.whole(0, 9) for _ in range(8)] == [1, 8, 7, 2, 4, 4, 6, 7]


def test_seeds_draw_everything() -> None:
    fleets = [fleet_of(seed) for seed in range(120)]
    clusters = [one.scenario.cluster for one in fleets]
    assert {len(one.fabrics) for one in clusters} == {1, 2, 3} and {len(one.models) for one in clusters} == {1, 2, 3, 4}
    assert min(len(one.node_names()) for one in clusters) == 1 and max(len(one.node_names()) for one in clusters) >= 15
    assert {one.replicas for one in fleets} == {1, 2, 3} and {one.policy.mode for one in fleets} == {
        "observe", "attach", "detach",
    }  # fmt: skip
    kinds = {blow.kind for one in fleets for blow in one.blows}
    assert kinds == {"kill", "stop", "pause", "cut", "log", "log-answer", "api", "policy"}
    steps = {step.action for one in fleets for step in one.scenario.steps}
    assert steps >= {"cordon", "drain", "silence", "drop_out", "resize", "restart", "relist", "lose_node", "withdraw"}
    assert {one.publish is None for one in fleets} == {True, False}


def test_what_a_seed_draws_can_be_had() -> None:
    """Else what is found is nobody's fault."""
    for seed in range(120):
        scenario = fleet_of(seed).scenario
        for model in scenario.cluster.models:
            sizes = (
                [int(one.split(".")[1].removesuffix("gb")) for one in model.partitions.profiles]
                if model.partitions
                else [0]
            )
            assert max(sizes) <= int(model.memory.removesuffix("Gi")), seed
        assert all(step.drop_out.lasts for step in scenario.steps if step.drop_out is not None), seed
        operator = scenario.parts.operator
        assert operator is not None and (operator.watch_slices or operator.plugin_rest), seed
    assert fleet_of(12).unservable == {"odd2"}, "the node that may have two is lost"


def _with(seed: int, *blows: Blow) -> FleetRun:
    with fleet_run(replace(fleet_of(seed), blows=blows, replicas=2)) as run:
        run.lab.run(300)
    return run


def test_a_leader_that_stood_still_finds_that_another_one_leads() -> None:
    run = _with(8, Blow(60.0, "pause", "scaler", 90.0))
    first, second = run.processes["scaler"]
    assert not first.alive and first.leads() == 0.0
    assert first.crashed is None or isinstance(first.crashed, Fenced)
    assert second.decider.epoch == first.decider.epoch + 1


def test_who_is_killed_is_followed_by_another_when_its_lease_is_over_and_who_stops_at_once() -> None:
    killed, stopped = (_with(8, Blow(60.0, kind, "scaler", 250.0)) for kind in ("kill", "stop"))
    for run, soonest, latest in ((killed, 90.0, 130.0), (stopped, 60.0, 80.0)):
        began = list(run.logs["scaler"].read(types={"Started"}))
        assert len(began) == 2
        assert soonest < (began[1].occurred_at - run.fleet.scenario.start) / 1e6 < latest
