"""B27: any allocation counted as use; a shared claim was signalled for one pod under the other, and a claim whose
reservation was emptied after a failure dropped out of demand for a moment.

Here a shared claim gives way only when all its pods can, and a lost reservation is not a release.
"""

import pytest

from dds_core.model import Claim, Pod
from dds_core.scaler import events as e
from tests.support.world import World, one_node


def shared_claim(mode: str = "attach") -> World:
    """The claim `common` of the pods `left` and `right`, each with a claim of its own."""
    world = one_node(mode, 8, no_removal_seconds=10, scan_interval_seconds=0)
    world.claim("common", pod="")
    for name in ("left", "right"):
        world.claim(name)
        world.pod(name, ["common"])
    return world


def test_b27_all_claims_of_all_its_pods_are_told_in_one_batch() -> None:
    world = shared_claim()
    for name in ("common", "left", "right"):
        world.allocate(name, "node0")
    world.carry_out()
    request = world.events(e.AttachOrdered)[-1].request
    for number in range(2):
        world.online(f"res{number}", "node0", request=request)
    assert not world.events(e.HandOver), "one claim of the group has no device yet"
    world.online("res2", "node0", request=request)
    handed = world.only(e.HandOver)
    assert {s.claim for s in handed.signals} == {world.uid(name) for name in ("common", "left", "right")}


def test_b27_a_shared_claim_is_not_taken_from_under_a_pod_that_runs() -> None:
    world = shared_claim()
    for name in ("common", "left"):
        world.allocate(name, "node0")
    world.carry_out()
    world.update(world.get(Pod, "right"), node="node0", phase="Running")
    world.operate()
    assert not world.events(e.HandOver)


def test_b27_a_finished_pod_does_not_hold_it_back() -> None:
    world = shared_claim()
    for name in ("common", "left"):
        world.allocate(name, "node0")
    world.update(world.get(Pod, "right"), node="node0", phase="Succeeded")
    world.settle()
    assert {s.claim for s in world.only(e.HandOver).signals} == {world.uid("common"), world.uid("left")}


@pytest.mark.parametrize("mode", ["attach", "detach"])
def test_b27_an_emptied_reservation_keeps_its_demand(mode: str) -> None:
    world = shared_claim(mode)
    world.allocate("left", "node0")
    world.carry_out()
    order = world.only(e.AttachOrdered)
    world.unreserve("left")
    world.tick(300)
    assert world.state_of("left") == "Attaching"
    assert world.only(e.AttachOrdered) == order
    world.clear("left")
    world.tick(5)
    world.allocate("left", "node0")
    assert len(world.events(e.AttachOrdered)) == 1, "what was ordered is still coming"
    world.operate()
    assert world.reserved("left") != []


def test_b27_the_last_of_two_pods_releases_the_claim() -> None:
    world = shared_claim()
    world.online("res", "node0")
    world.allocate_local("common", "node0", "gpu-GPU-res")
    world.bind("left", "node0")
    world.bind("right", "node0")
    assert world.state_of("common") == "Bound"
    world.gone(world.get(Pod, "left"))
    world.tick(60)
    assert world.state_of("common") == "Bound"
    assert world.device("res") == "Used"
    world.gone(world.get(Pod, "right"))
    world.clear("common")
    assert "released" in [trigger for trigger, _, _ in world.moves("common")]
    assert world.get(Claim, "common").allocation is None
    assert world.device("res") == "Idle"
