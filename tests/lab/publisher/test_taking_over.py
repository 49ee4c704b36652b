"""The way of docs/migration.md, with a judge over it: from the reference's publisher to ours while claims hold devices and others
come, and back again. No name that a claim holds goes, no pod loses its device, and no slice is made anew for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dds_core.publisher.events import PoolPublished
from dds_core.publisher.policy import PublishPolicy
from dds_lab.lab import Lab
from tests.support.publishing import PublishRun, Surroundings, publishing, written

CLUSTER = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100}
  - {model: NVIDIA H100, device: nvidia-h100, product: H100}
fabrics:
  - {id: 1, devices: {NVIDIA A100: 6, NVIDIA H100: 2}}
nodes:
  - {count: 3, fabric: 1}
"""
STEPS = """steps:
  - {at: 5s, run: {name: early, devices: {nvidia-a100: 1}, lasts: 9m}}
  - {at: 29s, run: {name: between, devices: {nvidia-a100: 1}, lasts: 9m}}
  - {at: 34s, run: {name: while-none, devices: {nvidia-h100: 1}, lasts: 9m}}
  - {at: 100s, run: {name: late, devices: {nvidia-a100: 2}, lasts: 9m}}
"""
LABEL = "app.kubernetes.io/managed-by"
ADOPT = PublishPolicy(mode="publish", adopt="reference")
Object = dict[str, Any]
Held = dict[str, set[str]]


def pools(lab: Lab) -> dict[str, Object]:
    """Slices that are of no node, by their names."""
    found = lab.client("admin").list("resourceslices")
    return {one["metadata"]["name"]: one for one in found if "nodeName" not in one["spec"]}


def held(lab: Lab) -> Held:
    """By pool the names that claims hold."""
    names: Held = {}
    for claim in lab.client("admin").list("resourceclaims"):
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for one in (allocation.get("devices") or {}).get("results") or ():
            if one.get("bindingConditions"):
                names.setdefault(one["pool"], set()).add(one["device"])
    return names


def listed(lab: Lab) -> Held:
    """By pool the names that are published."""
    names: Held = {}
    for one in pools(lab).values():
        spec = one["spec"]
        names.setdefault(spec["pool"]["name"], set()).update(device["name"] for device in spec.get("devices") or ())
    return names


def nothing_held_is_gone(lab: Lab) -> None:
    there = listed(lab)
    for pool, names in held(lab).items():
        assert names <= there[pool]


@contextmanager
def beside_the_reference(policy: PublishPolicy) -> Iterator[PublishRun]:
    """The reference's publisher has been at work for 30 seconds, and claims hold devices; ours has not begun."""
    scenario = written(CLUSTER, STEPS)
    usual = type(scenario.parts).model_fields["publisher"].get_default(call_default_factory=True)
    scenario = scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"publisher": usual})})
    with publishing(scenario, Surroundings(policy=policy), begin=False) as run:
        run.lab.run(30)
        yield run


def end_of_the_reference(run: PublishRun) -> None:
    """As `kubectl scale --replicas=0` leaves it: what it published stays."""
    run.lab.restart("publisher", down=10_000)


def test_ours_observes_beside_it_and_touches_nothing() -> None:
    with beside_the_reference(PublishPolicy()) as run:
        before = pools(run.lab)
        run.ours.start()
        run.lab.run(60)
        assert {one["metadata"]["uid"] for one in pools(run.lab).values()} == {
            one["metadata"]["uid"] for one in before.values()
        }
        assert not any(LABEL in (one["metadata"].get("labels") or {}) for one in pools(run.lab).values())


def test_without_leave_to_adopt_nothing_of_it_is_touched() -> None:
    with beside_the_reference(PublishPolicy(mode="publish")) as run:
        end_of_the_reference(run)
        before = pools(run.lab)
        run.ours.start()
        run.lab.run(60)
        assert pools(run.lab) == before


def test_its_slices_are_taken_over_in_place_and_every_pod_runs() -> None:
    with beside_the_reference(ADOPT) as run:
        before = pools(run.lab)
        end_of_the_reference(run)
        run.lab.run(5)
        assert held(run.lab)
        nothing_held_is_gone(run.lab)
        run.ours.start()
        for _ in range(60):
            run.lab.run(1)
            nothing_held_is_gone(run.lab)
        after = pools(run.lab)
        assert {name: one["metadata"]["uid"] for name, one in after.items()} == {
            name: one["metadata"]["uid"] for name, one in before.items()
        }
        assert {one["metadata"]["labels"][LABEL] for one in after.values()} == {"dds-publisher"}
        assert all(
            one["metadata"]["generation"] >= before[name]["metadata"]["generation"] for name, one in after.items()
        )
        assert any(event.adopt for _, event in run.events(PoolPublished) if isinstance(event, PoolPublished))
        run.lab.run(120)
        assert set(run.outcomes.ran) == {"early", "between", "while-none", "late"}
        assert run.judge.findings == []


def test_the_way_back() -> None:
    """The reference takes every slice of its driver that is of no node for its own; pods that run go on running."""
    with beside_the_reference(ADOPT) as run:
        end_of_the_reference(run)
        run.ours.start()
        run.lab.run(60)
        running = set(run.outcomes.ran)
        assert running >= {"early", "between"}
        run.ours.kill()
        run.lab.restart("publisher")
        run.lab.run(90)
        assert set(run.outcomes.ran) >= running | {"late"}
        assert listed(run.lab).keys() == {"nvidia-a100-fabric1", "nvidia-h100-fabric1"}
