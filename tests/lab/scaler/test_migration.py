"""From the reference scaler to ours, and back again, as docs/migration.md goes: ours observes beside it, then takes over.
Nothing is given back for that, nothing is attached twice, and what the other one ordered is raised and lowered in place."""

from __future__ import annotations

import pytest

from dds_core.events import Event
from dds_core.kit.policy import Mode
from dds_core.scaler.events import AttachOrdered, DetachOrdered
from dds_core.scaler.policy import Policy
from dds_lab.scenario.reading import parse
from tests.support.ours import Running, running

SWITCH = 60.0
"""Seconds after which the reference ends and ours begins to write."""

CLUSTER = """
seed: 3
duration: 4m
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 4}}]
  nodes: [{count: 1, fabric: 1}]
parts:
  fabric: {attach: {between: [800ms, 1400ms]}, detach: {between: [430ms, 600ms]}}
  vendor: {start: 10ms}
  publisher: {interval: 0s}
  operator: {kind: ideal, sync: 0s}
  scaler: {interval: 5s, removal: 15s, allocation: 5s}
steps:
"""
"""One node, and the reference scaler."""

THERE = """
  - {at: 1s, run: {name: first, devices: {nvidia-a100-40: 1}, lasts: 150s, delete_after: 150s}}
  - {at: 2s, run: {name: second, devices: {nvidia-a100-40: 1}}}
  - {at: 60s, restart: {part: scaler, down: 1h}}
  - {at: 90s, run: {name: third, devices: {nvidia-a100-40: 1}}}
"""
"""The reference serves two pods and ends; a third pod comes to the node, then the first one goes."""

BACK = """
  - {at: 0s, restart: {part: scaler, down: 60s}}
  - {at: 1s, run: {name: first, devices: {nvidia-a100-40: 1}}}
  - {at: 90s, run: {name: second, devices: {nvidia-a100-40: 1}}}
"""
"""Ours serves a pod and gives way to the reference; a second pod comes."""


def policy(mode: Mode) -> Policy:
    return Policy(
        mode=mode,
        scan_interval_seconds=5,
        no_removal_seconds=15,
        no_allocation_seconds=5,
    )


def requests(run: Running) -> dict[str, tuple[str, int]]:
    """Name → (uid, size)."""
    found = run.lab.client("test").list("composabilityrequests")
    return {one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]["resource"]["size"]) for one in found}


def decided(run: Running, *kinds: type[Event]) -> list[Event]:
    return [event for at, event in run.events(*kinds) if getattr(event, "mode", "") != "observe"]


@pytest.mark.parametrize("mode", ["attach", "detach"])
def test_requests_are_taken_over_without_a_detach(mode: Mode) -> None:
    scenario = parse(CLUSTER + THERE, "there")
    with running(scenario, policy("observe")) as run:
        run.lab.run(SWITCH + 5)
        before, attached = requests(run), run.attached()
        assert [name.startswith("composability-") for name in before] == [True]
        assert sum(size for _, size in before.values()) == len(attached) == 2
        assert decided(run, AttachOrdered, DetachOrdered) == []

        run.ours.change_policy(policy(mode))
        run.lab.run(20)
        assert requests(run) == before, "nothing was to be changed for the switch"
        assert run.attached() == attached

        run.lab.run(30)  # the third pod came
        assert {name: uid for name, (uid, _) in requests(run).items()} == {
            name: uid for name, (uid, _) in before.items()
        }
        assert len(run.attached()) == 3
        assert run.outcomes.ran.keys() == {"first", "second", "third"}

        run.lab.run(scenario.duration - SWITCH - 55)  # the first one went
        left = 2 if mode == "detach" else 3
        assert len(run.attached()) == left
        assert sum(size for _, size in requests(run).values()) == left
        assert requests(run).keys() == before.keys()
        assert run.lab.ledger.count("attach", "done") == 3
        assert run.lab.ledger.count("detach", "done") == 3 - left
        assert [one for one in run.judge.findings if one.rule == "detached in use"] == []
        run.sound()


def test_the_way_back_is_open() -> None:
    with running(parse(CLUSTER + BACK, "back"), policy("detach")) as run:
        run.lab.run(SWITCH - 5)
        before = requests(run)
        assert [name.startswith("dds-") for name in before] == [True]
        assert len(run.attached()) == 1

        run.ours.change_policy(policy("observe"))
        run.lab.run(60)
        assert {name: uid for name, (uid, _) in requests(run).items()} == {
            name: uid for name, (uid, _) in before.items()
        }
        assert run.outcomes.ran.keys() == {"first", "second"}
        assert len(run.attached()) == run.lab.ledger.count("attach", "done") == 2
        assert run.lab.ledger.count("detach", "done") == 0
        assert [event for event in decided(run, AttachOrdered) if getattr(event, "size", 0) > 1] == []
        run.sound()
