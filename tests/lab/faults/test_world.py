"""Faults of the world: windows of stalled allocations, and what chaos strikes, how often, and what it leaves alone."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from dds_lab.faults.world import Stalled
from dds_lab.lab import Lab
from dds_lab.scenario import parse
from dds_lab.scenario import trouble as written
from dds_lab.time import VirtualTime

CLUSTER = """\
duration: 3h
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
  fabrics: [{id: 1, devices: {A100 40G: 100}}]
  nodes: [{count: 1, fabric: 1, fixed: {A100 40G: 2}}]
parts: {scheduler: false, operator: false, scaler: false, publisher: false}
"""


def chaotic(wanted: str, seed: int = 1) -> Lab:
    scenario = parse(CLUSTER + f"faults: {{chaos: {{{wanted}}}}}\n", "test")
    lab = Lab(scenario, VirtualTime(seed, scenario.start))
    lab.start()
    return lab


def unschedulable(lab: Lab) -> bool:
    (node,) = lab.client("test").list("nodes")
    return bool(node["spec"].get("unschedulable"))


def test_allocations_stall_only_while_their_window_is_open_and_as_often_as_it_says() -> None:
    time = VirtualTime(1, 0)
    windows = [
        written.Stalled(since=10.0, until=20.0, takes=60.0, times=2),
        written.Stalled(since=15.0, takes=5.0, times=0),
    ]
    stalled, random = Stalled(time, windows), Random(1)
    found = {}
    for second in (0, 9, 10, 11, 12, 15, 16, 25):
        time.run(second * 1_000_000)
        found[second] = stalled.draw(random)
    assert found == {0: 0.0, 9: 0.0, 10: 60.0, 11: 60.0, 12: 0.0, 15: 5.0, 16: 5.0, 25: 5.0}


def test_an_unused_window_closes() -> None:
    time = VirtualTime(1, 0)
    stalled = Stalled(time, [written.Stalled(since=10.0, until=20.0, takes=60.0, times=2)])
    time.run(20_000_000)
    assert stalled.draw(Random(1)) == 0.0


def test_a_drained_node_comes_back_after_the_last_time_that_it_was_drained() -> None:
    lab = chaotic("drain: 40m, drained_for: 10m")
    drained = [0, 0]
    last, back = 0.0, []
    before = False
    for second in range(0, 3 * 3600, 10):
        lab.run(seconds=10)
        now = unschedulable(lab)
        drained[now] += 1
        if now and not before:
            last = second
        if before and not now:
            back.append(second - last)
        before = now
    assert back
    assert all(seconds >= 590 for seconds in back)
    assert min(drained) > 30
    lab.stop()


def test_a_second_drain_puts_the_return_off() -> None:
    lab = chaotic("drain: 60s, drained_for: 30m")
    lab.run(seconds=3600)
    assert unschedulable(lab)
    lab.run(seconds=3600)
    assert unschedulable(lab)
    lab.stop()


def test_after_its_end_chaos_does_nothing() -> None:
    lab = chaotic("drain: 60s, drained_for: 10m, shrink: 60s, drop_out: 60s")
    lab.run(seconds=600)
    assert unschedulable(lab)
    lab.stop()
    revision, free = lab.server.store.revision, lab.fabric.free("1", "A100 40G")
    lab.run(seconds=7200)
    assert unschedulable(lab)
    assert (lab.server.store.revision, lab.fabric.free("1", "A100 40G")) == (revision, free)


def test_built_in_devices_do_not_drop_out_and_others_do() -> None:
    lab = chaotic("drop_out: 60s")
    lab.run(seconds=3600)
    assert len(lab.fabric.attached("node0000")) == 2
    lab.fabric.attach("node0000", "A100 40G", lambda answer: None)
    lab.run(seconds=10)
    assert len(lab.fabric.attached("node0000")) == 3
    lab.run(seconds=3600)
    assert [one.fixed for one in lab.fabric.attached("node0000")] == [True, True]
    lab.stop()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_blows_come_at_random_and_in_the_mean_as_often_as_is_said(seed: int) -> None:
    lab = chaotic("shrink: 3m", seed)
    struck: list[int] = []
    lab.fabric.on_pool(lambda fabric, model: struck.append(lab.time.now()))
    lab.run(seconds=3 * 3600)
    assert 40 <= len(struck) <= 80
    gaps = [later - sooner for sooner, later in pairwise(struck)]
    assert min(gaps) < 60_000_000
    assert max(gaps) > 300_000_000
    lab.stop()
