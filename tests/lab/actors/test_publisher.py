"""The pool publisher: names by position, generations, selectors, node labels, and the better names."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dds_lab.actors.publisher import ReferencePublisher
from dds_lab.client import Object
from dds_lab.scenario.parts import PublisherPart
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import A100, Hall

SLICE = "nvidia-a100-40-fabric1-gpu-nvidia-com-0"
POOL = "nvidia-a100-40-fabric1"
SOON = PublisherPart(interval=0.0, reaction=fixed(0.01))


def published(
    settings: PublisherPart = SOON,
    *,
    configured: bool = True,
    count: int = 4,
    limits: Mapping[str, dict[str, str]] | None = None,
) -> Hall:
    hall = Hall(operator=None, count=count)
    if configured:
        hall.configure()
    hall.start(ReferencePublisher(hall.client("publisher"), hall.time, settings, hall.fabric, limits))
    hall.run(1)
    return hall


def spec(hall: Hall) -> Object:
    found: Object = hall.user.get("resourceslices", SLICE)["spec"]
    return found


def generation(hall: Hall) -> int:
    found: int = spec(hall)["pool"]["generation"]
    return found


def attach(hall: Hall) -> None:
    hall.fabric.attach("node0", A100, lambda answer: None)
    hall.run(3)


def hold(hall: Hall, name: str, device: str) -> None:
    """A claim holds a device of the pool."""
    hall.claim(name)
    hall.pod(name, claims=[{"name": "d0", "resourceClaimName": name}])
    hall.allocate(name, name, "node0", (POOL, device), conditions=True)
    hall.run(1)


def test_with_an_interval_it_looks_at_its_multiples_only() -> None:
    hall = published(PublisherPart(interval=5.0))
    began = hall.time.now()
    stories = hall.story("resourceslices", "spec", "pool", "generation")
    hall.run(1)
    hall.fabric.resize("1", A100, -1)
    hall.run(2.5)
    assert stories == []
    hall.run(1)
    assert stories == [(SLICE, 2)]
    assert hall.time.now() - began == 4_500_000


def test_nodes_carry_the_fabric_and_the_limits() -> None:
    hall = published(limits={"node1": {"nvidia-a100-40-size-max": "2", "nvidia-a100-40-size-min": "1"}})
    first = hall.user.get("nodes", "node0")["metadata"]["labels"]
    second = hall.user.get("nodes", "node1")["metadata"]["labels"]
    assert first["cohdi.io/fabric"] == "1"
    assert "cohdi.io/nvidia-a100-40-size-max" not in first
    assert second["cohdi.io/nvidia-a100-40-size-max"] == "2"
    assert second["cohdi.io/nvidia-a100-40-size-min"] == "1"


def test_a_label_that_somebody_changes_comes_back_and_a_new_node_gets_it() -> None:
    hall = published()
    hall.user.patch("nodes", "node0", {"metadata": {"labels": {"cohdi.io/fabric": "9"}}})
    hall.fabric.connect("node7", "1")
    hall.node("node7")
    hall.run(1)
    assert hall.user.get("nodes", "node0")["metadata"]["labels"]["cohdi.io/fabric"] == "1"
    assert hall.user.get("nodes", "node7")["metadata"]["labels"]["cohdi.io/fabric"] == "1"


def test_without_a_config_map_it_waits_for_one() -> None:
    hall = published(configured=False)
    assert hall.user.find("resourceslices", SLICE) is None
    hall.configure()
    hall.run(10)
    assert len(hall.devices(SLICE)) == 4


def test_a_name_that_a_claim_holds_vanishes_by_position_and_stays_with_stable_names() -> None:
    for stable in (False, True):
        hall = published(PublisherPart(interval=0.0, reaction=fixed(0.01), stable_names=stable))
        hold(hall, "train", "nvidia-a100-40-3")
        attach(hall)
        assert ("nvidia-a100-40-3" in hall.devices(SLICE)) is stable


def test_stable_names_neither_shrink_nor_grow_what_is_free() -> None:
    hall = published(PublisherPart(interval=0.0, reaction=fixed(0.01), stable_names=True))
    hold(hall, "train", "nvidia-a100-40-1")
    assert len(hall.devices(SLICE)) == 4
    hall.fabric.attach("node0", A100, lambda answer: None)
    hall.run(1)
    assert len(hall.devices(SLICE)) == 4
    assert hall.fabric.free("1", A100) == 3
    hall.run(3)
    assert "nvidia-a100-40-1" in hall.devices(SLICE)
    found = hall.user.get("resourceclaims", "train", "default")
    hall.user.update("resourceclaims", {**found, "status": {}}, subresource="status")
    hall.run(1)
    assert len(hall.devices(SLICE)) == 3


def test_a_new_process_goes_on_from_what_is_there() -> None:
    hall = Hall(operator=None)
    hall.configure()
    first = hall.start(ReferencePublisher(hall.client("publisher"), hall.time, SOON, hall.fabric))
    hall.run(1)
    attach(hall)
    first.stop()
    hall.start(ReferencePublisher(hall.client("publisher"), hall.time, SOON, hall.fabric))
    hall.run(1)
    assert generation(hall) == 2
    attach(hall)
    assert generation(hall) == 3


@pytest.mark.parametrize("stable", [False, True])
def test_a_slice_has_no_more_devices_than_the_api_takes(stable: bool) -> None:
    hall = published(PublisherPart(interval=0.0, reaction=fixed(0.01), stable_names=stable), count=130)
    assert len(hall.devices(SLICE)) == 128
    for _ in range(3):
        attach(hall)
    assert len(hall.devices(SLICE)) == 127
