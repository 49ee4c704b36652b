"""A model that is derived from what happened: what it is made of, and how near it comes to what it never saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from dds_adapters.jsonl import JsonlLog
from dds_adapters.kubernetes.recording import RecordedEvent, read_recording, replay_events, replay_recording
from dds_core.errors import InputError
from dds_core.replay import moments, of_steps
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_core.timeline import Moment
from dds_lab.lab import Lab
from dds_lab.scenario import parse, written
from dds_lab.scenario.cluster import Fabric, Nodes
from dds_lab.scenario.parts import Choice, SchedulerPart
from dds_lab.scenario.scenario import Run as Pod
from dds_lab.scenario.workload import Arrival
from dds_whatif import driven
from dds_whatif import play as playing
from dds_whatif.compare import Fit, fits
from dds_whatif.derive import Derived, Reader
from dds_whatif.driven import Phase
from dds_whatif.outcome import outcome
from dds_whatif.play import play, tasks_of
from dds_whatif.world import Fitted, TooShort, fitted
from tests.support.ours import running, told_to_us

DATA = Path(__file__).parents[2] / "data"
RECORDINGS = sorted(f"recordings/{path.name}" for path in (DATA / "recordings").glob("*.jsonl.gz"))
LOGS = ["logs/archived.log.jsonl.gz", *sorted(f"logs/{path.name}" for path in (DATA / "logs").glob("*-scaler.log*"))]
"""Of scalers; one begins with a checkpoint."""
REFERENCE = Policy(
    scan_interval_seconds=5,
    no_removal_seconds=15,
    no_allocation_seconds=5,
    scheduler=SchedulerPolicy(binding_timeout_seconds=45),
)
"""The durations with which the recordings of the reference scaler were made."""


def told(name: str) -> list[Moment]:
    """Of a log or a recording, by its path below tests/data."""
    path = DATA / name
    if ".log." in name:
        log = JsonlLog(str(path))
        return list(moments(log.read_lean(log.span()[0] - 1), SCALER))
    return list(of_steps(replay_recording(path, Policy())))


def read(name: str) -> Derived:
    return Reader(logged=".log." in name).read(told(name)).derived()


def recorded(name: str) -> Derived:
    """What a recording tells, with the times of last use that only it has."""
    return Reader(logged=False, stamps=driven.stamps_of(read_recording(DATA / name))).read(told(name)).derived()


def runs_of(model: Fitted, policy: Policy | None, seeds: Sequence[int]) -> list[dict[str, float]]:
    return [play(one).measures() for one in tasks_of(model, policy, seeds)]


def predicted(name: str, fitted_on: str, seeds: Sequence[int]) -> dict[str, Fit]:
    """What a source is said to have been by a model whose fabric was fitted on another."""
    source = read(name)
    policy = source.conduct.policy or REFERENCE
    model = fitted(source, read(fitted_on).behaviour, policy, label=name)
    real = outcome(told(name))
    intervals = {"wait p50": real.between(0.5) or (0.0, 0.0), "wait p95": real.between(0.95) or (0.0, 0.0)}
    runs = runs_of(model, None if source.conduct.by_reference else policy, seeds)
    return {one.measure: one for one in fits(real.measures(), runs, 0.15, intervals)}


# -- what is read ------------------------------------------------------------------------------------------------------


def test_a_real_log_tells_fleet_workload_and_behaviour() -> None:
    found = read("real/burst-21.log.jsonl.gz")
    assert [node.name for node in found.nodes] == [f"node{number:04}" for number in range(10)]
    assert found.pools == {("1", "A100 40G"): 12, ("1", "H100 80G"): 12}
    assert len(found.pods) == 40 and not found.changes and not found.notes
    assert all(pod.ran is not None and pod.withdrawn is None for pod in found.pods)
    assert {model: samples.number for model, samples in found.behaviour.attach.items()} == {
        "A100 40G": 12,
        "H100 80G": 12,
    }
    assert 1.0 < found.behaviour.attach["A100 40G"].at(0.5) < 2.5
    assert (
        found.conduct.policy is not None
        and found.conduct.policy.hand_over == "clear"
        and not found.conduct.by_reference
    )


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_every_recording_and_log_gives_a_scenario_or_says_why_not(name: str) -> None:
    found = read(name)
    try:
        model = fitted(found, found.behaviour, REFERENCE, label=name)
    except TooShort as error:
        assert name in str(error)
        return
    assert parse(written(model.scenario), name) == model.scenario
    assert len(model.arrivals) == len({(one.run.namespace, one.run.name) for one in model.arrivals})


def test_what_the_lab_played_is_read_back_as_it_was_written() -> None:
    scenario = parse(
        """
