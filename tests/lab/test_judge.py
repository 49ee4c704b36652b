"""The judges find a fault that is made by hand, with no scaler of ours and no publisher of ours in sight.

Every rule is tried in tests/lab: of scalers in scaler/test_judge.py, of publishers in publisher/test_judge.py.
"""

from __future__ import annotations

from typing import Any

from dds_lab.judge import Judge, PoolsJudge
from dds_lab.lab import Lab
from dds_lab.scenario.reading import parse

SCENARIO = """
duration: 1m
cluster:
  models: [{model: A100, device: a100, product: NVIDIA A100}]
  fabrics: [{id: 1, devices: {A100: 2}}]
  nodes: [{count: 1}]
parts: {scaler: false}
steps:
  - {at: 5s, attach: {node: node0000, model: A100}}
"""
PUBLISHER = "composable-dra-driver"


def test_a_device_that_nobody_needs_is_a_fault_of_whoever_attaches_it() -> None:
    with Lab.virtual(parse(SCENARIO, "beyond need")) as lab:
        judge = Judge(lab)
        lab.run()
    (found,) = judge.findings
    assert (found.rule, found.of) == ("beyond need", "('node0000', 'A100')")


def test_a_device_that_is_not_there_is_a_fault_of_whoever_offers_it() -> None:
    with Lab.virtual(parse(SCENARIO, "offered")) as lab:
        judge = PoolsJudge(lab, PUBLISHER)
        lab.run()
        assert judge.findings == []
        pool: Any = next(
            one for one in lab.client(PUBLISHER).list("resourceslices") if "fabric" in one["metadata"]["name"]
        )
        device = pool["spec"]["devices"][0]
        more = [{**device, "name": f"more-{number}"} for number in range(3)]
        lab.restart("publisher", down=100.0)
        spec = {**pool["spec"], "devices": [*pool["spec"]["devices"], *more]}
        lab.client(PUBLISHER).update("resourceslices", {**pool, "spec": spec})
        lab.run(30)
    assert judge.rules["more than there is"] == 1
