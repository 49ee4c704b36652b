"""Faults of the reference scaler (B1 to B30 of docs/differences.md) that the check finds in the simulated one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_lab import shipped
from dds_lab.check.campaign import Case, cases, faults_of_calm, play
from dds_lab.check.perturb import Kind

HEAD = """
duration: 5m
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
    - {model: H100 80G, device: nvidia-h100-80, product: NVIDIA H100 80GB PCIe, not_with: [%s]}
  fabrics: [{id: 1, devices: {A100 40G: 4, H100 80G: 4}}]
  nodes: [{count: %d, fabric: 1}]
  namespaces: [other]
  objects:
    - {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: strange},
       spec: {selectors: [{cel: {expression: device.driver == "strange.example.com"}}]}}
    - apiVersion: resource.k8s.io/v1
      kind: ResourceSlice
      metadata: {name: strange}
      spec:
        driver: strange.example.com
        allNodes: true
        pool: {name: strange, generation: 1, resourceSliceCount: 1}
        devices: [{name: one, bindsToNode: true, bindingConditions: [Ready], bindingFailureConditions: [Failed]}]
parts:
  fabric: {attach: 1s, detach: 500ms}
  operator: {kind: ideal, sync: 0s}
  scaler: {interval: 5s, removal: 15s, allocation: 5s}
steps:
"""
STORIES = {
    "one node refuses": HEAD % ("", 2)
    + """
  - {at: 1s, run: {name: train, devices: {nvidia-a100-40: 1}}}
faults:
  fabric: [{kind: refuse, operation: attach, nodes: [node0001]}]
""",
    "one name twice": HEAD % ("A100 40G", 1)
    + """
  - {at: 1s, run: {name: same, devices: {nvidia-h100-80: 1}}}
  - {at: 1s, run: {name: same, namespace: other, devices: {nvidia-a100-40: 1}}}
""",
    "strange pool": HEAD % ("", 1)
    + """
  - {at: 1s, run: {name: strange, devices: {strange: 1}}}
  - {at: 3s, run: {name: train, devices: {nvidia-a100-40: 1}}}
""",
    "two models": HEAD % ("", 1)
    + """
  - {at: 1s, run: {name: a, devices: {nvidia-a100-40: 1}}}
  - {at: 2s, run: {name: h, devices: {nvidia-h100-80: 1}}}
  - wait_for: {object: pods/a, has: status.phase, equals: Running, within: 2m}
  - withdraw: a
""",
}
SHIPPED = ("node_limit", "many_devices", "two_claims", "exchange_crash")


@pytest.fixture(params=[*STORIES, *SHIPPED])
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return story(request.param, tmp_path)


def story(name: str, folder: Path) -> str:
    """What finds a scenario."""
    if name in SHIPPED:
        return name
    path = folder / "story.yaml"
    path.write_text(STORIES[name])
    return str(path)


def calm(scenario: str, who: str = "reference") -> list[str]:
    return list(map(": ".join, faults_of_calm(Case(scenario, shipped.find(scenario).seed, who)).said))


def anywhere(scenario: str, kind: Kind) -> list[str]:
    """What is found at any point of one kind."""
    told: list[str] = []
    quiet = Case(scenario, shipped.find(scenario).seed, "reference")
    play(cases(quiet, (kind,), 1), 1, lambda found: told.extend(map(": ".join, found.said)))
    return told


def test_b3_one_object_that_it_does_not_know_stops_it_for_all(tmp_path: Path) -> None:
    assert any("waits for ever: default/train" in one for one in calm(story("strange pool", tmp_path)))


def test_b4_and_b14_a_device_is_detached_while_a_claim_has_it() -> None:
    assert any("detached in use" in one for one in anywhere("many_devices", "stale-start"))


def test_b5_a_node_whose_attaches_fail_keeps_the_claim(tmp_path: Path) -> None:
    assert any("waits for ever: default/train" in one for one in calm(story("one node refuses", tmp_path)))


def test_b9_one_device_is_promised_to_several_claims() -> None:
    assert any("promised twice" in one for one in anywhere("two_claims", "unseen"))


def test_b11_a_claim_fails_when_a_slice_is_not_seen() -> None:
    """A claim that nothing fails while its slices are seen."""
    assert not any("failed without cause: default/big" in one for one in calm("many_devices"))
    assert any("failed without cause: default/big" in one for one in anywhere("many_devices", "unseen"))


def test_b12_a_node_of_two_models_does_not_shrink(tmp_path: Path) -> None:
    assert calm(story("two models", tmp_path)) == ["left over: a device that nobody needs"]


def test_b19_claims_of_one_name_in_two_namespaces_are_one_to_it(tmp_path: Path) -> None:
    assert any("coexistence" in one for one in calm(story("one name twice", tmp_path)))


def test_b23_a_claim_that_failed_goes_round() -> None:
    assert any("goes round" in one for one in calm("node_limit"))


def test_ours_has_none_of_it(scenario: str) -> None:
    assert calm(scenario, "ours") == []
