"""Whose time a wait is, where neither dds nor the fabric is to blame: at each moment status and histories say the same, and in
the end what happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dds_adapters.jsonl import JsonlLog
from dds_adapters.jsonl.writing import export
from dds_core.events import Checkpoint
from dds_core.replay import moments
from dds_core.scaler.component import SCALER
from dds_core.scaler.folds import apply
from dds_core.scaler.history import History
from dds_core.scaler.state import PROJECTION, State, dump
from dds_core.timeline import Moment
from dds_lab.check.subjects import Ours, without_hands
from dds_lab.lab import Lab
from dds_lab.scenario import parse
from tests.cli.test_unallocated import logged
from tests.core.scaler.history.told import differences
from tests.support.commands import fine
from tests.support.world import SECOND

CLUSTER = """
about: one model, two nodes
cluster:
  models: [{model: L40, device: nvidia-l40, product: NVIDIA L40}]
  fabrics: [{id: 1, devices: {L40: 3}}]
  nodes: [{count: 2, fabric: 1}]
parts: {scaler: false, operator: {}, fabric: {attach: 10s}}
steps:
"""
CLAIM = """
  - at: 14s
    apply:
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: c}
      spec: {devices: {requests: [{name: r0, exactly: {deviceClassName: nvidia-l40}}]}}
"""
POD = """
  - at: AT
    apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: NAME}
      spec:
        containers: [{name: c, image: pause, resources: {claims: [{name: g}]}}]
        resourceClaims: [{name: g, resourceClaimName: c}]
        restartPolicy: Never
        terminationGracePeriodSeconds: 0
"""


def pod(at: str, name: str, node: str = "") -> str:
    return POD.replace("AT", at).replace("NAME", name) + (f"        nodeName: {node}\n" if node else "")


def moments_of(log: str) -> Iterator[Moment]:
    return moments(JsonlLog(log).read_lean(0), SCALER)


def stages(log: str, claim: str) -> dict[str, float]:
    """Those of its timeline, which are those of status at each moment of the log."""
    assert not differences(moments_of(log))
    (found,) = json.loads(fine("timeline", claim, log, "--json"))["claims"]
    return {stage: round(seconds) for stage, seconds in found["stage_seconds"].items() if seconds >= 0.5}


def waiting(log: str) -> dict[str, dict[str, Any]]:
    return {row["claim"]: row for row in json.loads(fine("status", log, "--json"))["waiting"]}


def test_a_class_that_is_deleted_while_the_device_comes_is_nobodys_fault_but_its_deleters(tmp_path: Path) -> None:
    log = logged(
        CLUSTER
        + """
  - {at: 15s, run: {name: one, devices: {nvidia-l40: 1}}}
  - {at: 20s, delete: deviceclasses/nvidia-l40}
""",
        tmp_path,
        60,
    )
    found = stages(log, "default/one")
    assert (found["fabric"], found["driver"]) == (10, 4) and found.keys() == {"fabric", "driver", "barred"}
    row = waiting(log)["default/one"]
    assert row["stage"] == "barred" and "device class nvidia-l40: not found" in row["why"]
    assert "create the class" in " ".join(fine("incident", log).split())
    told, state = list(moments_of(log)), State()
    for place, moment in enumerate(told):
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(state, event, moment.at)
                state.dirty.clear()
        if moment.at > told[0].at + 18 * SECOND:
            begun = Moment(moment.position, moment.at, Checkpoint(projection=PROJECTION, picture=dump(state)), [])
            (one,) = History().read([begun, *told[place + 1 :]]).claims.values()
            assert one.stage == "barred", "also of a log that begins while the class is there, or once it is gone"


def test_a_pod_that_was_put_on_another_node_keeps_the_device_from_its_claim(tmp_path: Path) -> None:
    log = logged(CLUSTER + CLAIM + pod("15s", "p1") + pod("18s", "p2", "node0000"), tmp_path, 60)
    found = waiting(log)["default/c"]
    assert found["node"] == "node0001", "the scheduler's choice, else the pod would be on the right node"
    assert stages(log, "default/c").keys() == {"fabric", "driver", "barred"}
    assert found["stage"] == "barred" and "p2, which shares it, is on node0000 already" in found["why"]


def test_a_pod_that_was_put_there_past_the_scheduler_is_named_where_no_exchange_is_possible(tmp_path: Path) -> None:
    steps = CLAIM + pod("15s", "p1") + pod("27s", "p2", "node0001")
    log = logged(CLUSTER + steps, tmp_path, 50, hand_over="clear")
    found = waiting(log)["default/c"]
    assert found["stage"] == "barred" and "default/p2 was put on node0001 past the scheduler" in found["why"]
    (tmp_path / "ended").mkdir()
    log = logged(CLUSTER + steps + "  - {at: 60s, delete: pods/p2}\n", tmp_path / "ended", 90, hand_over="clear")
    assert stages(log, "default/c") == {"fabric": 10, "driver": 4, "barred": 31, "hand-over": 5, "scheduler": 2}


def test_a_device_that_falls_off_its_bus_while_it_idles_is_not_what_dds_has_to_give(tmp_path: Path) -> None:
    log = logged(
        CLUSTER
        + """
  - {at: 15s, run: {name: one, devices: {nvidia-l40: 1}, delete_after: 5s}}
  - {at: 15s, run: {name: two, devices: {nvidia-l40: 1}}}
  - {at: 38s, drop_out: {node: node0001}}
  - {at: 45s, run: {name: three, devices: {nvidia-l40: 1}}}
""",
        tmp_path,
        120,
    )
    assert stages(log, "default/three") == {"operator": 10, "fabric": 10, "driver": 4, "exchange": 1, "scheduler": 1}


def test_the_time_in_which_no_process_ran_is_told(tmp_path: Path) -> None:
    """It counted to the fabric and the operator alone, whose devices came meanwhile."""
    found = parse(CLUSTER + "  - {at: 15s, run: {name: one, devices: {nvidia-l40: 1}}}\n", "away.yaml")
    with Lab.virtual(without_hands(found)) as lab:
        subject = Ours(lab, found)
        subject.begin()
        lab.run(seconds=20)
        subject.end()
        lab.run(seconds=40)
        subject.begin()
        lab.run(seconds=30)
        export(subject.log, str(tmp_path / "away.jsonl"))
    told = " ".join(fine("incident", str(tmp_path / "away.jsonl")).split())
    assert "dds wrote nothing for 44.9 s until it started anew at 00:01:00: 1 claim waited meanwhile" in told
    assert "1. see why dds ended: kubectl logs --previous (1 × restart; operations.md#when-the-process-ends)" in told
    (gap,) = json.loads(fine("incident", str(tmp_path / "away.jsonl"), "--json"))["away"]
    assert (gap["to"], gap["claims"]) == ("2026-11-21T00:01:00.000000Z", 1)
    assert not json.loads(fine("incident", str(tmp_path / "away.jsonl"), "--json", "--since", "00:01:05"))["away"]