seed: 3
duration: 8m
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
  fabrics: [{id: 1, devices: {A100 40G: 4}}]
  nodes:
    - {count: 2, limits: {A100 40G: {max: 3}}}
    - {name: lost, fabric: null}
parts:
  scaler: {removal: 20s}
  fabric: {attach: 4s}
steps:
  - {at: 5s, run: {name: deleted, devices: {nvidia-a100-40: 2}, delete_after: 40s}}
  - {at: 60s, run: {name: ends, devices: {nvidia-a100-40: 1}, lasts: 30s, template: true}}
  - {at: 100s, cordon: node0001}
  - {at: 130s, uncordon: node0001}
  - {at: 200s, lose_node: lost0000}
  - {at: 240s, resize: {model: A100 40G, by: 3}}
  - {at: 300s, run: {name: in-vain, devices: {nvidia-a100-40: 5}}}
  - {at: 330s, withdraw: in-vain}
  - {at: 400s, run: {name: runs-on, devices: {nvidia-a100-40: 1}}}
""",
        "a test",
    )
    kept: list[RecordedEvent] = []

    class Sink:
        def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
            kept.append(RecordedEvent(at, resource, type, obj))

    with Lab.virtual(scenario, sink=Sink()) as lab:
        lab.run()
    found = Reader(logged=False).read(of_steps(replay_events(kept, Policy()))).derived()
    pods = {pod.name: pod for pod in found.pods}
    assert {name: dict(pod.devices) for name, pod in pods.items()} == {
        "deleted": {"nvidia-a100-40": 2},
        "ends": {"nvidia-a100-40": 1},
        "in-vain": {"nvidia-a100-40": 5},
        "runs-on": {"nvidia-a100-40": 1},
    }
    assert pods["deleted"].at == pytest.approx(5.0, abs=0.1) and pods["deleted"].ran == pytest.approx(40.0, abs=0.5)
    assert pods["ends"].ended and pods["ends"].ran == pytest.approx(30.0, abs=0.5)
    assert pods["in-vain"].ran is None and pods["in-vain"].withdrawn == pytest.approx(30.0, abs=0.5)
    assert pods["runs-on"].ran is None and pods["runs-on"].withdrawn is None
    assert [(one.kind, one.node or one.by) for one in found.changes] == [
        ("cordon", "node0001"),
        ("uncordon", "node0001"),
        ("lose_node", "lost0000"),
        ("resize", 3),
    ]
    assert found.pools == {("1", "A100 40G"): 4} and found.conduct.by_reference
    assert found.behaviour.attach["A100 40G"].at(0.5) == pytest.approx(4.0, abs=0.2)
    assert 0 < found.behaviour.publishing.at(0.5) <= 5.1, "its publisher looks every five seconds"
    model = fitted(found, found.behaviour, REFERENCE, label="it")
    assert {one.first: dict(one.limits) for one in model.scenario.cluster.nodes if one.name == "node"}[0].keys() == {
        "A100 40G"
    }


def test_refusals_of_the_fabric_are_refused_again() -> None:
    found = read("recordings/attach_failure.jsonl.gz")
    assert found.behaviour.errors
    (refused, of, words) = found.behaviour.errors["1", "A100 40G"]
    assert 0 < refused <= of and words
    model = fitted(found, read("recordings/burst.jsonl.gz").behaviour, REFERENCE, label="it")
    assert not model.scenario.faults.fabric, "of another source only what that one saw"
    with pytest.raises(TooShort, match="no attach is seen"):
        fitted(found, found.behaviour, REFERENCE, label="it")


def renamed(name: str, old: str, new: str) -> Derived:
    """A recording in which something is called otherwise."""
    recorded = [
        RecordedEvent(one.at, one.resource, one.type, bytes(one.raw).replace(old.encode(), new.encode()))
        for one in read_recording(DATA / name)
    ]
    return Reader(logged=False).read(of_steps(replay_events(recorded, Policy()))).derived()


@pytest.mark.parametrize("node", ["gpu-0000", "ip-10-0-0-1.ec2.internal", "worker-a"])
def test_nodes_may_be_called_as_they_like(node: str) -> None:
    found = renamed("recordings/many_devices.jsonl.gz", "node0000", node)
    model = fitted(found, found.behaviour, REFERENCE, label="it")
    assert runs_of(model, None, (1,))[0]["attaches"] > 0


def test_a_fabric_that_is_no_number_is_said_in_a_line() -> None:
    found = renamed("recordings/many_devices.jsonl.gz", 'fabric":"1"', 'fabric":"rack-a"')
    assert {fabric for fabric, _ in found.pools} <= {"1", "rack-a"}
    with pytest.raises(InputError, match="is no number"):
        fitted(found, found.behaviour, REFERENCE, label="it")


def test_models_that_may_not_share_a_node_do_not_in_the_model_either() -> None:
    found = read("recordings/coexistence.jsonl.gz")
    model = fitted(found, found.behaviour, REFERENCE, label="it")
    assert {one.model: one.not_with for one in model.scenario.cluster.models} == {
        "A100 40G": ("H100 80G",),
        "H100 80G": ("A100 40G",),
    }


def test_a_source_that_begins_with_devices_on_nodes_counts_them() -> None:
    assert set(read("logs/archived.log.jsonl.gz").pools.values()) == {4}
    assert not read("logs/archived.log.jsonl.gz").changes


# -- how near it comes -------------------------------------------------------------------------------------------------


def test_a_model_of_a_real_log_comes_near_to_another_one() -> None:
    """Fitted on one burst, held against another that it never saw."""
    found = predicted("real/burst-22.log.jsonl.gz", "real/burst-21.log.jsonl.gz", seeds=(101, 102))
    for measure in ("wait mean", "attaches", "idle hours"):
        assert found[measure].verdict != "off", found[measure]


@pytest.mark.parametrize("name", ["coexistence", "first_attach", "node_limit", "two_requests"])
def test_where_one_scan_decides_it_is_the_one_that_decided(name: str) -> None:
    """In all of these the scan after a listing came too early, or the scheduler took the same node again and again."""
    name = f"recordings/{name}.jsonl.gz"
    source = recorded(name)
    settings = source.conduct.settings(None, driven.REFERENCE)
    assert (settings.scan_interval_seconds, settings.no_removal_seconds) == (5, 15), "as they were recorded"
    runs = runs_of(fitted(source, source.behaviour, settings, label=name), None, range(1, 21))
    found = fits(outcome(told(name)).measures(), runs, 0.15, {})
    assert {one.verdict for one in found} <= {"fits", "within the spread"}, found


def test_which_of_two_equal_nodes_is_taken_more_often_is_found() -> None:
    lead = recorded("recordings/node_limit.jsonl.gz").conduct.lead
    assert lead is not None and 0.75 < lead < 0.9
    assert recorded("recordings/burst.jsonl.gz").conduct.lead is None


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "fitted_on"),
    [
        ("real/burst-22.log.jsonl.gz", "real/burst-21.log.jsonl.gz"),
        ("real/burst-21-reference.jsonl.gz", "recordings/burst.jsonl.gz"),
    ],
)
def test_what_was_fitted_on_one_burst_predicts_another(name: str, fitted_on: str) -> None:
    found = predicted(name, fitted_on, seeds=range(201, 213))
    for measure in ("attaches", "idle hours"):
        off = found[measure].off
        assert off is not None and abs(off) <= 0.15, found[measure]
    assert all(one.verdict != "off" for one in found.values()), found


def test_an_operator_with_one_worker_is_played_by_one_with_its_waits_taken_out_of_the_durations() -> None:
    """The lab's burst with our scaler, attaches of 1.65 to 2.4 s: most are ordered during another one."""
    with running(told_to_us("burst")) as run:
        run.lab.run(320)
    told = list(moments(run.log.read(), SCALER))
    source = Reader(logged=True).read(told).derived()
    found = source.behaviour
    assert found.one_worker
    assert all(samples.seconds[0] > 1.6 and samples.at(0.95) < 2.6 for samples in found.attach.values())
    assert all(samples.at(0.5) < 1.5 for samples in found.detach.values()) and found.listing.at(1.0) < 0.1
    assert source.conduct.policy is not None
    model = fitted(source, found, source.conduct.policy, label="burst")
    assert model.scenario.parts.operator is not None and model.scenario.parts.operator.kind == "real"
    runs = runs_of(model, source.conduct.policy, range(1, 8))
    told_by = {one.measure: one for one in fits(outcome(told).measures(), runs, 0.25, {})}
    # How often the scheduler places a pod where nothing is differs by seed.
    assert told_by.pop("attaches").verdict != "off"
    assert {one.verdict for one in told_by.values()} == {"fits"}, told_by


