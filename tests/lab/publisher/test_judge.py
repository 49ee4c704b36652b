"""The judge of publishers finds faults: those of the reference publisher, each by its number.

Our own publisher does the same stories with nothing found (`test_scenarios`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dds_core.log import MemoryLog
from dds_lab.check.subjects import CLUSTER
from dds_lab.driver import OurScaler
from dds_lab.judge.publisher import PoolsJudge
from dds_lab.lab import Lab
from tests.support.publishing import SCALER, change_models, written

REFERENCE = "composable-dra-driver"
SMALL = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100}
fabrics:
  - {id: 1, devices: {NVIDIA A100: 3}}
  - {id: 2, devices: {NVIDIA A100: 2}}
nodes:
  - {count: 3, fabric: 1}
  - {first: 3, count: 1, fabric: 2}
"""
THREE_CLAIMS = """
steps:
  - {at: 10s, run: {name: a, devices: {nvidia-a100: 1}, node_selector: {cohdi.io/fabric: "1"}}}
  - {at: 10s, run: {name: b, devices: {nvidia-a100: 1}, node_selector: {cohdi.io/fabric: "1"}}}
  - {at: 10s, run: {name: c, devices: {nvidia-a100: 1}, node_selector: {cohdi.io/fabric: "1"}}}
"""


@contextmanager
def reference(cluster: str, more: str = "", *, scales: bool = True) -> Iterator[tuple[Lab, PoolsJudge]]:
    """A lab in which the reference publisher runs, and our scaler if somebody scales."""
    scenario = written(cluster, more).model_copy()
    parts = scenario.parts.model_copy(update={"publisher": type(scenario.parts).model_fields["publisher"].default})
    with Lab.virtual(scenario.model_copy(update={"parts": parts})) as lab:
        judge = PoolsJudge(lab, REFERENCE, mark="")
        scaler = OurScaler(lab, MemoryLog("lab/scaler", cluster=CLUSTER, recorded_at=scenario.start), SCALER)
        if scales:
            scaler.start()
        yield lab, judge
        scaler.kill()


def test_d1_d2_a_name_that_a_claim_holds_vanishes() -> None:
    with reference(SMALL, THREE_CLAIMS) as (lab, judge):
        lab.run(40)
    assert judge.rules["withdrawn in use"] >= 1
    assert {one.of.partition("/")[0] for one in judge.findings if one.rule == "withdrawn in use"} == {
        "nvidia-a100-fabric1"
    }


def test_d3_a_change_of_the_configuration_is_not_taken_up() -> None:
    with reference(SMALL) as (lab, judge):
        lab.run(20)
        assert judge.differences() == []
        change_models(lab, lambda entries: entries[0]["dra-attributes"].update(architecture="Ampere"))
        lab.run(60)
        assert any("has the attributes" in one for one in judge.differences())


def test_d4_the_pool_of_a_fabric_that_is_gone_stays() -> None:
    with reference(SMALL) as (lab, judge):
        lab.run(20)
        lab.fabric.connect("node0003", "")
        lab.run(300)
        assert any(one.startswith("nvidia-a100-fabric2 is still there") for one in judge.differences())


@pytest.mark.parametrize(("asked", "error", "found"), [(1, "", 0), (0, "", 1), (1, "no", 1)])
def test_nobody_can_tell_whether_the_operator_has_asked_the_fabric_yet(asked: int, error: str, found: int) -> None:
    """Three are listed, of which a claim has one; one of the others goes to another node meanwhile."""
    with reference(SMALL, THREE_CLAIMS.partition("  - {at: 10s, run: {name: b")[0], scales=False) as (lab, judge):
        lab.run(20)
        (claim,) = judge.view.claims.values()
        for part in ("publisher", "operator"):
            lab.restart(part, down=1000.0)
        for number in range(asked):
            ask(lab, f"gpu-{number}", claim.node, error)
        elsewhere = "node0001" if claim.node == "node0000" else "node0000"
        lab.fabric.attach(elsewhere, "NVIDIA A100", lambda _: None)
        lab.run(60)
    assert judge.rules["more than there is"] == found


def ask(lab: Lab, name: str, node: str, error: str) -> None:
    client = lab.client("somebody")
    spec = {"type": "gpu", "model": "NVIDIA A100", "target_node": node}
    kind = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "metadata": {"name": name}}
    client.create("composableresources", {**kind, "spec": spec})
    client.patch("composableresources", name, {"status": {"state": "Attaching", "error": error}}, subresource="status")


def test_d6_what_does_not_fit_into_one_slice_is_left_out() -> None:
    with reference(SMALL.replace("{NVIDIA A100: 3}", "{NVIDIA A100: 200}")) as (lab, judge):
        lab.run(60)
        assert judge.differences() == ["nvidia-a100-fabric1 lists 128 devices that nobody holds, there are 200"]


def test_d13_capacities_are_not_published() -> None:
    with reference(SMALL) as (lab, judge):
        change_models(lab, lambda entries: entries[0].update(capacity={"memory": "40Gi"}))
        lab.restart("publisher")
        lab.run(60)
        assert any("has the capacity None" in one for one in judge.differences())
