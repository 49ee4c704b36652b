"""Sweeps: what a cell changes, what decides a run, and results that are kept and not played again."""

from __future__ import annotations

import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dds_core.errors import InputError
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.scenario import parse
from dds_lab.scenario.scenario import Run as Pod
from dds_lab.scenario.workload import Arrival
from dds_whatif.engines import opened
from dds_whatif.play import tasks_of
from dds_whatif.sweep import Store, axes, cells, changed, front, grid_of, summed, swept, wanted
from dds_whatif.world import Fitted

POLICY = Policy(mode="detach", no_removal_seconds=20, scan_interval_seconds=5)
MODEL = Fitted(
    parse(
        """
duration: 2m
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 4}}, {id: 2, devices: {A100 40G: 2}}]
  nodes: [{count: 2}, {count: 2, first: 2, fabric: 2}]
parts: {scaler: false, fabric: {attach: 4s, attach_of: {A100 40G: {measured: [2, 3]}}, detach: {between: [1s, 2s]}}}
steps:
  - {at: 60s, cordon: node0003}
""",
        "a test",
    ),
    tuple(
        Arrival(at=10.0 * n, run=Pod(name=f"p{n}", devices={"nvidia-a100-40": 1}, delete_after=20.0)) for n in range(4)
    ),
    (),
    (),
)


class Counting(Executor):
    """Plays here, and counts; after `most` runs the next one breaks off, as if the power went."""

    def __init__(self, most: int = 10_000) -> None:
        self.played = 0
        self._most = most

    def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
        found: Future[Any] = Future()
        self.played += 1
        if self.played > self._most:
            found.set_exception(KeyboardInterrupt())
        else:
            found.set_result(fn(*args))
        return found


def test_every_combination_is_a_cell() -> None:
    grid = grid_of({"policy": {"no_removal_seconds": [10, 20]}, "pools": {"A100 40G": [3, 6]}, "fabric": [2]}, "g")
    assert [name for name, _ in axes(grid)] == ["policy.no_removal_seconds", "pools.A100 40G", "fabric"]
    assert len(cells(grid)) == 4
    assert cells(grid)[1] == {"policy.no_removal_seconds": 10, "pools.A100 40G": 6, "fabric": 2.0}


def test_a_cell_changes_what_it_names_and_nothing_else() -> None:
    model, policy = changed(
        MODEL,
        POLICY,
        {"policy.no_removal_seconds": 7, "pools.A100 40G": 9, "nodes": 3, "fabric": 2.0, "arrivals": 2.0},
        "g",
    )
    assert policy == POLICY.model_copy(update={"no_removal_seconds": 7})
    cluster, fabric = model.scenario.cluster, model.scenario.parts.fabric
    assert [one.devices["A100 40G"] for one in cluster.fabrics] == [6, 3]
    assert cluster.node_names() == ["node0000", "node0001", "node0002"]
    assert not model.scenario.steps, "the cordon was of a node that is not there"
    assert fabric.attach.fixed == 8.0 and fabric.attach_of["A100 40G"].measured == (4.0, 6.0)
    assert fabric.detach.between == (2.0, 4.0)
    assert [one.at for one in model.arrivals] == [0.0, 5.0, 10.0, 15.0] and model.scenario.duration == 60.0
    assert [one.run for one in model.arrivals] == [one.run for one in MODEL.arrivals]


