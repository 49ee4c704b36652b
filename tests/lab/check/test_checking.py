"""A scaler that is disturbed at any point comes to the same end; a scaler with faults does not."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import cast

import pytest

from dds_adapters.kubernetes.cluster import Unreachable
from dds_core.scaler.component import SCALER
from dds_lab import shipped
from dds_lab.check import campaign
from dds_lab.check.branches import Branches, Outcome
from dds_lab.check.campaign import Case, Found, cases, play
from dds_lab.check.fleets import fleet_of
from dds_lab.check.oracle import GUARD, EndState, differences
from dds_lab.check.perturb import KINDS, Choose, Gone, Kind, Perturbation, nothing, only
from dds_lab.check.playing import UNANSWERED, fleet_run
from dds_lab.check.results import Results
from dds_lab.check.running import Run, against, excused, played
from dds_lab.check.subjects import Ours, unsound, without_hands
from dds_lab.lab import Lab
from dds_lab.time import VirtualTime

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


def test_who_is_interrupted_ends_its_copies_and_hears_nothing_of_them() -> None:
    def interrupted() -> Run:
        if branches.choose(0, False) is not None:
            time.sleep(600)
        os.close(tells)
        raise KeyboardInterrupt

    outcomes: dict[Perturbation, Outcome] = {}
    branches = Branches([Perturbation("dies", 0), Perturbation("unseen", 0)], 2, outcomes.__setitem__)
    hears, tells = os.pipe()
    with pytest.raises(KeyboardInterrupt):
        branches.play(interrupted)
    assert outcomes == {} and os.read(hears, 1) == b"", "nobody has the other end any more"
    os.close(hears)


def test_a_process_that_is_killed_is_told_and_its_run_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(seed: int, within: Path | None = None) -> tuple[tuple[str, str], ...]:
        if seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return ()

    monkeypatch.setattr(campaign, "DRAWN", {"fleets": killed})
    wanted = [Case("fleets", seed) for seed in range(1, 6)]
    told: dict[Case, Found] = {}
    play(wanted, 2, lambda one: told.update({one.case: one}))
    assert [told[one].said for one in wanted] == [(), (("broke off", "its process ended with -9"),), (), (), ()]
    results = Results(tmp_path / "results.jsonl")
    for one in told.values():
        results.add(one)
    assert Results(tmp_path / "results.jsonl").known(wanted).keys() == {*wanted} - {wanted[1]}


def test_only_what_a_process_survives_is_excused() -> None:
    error = Unreachable("does not answer", where="/api")
    with fleet_run(fleet_of(8)) as fleet:
        fleet.lab.run(60.0)
        (process,) = (one for one in fleet.processes["scaler"] if one.alive)
        process.faults.append(error)
        assert unsound([process], fleet.logs["scaler"], SCALER, excused=UNANSWERED) == []
        process.crashed = error
        assert len(unsound([process], fleet.logs["scaler"], SCALER, excused=UNANSWERED)) == 1


def test_a_finding_of_the_calm_run_hides_none_about_another_pod() -> None:
    def said(*of: str) -> Run:
        return Run(
            1, 1, None, tuple(("waits for ever", f"{one}: waits") for one in of), {"default/a": 5, "default/b": 5}
        )

    assert list(against(said("default/b"), said("default/a"))) == [("waits for ever", "default/b: waits")]
    assert list(against(said("default/a", "default/a"), said("default/a"))) == [("waits for ever", "default/a: waits")]
    assert list(against(said("GPU-1"), said("GPU-2"))) == [], "which of the devices it is differs from run to run"


@pytest.mark.parametrize(
    ("path", "left"), [("/api/v1/namespaces/dds-system/configmaps/dds-guards", ()), ("/x", (GUARD,))]
)
def test_a_guard_is_excused_where_its_own_write_came_too_late(path: str, left: tuple[str, ...]) -> None:
    found = shipped.find("first_attach")
    tap = Ours(Lab(found, VirtualTime(1, found.start)), found, only(Perturbation("too-late", 0))).tap
    with pytest.raises(Gone):
        tap.write(lambda: None, path)
    assert excused(EndState(left=(GUARD,)), tap).left == left


def test_a_pod_that_waits_for_long_is_found() -> None:
    quiet = Run(1, 1, None, (), {"default/a": 5.0})
    assert list(against(replace(quiet, waited={"default/a": 94.0}), quiet)) == []
    assert list(against(replace(quiet, waited={"default/a": 96.0, "default/b": 91.0}), quiet)) == [
        ("late", "pod default/a waited 96 s, not 5"),
        ("late", "pod default/b waited 91 s, not 0"),
    ]


def test_what_differs_is_said_in_words() -> None:
    wanted = EndState({"default/a": "Running"}, {"default/a": "not allocated"})
    found = EndState({}, {"default/a": "not allocated"}, left=("a hold",))
    assert list(differences(wanted, found)) == [
        "pod default/a is gone in the end, not Running",
        "left over: a hold",
    ]
