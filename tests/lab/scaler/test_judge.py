"""The judge finds what it is there to find: each of its rules, on the stand-in scaler (which keeps the reference's faults) or on
moves that a scenario makes by hand. What it says of our own scaler is worth something only because of that."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab import shipped
from dds_lab.judge.scaler import Judge
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.scenario.reading import parse


def judged(scenario: Scenario, seed: int = 1, seconds: float | None = None) -> Judge:
    with Lab.virtual(scenario, seed=seed) as lab:
        judge = Judge(lab)
        lab.run(seconds)
    return judge


def standing_in(name: str, **knobs: float) -> Scenario:
    """A scenario whose stand-in scaler has other durations."""
    found = shipped.find(name)
    scaler = found.parts.scaler
    assert scaler is not None
    parts = found.parts.model_copy(update={"scaler": scaler.model_copy(update=knobs)})
    return found.model_copy(update={"parts": parts})


def by_hand(steps: str, nodes: str = "{count: 1}", rivals: bool = False) -> Scenario:
    """Nobody acts but these steps."""
    not_with = ", not_with: [H100]" if rivals else ""
    return parse(
        f"""
cluster:
  models: [{{model: A100, device: a100, product: a{not_with}}}, {{model: H100, device: h100, product: h}}]
  fabrics: [{{id: 1, devices: {{A100: 4, H100: 4}}}}]
  nodes: [{nodes}]
parts: {{operator: false, scaler: false, fabric: {{attach: 1s}}}}
duration: 5m
steps:
{steps}
""",
        "by hand",
    )


def test_b09_one_device_that_is_promised_to_two_claims() -> None:
    found = [finding for seed in range(1, 4) for finding in judged(shipped.find("burst"), seed).of("promised twice")]
    assert found
    assert all("announced to" in one.text for one in found)


def test_b10_an_announced_device_that_another_claim_takes() -> None:
    assert judged(shipped.find("burst"), 3).thefts


@pytest.mark.parametrize("name", ["burst", "many_devices"])
def test_b11_a_claim_that_fails_because_a_name_vanished(name: str) -> None:
    found = judged(shipped.find(name)).of("failed without cause")
    assert found
    assert all("FabricDeviceFailed" in one.text for one in found)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_b14_a_device_that_is_taken_from_under_a_claim(seed: int) -> None:
    rules = judged(standing_in("burst", removal=1.0, allocation=0.0), seed).rules
    assert rules["detached in use"]
    assert rules["beyond need"]


def test_b22_b23_a_claim_that_is_failed_and_chosen_again_without_end() -> None:
    (found,) = judged(shipped.find("node_limit")).of("goes round")
    assert found.text == "was allocated 5 times within a minute"


def test_a_fabric_and_an_operator_that_bring_a_second_device() -> None:
    assert judged(shipped.find("faults")).of("beyond need")


def test_a_claim_that_waits_although_there_is_a_device() -> None:
    scenario = by_hand("  - {at: 1s, run: {name: w, devices: {a100: 1}}}")
    (found,) = judged(scenario).findings
    assert (found.rule, found.of) == ("waits for ever", "default/w")
    assert 120 <= (found.at - scenario.start) / 1_000_000 < 130
    assert not judged(scenario, seconds=100).findings


def test_a_claim_that_waits_with_reason_is_no_finding() -> None:
    """The node may have none, the pool is empty, or the node is closed."""
    step = "  - {at: 1s, run: {name: w, devices: {a100: 1}}}"
    assert not judged(by_hand(step, "{count: 1, limits: {A100: {max: 0}}}")).findings
    assert not judged(by_hand(f"  - {{resize: {{model: A100, by: -4}}}}\n{step}")).findings
    assert not judged(by_hand(f"  - {{cordon: node0000}}\n{step}")).findings


def test_devices_that_nobody_needs_are_beyond_need() -> None:
    (found,) = judged(by_hand("  - {at: 1s, attach: {node: node0000, model: A100}}")).findings
    assert (found.rule, found.text) == ("beyond need", "1 devices with this order, 0 were needed at most")


def test_a_node_over_its_limit() -> None:
    step = "  - {at: 1s, attach: {node: node0000, model: A100}}"
    judge = judged(by_hand(f"{step}\n{step}", "{count: 1, limits: {A100: {max: 1}}}"))
    assert [one.text for one in judge.of("over the limit")] == ["2 devices with this order"]


def test_what_was_on_a_node_that_went_and_came_again_is_nobodys_order() -> None:
    """Its ComposableResource went with the node: for everybody it is a device that was always there, until it is taken off."""
    with Lab.virtual(by_hand("  []", "{count: 1, limits: {A100: {max: 1}}}")) as lab:
        judge = Judge(lab)
        client = lab.client("somebody")
        lab.fabric.attach("node0000", "A100", lambda _: None)
        lab.run(5)
        node = client.get("nodes", "node0000")
        lab.lose_node("node0000")
        lab.run(1)
        client.create("nodes", {"metadata": {"name": "node0000", "labels": node["metadata"]["labels"]}})
        lab.fabric.attach("node0000", "A100", lambda _: None)
        lab.run(5)
        assert not judge.of("over the limit")
        lab.fabric.attach("node0000", "A100", lambda _: None)
        assert [one.text for one in judge.of("over the limit")] == ["2 devices with this order"]


@pytest.mark.parametrize("order", [("A100", "H100"), ("H100", "A100")])
def test_models_that_may_not_meet_whichever_comes_first(order: tuple[str, str]) -> None:
    steps = "\n".join(f"  - {{after: 100ms, attach: {{node: node0000, model: {model}}}}}" for model in order)
    judge = judged(by_hand(steps, rivals=True))
    assert [one.text for one in judge.of("coexistence")] == [f"{order[0]} is there, or comes"]


def test_a_label_that_comes_and_goes() -> None:
    with Lab.virtual(by_hand("  []")) as lab:
        judge = Judge(lab)
        client = lab.client("somebody")
        for count in range(8):
            value: Any = None if count % 2 else "true"
            client.patch("nodes", "node0000", {"metadata": {"labels": {"cohdi.io/a100-ready": value}}})
            lab.run(1)
    assert judge.rules == {"flapping": 1}


def test_a_detach_is_judged_at_its_order_and_at_its_end() -> None:
    steps = """
  - {at: 1s, run: {name: w, devices: {a100: 1}}}
  - {after: 1s, attach: {node: node0000, model: A100}}
  - {after: 100ms, condition: {claim: w, type: FabricDeviceReschedule}}
  - wait_for: {object: pods/w, has: status.phase, equals: Running, within: 1m}
  - {after: 1s, detach: {node: node0000, model: A100}}
"""
    found = judged(by_hand(steps)).of("detached in use")
    assert [one.text.split()[1] for one in found] == ["ordered", "done"]
    assert "hold it" in found[0].text and "default/w" in found[0].text
