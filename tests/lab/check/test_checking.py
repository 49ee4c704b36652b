"""A scaler that is disturbed at any point comes to the same end; a scaler with faults does not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import cast

import pytest

from dds_lab import shipped
from dds_lab.check.branches import Branches, Outcome
from dds_lab.check.campaign import Case, cases, play
from dds_lab.check.oracle import State, differences
from dds_lab.check.perturb import KINDS, Choose, Kind, Perturbation, nothing, only
from dds_lab.check.running import Run, against, played
from dds_lab.check.subjects import Ours, without_hands

SAMPLED = ("first_attach", "two_claims", "rival", "refused_local", "shared_gap", "many_devices")
SMALL = ("attach_failure", "binding_timeout", "cordoned", "cxl_memory", "first_attach", "node_lost", "withdrawn")
TOLD = {one.stem for one in (*Path("tests/data/golden").glob("*.txt"), *Path("tests/data/golden/ours").glob("*.txt"))}
"""Scenarios whose timelines are kept, by the names of the files."""
GOLDEN = sorted(TOLD & set(shipped.names()))


def run(name: str, choose: Choose = nothing) -> Run:
    found = shipped.find(name)
    return played(without_hands(found), Ours, found, found.seed, choose)


@cache
def calm(name: str) -> Run:
    return run(name)


def faults_of(name: str, step: int, first: int, kinds: tuple[Kind, ...] = KINDS) -> list[str]:
    """Of every `step`-th perturbation, beginning with the `first`, what is to be said against the run."""
    found = shipped.find(name)
    told: list[str] = []
    calm = Case(name, found.seed, "ours")
    play(islice(cases(calm, kinds, 1), first, None, step), 1, lambda one: told.extend(map(str, one.said)))
    return told


@pytest.mark.parametrize("name", SAMPLED)
def test_a_run_that_nothing_disturbs_is_clean_and_the_same_each_time(name: str) -> None:
    first = calm(name)
    assert first.found == () and first.state.left == ()
    assert first.events > 40 and first.writes > 15
    assert run(name) == first


@pytest.mark.parametrize("name", SAMPLED)
def test_some_points(name: str) -> None:
    assert faults_of(name, 60, 7) == []


@pytest.mark.full
@pytest.mark.parametrize("name", SMALL)
def test_every_point_of_small_scenarios(name: str) -> None:
    assert faults_of(name, 1, 0) == []


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("name", GOLDEN)
def test_every_point_of_the_scenarios_whose_timelines_are_kept(name: str) -> None:
    assert faults_of(name, 1, 0) == []


def test_each_kind_happens_and_the_process_goes_on() -> None:
    quiet = calm("first_attach")
    for kind in KINDS:
        wanted = Perturbation(kind, 3, 1)
        found = run("first_attach", choose=only(wanted))
        assert found.disturbed == wanted and found.state == quiet.state, kind
    assert run("first_attach", choose=only(Perturbation("dies", quiet.events))).disturbed is None


def test_a_copy_that_leaves_a_run_at_a_point_ends_as_a_run_from_its_beginning() -> None:
    wanted = [
        Perturbation("dies", 20),
        Perturbation("late", 20, 5),
        Perturbation("dies-after", 4),
        Perturbation("dies", 999),
    ]
    outcomes: dict[Perturbation, Outcome] = {}
    branches = Branches(wanted, 2, outcomes.__setitem__)
    branches.play(lambda: run("first_attach", choose=branches.choose))
    assert {one: run("first_attach", choose=only(one)) for one in wanted[:3]} == {
        one: outcomes[one] for one in wanted[:3]
    }
    assert cast(Run, outcomes[wanted[3]]).disturbed is None


def test_a_run_that_breaks_off_does_not_stop_the_others() -> None:
    def broken(at: int, write: bool) -> Perturbation | None:
        chosen = branches.choose(at, write)
        if chosen == Perturbation("dies", 5):
            raise KeyError("lab")
        return chosen

    outcomes: dict[Perturbation, Outcome] = {}
    branches = Branches([Perturbation("dies", at) for at in (4, 5, 6)], 1, outcomes.__setitem__)
    branches.play(lambda: run("first_attach", choose=broken))
    assert [type(one) for one in outcomes.values()] == [Run, str, Run]
    assert outcomes[Perturbation("dies", 5)] == "KeyError: 'lab'"


def test_a_pod_that_waits_for_long_is_found() -> None:
    quiet = Run(1, 1, None, (), {"default/a": 5.0})
    assert list(against(replace(quiet, waited={"default/a": 94.0}), quiet)) == []
    assert list(against(replace(quiet, waited={"default/a": 96.0, "default/b": 91.0}), quiet)) == [
        ("late", "pod default/a waited 96 s, not 5"),
        ("late", "pod default/b waited 91 s, not 0"),
    ]


def test_what_differs_is_said_in_words() -> None:
    wanted = State({"default/a": "Running"}, {"default/a": "not allocated"})
    found = State({}, {"default/a": "not allocated"}, left=("a hold",))
    assert list(differences(wanted, found)) == [
        "pod default/a is gone in the end, not Running",
        "left over: a hold",
    ]