@pytest.mark.parametrize("name", ["real/burst-21.log.jsonl.gz", "recordings/burst.jsonl.gz"])
def test_one_with_many_workers_is_played_by_the_ideal_one(name: str) -> None:
    source = read(name)
    operator = fitted(source, source.behaviour, REFERENCE, label=name).scenario.parts.operator
    assert operator is not None and operator.kind == "ideal"


def test_a_log_is_played_as_the_release_that_it_was_written_beside() -> None:
    source = read("real/burst-22.log.jsonl.gz")
    assert (read("logs/fleet-6-scaler.log.jsonl.gz").version, source.version) == ("1.36.2", "")
    for told, played in (("", "1.37"), ("1.36.2", "1.36"), ("1.36.5", "1.36.3"), ("1.37.0", "1.37")):
        model = fitted(replace(source, version=told), source.behaviour, REFERENCE, label="it")
        assert model.scenario.cluster.version == played


def test_another_fabric_is_another_prediction() -> None:
    """The model can fail: with a fabric that takes five times as long, waits are off."""
    source = read("real/burst-22.log.jsonl.gz")
    assert source.conduct.policy is not None
    model = fitted(source, source.behaviour, source.conduct.policy, label="it")
    slow = {
        name: delay.model_copy(update={"measured": tuple(5 * each + 10 for each in delay.measured or ())})
        for name, delay in model.scenario.parts.fabric.attach_of.items()
    }
    fabric = model.scenario.parts.fabric.model_copy(update={"attach_of": slow})
    scenario = model.scenario.model_copy(update={"parts": model.scenario.parts.model_copy(update={"fabric": fabric})})
    runs = runs_of(Fitted(scenario, model.arrivals, (), ()), source.conduct.policy, (1,))
    real = outcome(told("real/burst-22.log.jsonl.gz")).measures()
    assert {one.measure: one.verdict for one in fits(real, runs, 0.15, {})}["wait mean"] == "off"


