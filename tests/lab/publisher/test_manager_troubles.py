"""Stories in which the fabric's manager is in trouble: away, slow, wrong, forgetful. What is published stands, nothing is
lost."""

from __future__ import annotations

from functools import partial

import pytest

from dds_core.events import Alerted
from dds_core.publisher.events import FabricAnswered, FabricFailed, PoolWithdrawn
from dds_core.publisher.policy import PublishPolicy
from dds_lab.manager import ManagerSettings
from dds_lab.scenario.trouble import ManagerFault
from tests.lab.publisher.test_attaching import A100, names_of, pods, ran, steps, story
from tests.support.publishing import PublishRun, Surroundings, publishing

SOME = [f"job-{number}" for number in range(6)]


def troubled(run: PublishRun, *faults: ManagerFault, since: float, until: float) -> None:
    """The manager has these faults for a while."""
    for fault in faults:
        run.after(since, partial(run.manager.faults.add, fault))
        run.after(until, partial(run.manager.faults.lift, fault))


def test_a_manager_that_is_away_for_ten_minutes_in_a_burst() -> None:
    with publishing(story(steps(pods(*SOME, at=10, lasts="20s"))), prepare=_away) as run:
        run.lab.run(12)
        before = {one.name for one in run.judge.view.slices.values()}
        run.lab.run(300)
        assert {one.name for one in run.judge.view.slices.values()} == before, "nothing goes because nobody answers"
        run.lab.run(500)
        assert ran(run) == set(SOME)
        run.at_rest()
    assert run.events(PoolWithdrawn) == []
    failed = [event.of for _, event in run.events(FabricFailed) if isinstance(event, FabricFailed)]
    answered = [event.of for _, event in run.events(FabricAnswered) if isinstance(event, FabricAnswered)]
    assert len(failed) == len(set(failed)), "each question is told once"
    assert set(failed) <= set(answered)


def _away(run: PublishRun) -> None:
    troubled(run, ManagerFault(kind="away"), since=11, until=611)


WRONG = {
    "errors": [ManagerFault(kind="error", share=0.4), ManagerFault(kind="busy", share=0.2, wait=2.0)],
    "lost answers": [ManagerFault(kind="cut", share=0.3), ManagerFault(kind="slow", share=0.3, wait=40.0)],
    "odd": [
        ManagerFault(kind="odd", share=0.2, odd=kind)
        for kind in ("types", "missing", "html", "truncated", "null", "list")
    ],
    "empty": [ManagerFault(kind="empty", share=0.5)],
    "other fabric": [ManagerFault(kind="other_fabric", share=0.5)],
    "tokens": [ManagerFault(kind="expired", share=0.4)],
    "no login": [ManagerFault(kind="error", calls=("token",), code=401), ManagerFault(kind="expired", share=0.2)],
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_answers_for_minutes(kind: str) -> None:
    short = Surroundings(manager=ManagerSettings(token_life=45.0))

    def prepare(run: PublishRun) -> None:
        troubled(run, *WRONG[kind], since=8, until=200)

    with publishing(story(steps(pods(*SOME, at=10, lasts="20s"))), short, prepare=prepare) as run:
        run.lab.run(600)
        assert ran(run) == set(SOME)
        run.at_rest()
        assert len(names_of(run)) == 4
    gone = {event.pool for _, event in run.events(PoolWithdrawn) if isinstance(event, PoolWithdrawn)}
    assert all(pool.endswith("fabric3") for pool in gone), "only what was never there goes"


def test_a_manager_that_is_wrong_before_anything_is_known() -> None:
    """Nothing is published before there is an answer, and nothing of what is there is touched."""

    def prepare(run: PublishRun) -> None:
        troubled(run, ManagerFault(kind="odd", odd="html"), since=0, until=60)

    with publishing(story(""), prepare=prepare) as run:
        run.lab.run(50)
        assert run.judge.view.slices == {} and run.judge.writes == []
        run.lab.run(60)
        assert len(names_of(run)) == 4
        run.at_rest()


def test_one_fabric_fails_and_the_other_is_followed() -> None:
    """The calls by way of the first fabric's machines fail; the other fabric's pools follow what happens."""
    with publishing(story(steps(pods("a", "b", at=10, lasts="30s")))) as run:
        failing = {run.lab.fabric.machine(f"node000{number}") for number in range(4)}
        uuids = {one.uuid for one in failing if one is not None}
        run.lab.run(9)
        run.troubled.add("fabric 1")
        with run.failing(lambda call: any(uuid in call.path for uuid in uuids)):
            run.lab.fabric.resize("1", "NVIDIA H100", 1)
            run.lab.fabric.resize("2", "NVIDIA A100", 3)
            run.lab.run(60)
            assert len(names_of(run, ("gpu.nvidia.com", "nvidia-h100-fabric1"))) == 2, "as it was last told"
            free = run.lab.fabric.free("2", "NVIDIA A100")
            assert len(run.judge.view.offered(("gpu.nvidia.com", "nvidia-a100-fabric2"))) == free
        run.troubled.clear()
        run.lab.run(200)
        assert ran(run) == {"a", "b"}
        assert len(names_of(run, A100)) == 4
        run.at_rest()
    failed = {event.of for _, event in run.events(FabricFailed) if isinstance(event, FabricFailed)}
    assert failed == {"stock/1/NVIDIA A100", "stock/1/NVIDIA H100"}


def test_an_answer_of_ten_thousand_devices_is_not_believed() -> None:
    """The pool stays as it is and a person is told; whoever has so many says so in the policy, and gets slices of 128."""
    huge = ManagerFault(kind="huge", calls=("available",))
    with publishing(story("")) as run:
        run.lab.run(8)
        run.manager.faults.add(huge)
        run.lab.run(10)
        assert len(names_of(run)) == 4
        told = {event.reason for _, event in run.events(Alerted) if isinstance(event, Alerted)}
        assert told == {"StockBeyondBelief"}
        run.manager.faults.lift(huge)
        run.lab.run(10)
        assert len(names_of(run)) == 4
        run.at_rest()


@pytest.mark.full
def test_who_has_ten_thousand_devices_gets_them_listed() -> None:
    some = Surroundings(policy=PublishPolicy(mode="publish", pool_devices=10_000))
    with publishing(story(""), some) as run:
        run.lab.run(8)
        huge = ManagerFault(kind="huge", calls=("available",))
        run.manager.faults.add(huge)
        run.lab.run(10)
        assert {len(one.names) for one in run.judge.view.of(A100)} == {128, 16}
        assert len(set(names_of(run))) == 10_000
        run.manager.faults.lift(huge)
        run.lab.run(10)
        assert len(names_of(run)) == 4
        run.at_rest()