@pytest.mark.parametrize("number", [0, 1, 2, 5, 6, 7, 100])
def test_devices_are_shared_out_among_fabrics_and_none_is_lost(number: int) -> None:
    model, _ = changed(MODEL, POLICY, {"pools.A100 40G": number}, "g")
    assert sum(one.devices["A100 40G"] for one in model.scenario.cluster.fabrics) == number


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({}, "names no axis"),
        ({"fabric": []}, "names no axis"),
        ({"pools": {"A100 40G": []}}, "an axis has no values"),
        ({"knobs": [1]}, "knobs: extra inputs are not permitted"),
        ({"nodes": [0]}, "nodes.0: input should be greater than or equal to 1"),
        ({"fabric": [-1]}, "fabric.0: input should be greater than 0"),
        ({"nodes": [2, 2]}, "an axis has a value twice"),
        ({"nodes": list(range(1, 102)), "fabric": [0.5 + n for n in range(100)]}, "10,100 cells, 10,000 is the most"),
    ],
)
def test_a_grid_that_is_none_is_refused(written: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        grid_of(written, "grid.yaml")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"policy.no_removal_secs": 5}, "no_removal_secs"),
        ({"policy.no_removal_seconds": -5}, "no_removal_seconds"),
        ({"pools.A100": 5}, "no pool has A100"),
        ({"policy.mode": "observe"}, "mode observe writes nothing"),
        ({"nodes": 5}, "there are 4 nodes, not 5"),
    ],
)
def test_what_the_model_does_not_have_is_said_before_anything_is_played(cell: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        changed(MODEL, POLICY, cell, "grid.yaml")


def test_the_reference_has_no_knobs_of_ours() -> None:
    with pytest.raises(InputError, match="has no policy"):
        changed(MODEL, None, {"policy.mode": "attach"}, "grid.yaml")


# -- results -----------------------------------------------------------------------------------------------------------

GRID = grid_of({"policy": {"no_removal_seconds": [5, 60]}, "fabric": [1, 2]}, "g")


def test_a_sweep_that_broke_off_goes_on_and_plays_nothing_twice(tmp_path: Path) -> None:
    place, runs = str(tmp_path / "results.sqlite3"), wanted(MODEL, POLICY, cells(GRID), (1, 2), "g")
    assert len({one.key for one in runs}) == 8
    first, second, third = Counting(most=3), Counting(), Counting()
    with pytest.raises(KeyboardInterrupt), Store(place) as store:
        swept(runs, first, store, 1)
    with Store(place) as store:
        kept = store.known(one.key for one in runs)
        found = swept(runs, second, store, 1)
    assert len(kept) == 3 and second.played == 5
    with Store(place) as store:
        assert swept(runs, third, store, 1) == found and third.played == 0
    with Store() as memory:
        assert swept(runs, Counting(), memory, 1) == found


def test_whoever_plays_them_and_in_whatever_order_they_end_the_results_are_the_same() -> None:
    runs = wanted(MODEL, POLICY, cells(GRID), (1, 2), "g")
    with Store() as one, Store() as other, ThreadPoolExecutor(4) as threads:
        assert swept(runs, Counting(), one, 1) == swept(runs, threads, other, 4)


def test_another_policy_seed_pool_or_pod_is_another_run() -> None:
    def keys(model: Fitted, policy: Policy) -> set[str]:
        return {one.key for one in wanted(model, policy, cells(grid_of({"fabric": [1]}, "g")), (1, 2), "g")}

    known = keys(MODEL, POLICY)
    others = [
        keys(MODEL, POLICY.model_copy(update={"no_removal_seconds": 21})),
        keys(changed(MODEL, POLICY, {"pools.A100 40G": 7}, "g")[0], POLICY),
        keys(Fitted(MODEL.scenario, MODEL.arrivals[:-1], (), ()), POLICY),
    ]
    assert len(known.union(*others)) == 8


def test_a_policys_binding_timeout_is_that_of_the_scheduler_that_is_played() -> None:
    named = POLICY.model_copy(update={"schedulers": {"default-scheduler": SchedulerPolicy(binding_timeout_seconds=8)}})
    (task,) = tasks_of(MODEL, named, (1,))
    scheduler = parse(task.scenario, "it").parts.scheduler
    assert scheduler is not None and scheduler.profiles["default-scheduler"].binding_timeout == 8.0


def test_what_nobody_chooses_does_not_beat_what_somebody_does() -> None:
    """Half the arrivals are no better policy."""
    with Store() as store:
        grid = grid_of({"arrivals": [0.5, 2], "policy": {"no_removal_seconds": [5, 60]}}, "g")
        rows = summed(grid, swept(wanted(MODEL, POLICY, cells(grid), (1,), "g"), Counting(), store, 1))
    assert {row.cell["arrivals"] for row in rows if row.front} == {0.5, 2.0}


def test_a_place_that_keeps_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="results cannot be kept"):
        Store(str(tmp_path / "nowhere" / "results.sqlite3"))
    (tmp_path / "text").write_text("no database, but long enough to be taken for something else" * 20)
    with pytest.raises(InputError, match="results cannot be kept"):
        Store(str(tmp_path / "text"))
    with pytest.raises(InputError) as refused:
        Store("postgresql+psycopg://me:secret@127.0.0.1:1/db")
    assert "secret" not in str(refused.value)


def test_means_and_front() -> None:
    with Store() as store:
        rows = summed(GRID, swept(wanted(MODEL, POLICY, cells(GRID), (1, 2), "g"), Counting(), store, 1))
    by = {(row.cell["policy.no_removal_seconds"], row.cell["fabric"]): row for row in rows}
    assert by[60, 1.0].means["attaches"] <= by[5, 1.0].means["attaches"]
    assert by[60, 1.0].means["idle hours"] > by[5, 1.0].means["idle hours"]
    assert by[5, 2.0].means["wait mean"] > by[5, 1.0].means["wait mean"]
    assert front([{"a": 1, "b": 3}, {"a": 2, "b": 2}, {"a": 2, "b": 3}, {"a": 1, "b": 3}], ("a", "b")) == [
        True,
        True,
        False,
        True,
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each worker imports what it needs")
def test_a_worker_begins_with_everything_imported() -> None:
    executor, at_once = opened("processes", 2)
    with executor:
        assert at_once == 2 and executor.submit(eval, "'dds_whatif.play' in __import__('sys').modules").result()