# -- who drove ---------------------------------------------------------------------------------------------------------


DRIVEN = parse(
    """
duration: 5m
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 6}}]
  nodes: [{count: 2}]
parts:
  operator: {kind: ideal}
  scaler: {interval: 3s, removal: 20s}
  fabric: {attach: {between: [2s, 3s]}, detach: {between: [1s, 2s]}}
""",
    "a test",
)
PODS = tuple(
    Arrival(at=5.0 + 11.0 * n, run=Pod(name=f"p{n}", devices={"nvidia-a100-40": 1}, delete_after=8.0))
    for n in range(24)
)
SERVES = Policy(mode="detach", no_removal_seconds=12)


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        (((0.0, None), (150.0, SERVES)), "the reference"),
        (((0.0, Policy()), (60.0, SERVES)), "nobody"),
        (((0.0, Policy(mode="detach", no_removal_seconds=60)), (100.0, SERVES)), "dds"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_log_tells_who_drove_when_and_its_phases_are_played_again(phases: tuple[Phase, ...], told: str) -> None:
    (task,) = tasks_of(Fitted(DRIVEN, PODS, (), ()), SERVES, (8,), phases)
    log = list(playing.played(task)[0])
    source = Reader(logged=True).read(log).derived()
    settings = source.conduct.settings(None, driven.REFERENCE)
    found = source.conduct.phases(source.begin, None)
    assert [who if who is None else (who.mode, who.no_removal_seconds) for _, who in found] == [
        who if who is None else (who.mode, who.no_removal_seconds) for _, who in phases
    ]
    assert [at for at, _ in found] == pytest.approx([at for at, _ in phases], abs=1.0)
    if told == "the reference":
        assert settings.no_removal_seconds in range(18, 23) and settings.scan_interval_seconds <= 6
    model = fitted(source, source.behaviour, settings, label="it")
    runs = [play(one).measures() for one in tasks_of(model, SERVES, (1, 2, 3, 4, 5), found)]
    verdicts = {one.measure: one.verdict for one in fits(outcome(log).measures(), runs, 0.15, {})}
    assert "off" not in {verdicts[name] for name in ("wait mean", "attaches", "idle hours")}, verdicts
    if told == "nobody":  # as if dds had served from the beginning: another answer
        alone = [play(one).measures() for one in tasks_of(model, SERVES, (1, 2))]
        assert alone[0]["wait max"] < 30 < runs[0]["wait max"]


@pytest.mark.parametrize("choice", get_args(Choice))
def test_the_choice_among_nodes_is_found_in_where_pods_were_placed(choice: Choice) -> None:
    """Twenty pods that stay, on six nodes: of small pods a node takes six before it scores otherwise."""
    cluster = DRIVEN.cluster.model_copy(
        update={"fabrics": (Fabric(id=1, devices={"A100 40G": 20}),), "nodes": (Nodes(count=6),)}
    )
    scheduler = SchedulerPart(choice=choice)
    scenario = DRIVEN.model_copy(
        update={"cluster": cluster, "parts": DRIVEN.parts.model_copy(update={"scheduler": scheduler}), "duration": 60.0}
    )
    pods = tuple(Arrival(at=2.0 * n, run=Pod(name=f"p{n}", devices={"nvidia-a100-40": 1})) for n in range(20))
    (task,) = tasks_of(Fitted(scenario, pods, (), ()), SERVES, (1,))
    source = Reader(logged=True).read(playing.played(task)[0]).derived()
    assert source.conduct.choice == choice
    model = fitted(source, source.behaviour, SERVES, label="it")
    assert model.scenario.parts.scheduler is not None and model.scenario.parts.scheduler.choice == choice
    assert {what: words for what, _, words in model.rests_on}["choice of nodes"]
