"""A scaler that is disturbed at any point comes to the same end; a scaler with faults does not."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest

from dds_lab import shipped
from dds_lab.check.oracle import State, differences
from dds_lab.check.perturb import KINDS, Kind, Perturbation, perturbations
from dds_lab.check.running import Run, against, played
from dds_lab.check.subjects import Cast, Ours, StandIn, with_stand_in, without_hands

SMALL = ("first_attach", "two_claims", "rival", "refused_local", "shared_gap", "many_devices")


def run(name: str, cast: Cast = Ours, perturbation: Perturbation | None = None) -> Run:
    found = shipped.find(name)
    scenario = without_hands(found) if cast is Ours else with_stand_in(found)
    return played(scenario, cast, found, found.seed, perturbation)


@cache
def calm(name: str, cast: Cast = Ours) -> Run:
    return run(name, cast)


def faults_of(name: str, step: int, first: int, kinds: tuple[Kind, ...] = KINDS) -> list[str]:
    """Of every `step`-th perturbation, beginning with the `first`, what is to be said against the run."""
    quiet = calm(name)
    chosen = islice(perturbations(quiet.events, quiet.writes, kinds), first, None, step)
    told = []
    for one in chosen:
        found = run(name, perturbation=one)
        assert found.reached
        told += [f"{one} {rule}: {words}" for rule, words in against(found, quiet)]
    return told


@pytest.mark.parametrize("name", SMALL)
def test_a_run_that_nothing_disturbs_is_clean_and_the_same_each_time(name: str) -> None:
    first = calm(name)
    assert first.found == () and first.state.left == ()
    assert first.events > 40 and first.writes > 15
    assert run(name) == first


@pytest.mark.parametrize("name", SMALL)
def test_some_points_of_small_scenarios(name: str) -> None:
    assert faults_of(name, 60, 7) == []


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("turn", range(4))
def test_every_point_of_the_smallest(turn: int) -> None:
    assert faults_of("first_attach", 4, turn) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SMALL)
def test_every_point_of_small_scenarios(name: str) -> None:
    assert faults_of(name, 1, 0) == []


def test_each_kind_happens_and_the_process_goes_on() -> None:
    quiet = calm("first_attach")
    for kind in KINDS:
        found = run("first_attach", perturbation=Perturbation(kind, 3, 1))
        assert found.reached and found.state == quiet.state, kind
    assert not run("first_attach", perturbation=Perturbation("dies", quiet.events)).reached


def test_the_stand_in_is_found_out() -> None:
    """Its restart forgets what it promised: the pod that waits is told of a device that another one has."""
    quiet = calm("many_devices", StandIn)
    told = [
        words
        for one in islice(perturbations(quiet.events, quiet.writes), 0, None, 25)
        for words in against(run("many_devices", StandIn, one), quiet)
    ]
    assert told


def test_what_differs_is_said_in_words() -> None:
    wanted = State({"default/a": "Running"}, {"default/a": "not allocated"})
    found = State({}, {"default/a": "not allocated"}, left=("a hold",))
    assert list(differences(wanted, found)) == [
        "pod default/a is gone in the end, not Running",
        "left over: a hold",
    ]
