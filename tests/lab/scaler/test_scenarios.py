"""Every scenario with our scaler ends as it should; what it should be is in `tests/support/expected_ends.py`.

The hands that played operator and scaler in some of them are taken away, and there is an operator. What moves is compared with
what is needed while devices are held, not only at the end: that is the judge's part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dds_adapters import sql
from dds_core.events import Alerted
from dds_core.scaler.events import (
    AttachOrdered,
    ClaimFailed,
    ClaimMoved,
    DeviceHeld,
    DevicesGiven,
    ExchangeBegun,
    HandOver,
)
from dds_core.scaler.model import ANY_VERSION
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab import shipped
from dds_lab.check.subjects import CLUSTER, LOG
from dds_lab.scenario import Scenario
from dds_lab.scenario.parts import Fabrics, Profile, SchedulerPart
from dds_lab.scenario.values import between
from tests.support.expected_ends import ENDS, held_to
from tests.support.ours import Running, policy_for, running, told_to_us

SOME = 4


def ended(name: str, seed: int | None = None, **more: Any) -> Running:
    with running(told_to_us(name), seed=seed, **more) as run:
        run.lab.run()
        run.lab.run(180)
    return run


def test_the_table_names_every_scenario() -> None:
    assert set(ENDS) == set(shipped.names()) - {"day"}


@pytest.mark.parametrize("name", sorted(ENDS))
def test_a_scenario_ends_as_it_should(name: str) -> None:
    held_to(ended(name), ENDS[name])


def test_so_does_the_longest_on_a_log_that_lasts(tmp_path: Path) -> None:
    """Some others are played on SQLite and PostgreSQL over HTTP (tests/realtime/scaler/test_scenarios_over_http.py)."""
    url = f"sqlite:///{tmp_path}/log.db"
    sql.upgrade(url)
    with sql.Database(url) as database:
        log = database.open_log(LOG, cluster=CLUSTER, recorded_at=shipped.find("burst").start)
        held_to(ended("burst", log=log), ENDS["burst"])


@pytest.mark.parametrize("seed", range(1, SOME))
@pytest.mark.parametrize("name", sorted(set(ENDS) - {"burst", "empty", "playground"}))
def test_whatever_the_seed(name: str, seed: int) -> None:
    held_to(ended(name, seed), ENDS[name])


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(set(ENDS) - {"burst", "empty", "playground"}))
def test_whatever_the_seed_of_a_hundred(name: str) -> None:
    for seed in range(SOME, 101):
        held_to(ended(name, seed), ENDS[name])


# -- what some of them are there for


def without(name: str, step: str) -> Scenario:
    found = told_to_us(name)
    return found.model_copy(update={"steps": tuple(one for one in found.steps if getattr(one, step) is None)})


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_at_the_nodes_limit_two_run_and_the_third_waits_without_a_loop(seed: int) -> None:
    """For an hour, with the policy's own durations. What it waits for comes, and it runs."""
    policy = Policy(mode="detach")
    with running(without("node_limit", "withdraw"), policy, seed=seed) as run:
        run.lab.run(3600)
        assert len(run.outcomes.ran) == 2
        assert run.lab.ledger.count("attach", "ordered") == 2
        (waiting,) = {"job-0", "job-1", "job-2"} - run.outcomes.ran.keys()
        assert all("may have 1 of A100 40G" in words for words in run.outcomes.failed[waiting])
        assert len(run.outcomes.failed[waiting]) <= 3
        assert run.events_per_claim_hour() <= 150
        assert sum(run.ours.requests.requests.values()) <= 150
        run.lab.workloads.withdraw(next(iter(run.outcomes.ran)))
        run.lab.run(240)
        assert waiting in run.outcomes.ran
    assert run.judge.findings == []
    run.sound()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_refused_attach_fails_the_claim_within_the_budget_with_the_fabrics_words(seed: int) -> None:
    run = ended("attach_failure", seed)
    budget = policy_for("attach_failure").attach_budget("default-scheduler")
    (allocated,) = [
        at for at, one in run.events(ClaimMoved) if isinstance(one, ClaimMoved) and one.trigger == "allocated_pool"
    ]
    ((failed, decision),) = run.events(ClaimFailed)
    assert isinstance(decision, ClaimFailed)
    assert failed - allocated <= budget
    assert "CDI manager: machine update failed, E02XXXX" in decision.message
    assert run.outcomes.failed["unlucky"] == [f"AttachFailed: {decision.message}"]


@pytest.mark.parametrize("mode", ["exchange", "clear"])
@pytest.mark.parametrize("seed", range(1, 9))
def test_two_claims_of_a_pod_with_one_slow_attach_lose_neither(seed: int, mode: str) -> None:
    """Both are exchanged, or told, at once, when the slower device is there, and no device is attached twice. The scheduler waits
    longer than in the scenario, since the operator attaches one device after the other."""
    slow, patient = (
        Fabrics(attach=between(0.5, 18.0)),
        SchedulerPart(profiles={"default-scheduler": Profile(binding_timeout=90)}),
    )
    waits = {"default-scheduler": SchedulerPolicy(binding_timeout_seconds=90)}
    policy = policy_for("two_claims", hand_over=mode, schedulers=waits)
    with running(told_to_us("two_claims", fabric=slow, scheduler=patient), policy, seed=seed) as run:
        run.lab.run()
        run.lab.run(120)
    assert run.outcomes.ran.keys() == {"tc"}
    assert run.outcomes.failed == {}
    assert run.outcomes.waits == {"tc-a": 1, "tc-b": 1}
    assert run.lab.ledger.count("attach", "done") == 2
    ((_, told),) = run.events(HandOver, ExchangeBegun)
    assert isinstance(told, (HandOver, ExchangeBegun)) and len(told.for_claims()) == 2
    assert run.judge.findings == []
    run.sound()


def test_two_claims_with_one_device_are_told_of_within_a_second() -> None:
    run = ended("relist_gap")
    (found,) = run.judge.findings
    told = [(at, one) for at, one in run.events(Alerted) if isinstance(one, Alerted) and one.reason == "DeviceTwice"]
    assert len(told) == 2
    assert all(0 <= at - found.at <= 1_000_000 for at, _ in told)
    assert all("default/first and default/second" in one.text for _, one in told)


def test_a_gpu_in_parts_is_held_by_all_that_it_is_listed_as() -> None:
    held = {len(one.devices) for _, one in ended("partitioned").events(DeviceHeld) if isinstance(one, DeviceHeld)}
    assert held == {10}, "itself, seven sevenths and two halves"


def test_memory_is_ordered_as_memory() -> None:
    ordered = [one for _, one in ended("cxl_memory").events(AttachOrdered) if isinstance(one, AttachOrdered)]
    assert {(one.type, one.model) for one in ordered} == {("cxlmemory", "CXL 64G")}


def test_a_process_that_ends_between_the_two_writes_is_followed_by_one_that_does_the_second() -> None:
    run = ended("exchange_crash")
    assert len(run.instances) == 2
    ((at, given),) = run.events(DevicesGiven)
    assert isinstance(given, DevicesGiven) and given.version == ANY_VERSION
    assert not run.events(HandOver)
    bound = [moved for moved, one in run.events(ClaimMoved) if isinstance(one, ClaimMoved) and one.target == "Bound"]
    assert bound[0] - at <= 5_500_000, "at the scheduler's next look"
