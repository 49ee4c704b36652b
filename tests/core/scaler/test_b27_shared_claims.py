"""B27: any allocation counted as use; a shared claim was signalled for one pod under the other, and a claim whose
reservation was emptied after a failure dropped out of demand for a moment.

Here a shared claim gives way only when all its pods can, and a lost reservation is not a release.
"""

import pytest

from dds_core.model import Claim, Consumer, Pod
from dds_core.scaler import events as e
from dds_core.scaler.waiting import waiting_rows
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
    world.settle()
    assert not world.events(e.HandOver)
    assert world.state_of("common") == "Attached", "its devices are another pool's, whoever runs"
    assert world.only(e.Alerted).text == (
        "pod default/right was put on node0 past the scheduler, and its devices cannot be exchanged: the scheduler is of version "
        "unknown; delete it and let the scheduler place it"
    )


@pytest.mark.parametrize("failed", [False, True])
def test_b27_a_pod_past_the_scheduler_that_comes_after_the_signal_is_told(failed: bool) -> None:
    """Its reservation keeps the claim: PostFilter clears one that is reserved for nobody else (dynamicresources.go)."""
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.waits("common", "node0")
    if failed:
        world.carry_out()
        world.resource(
            "res", "node0", request=world.only(e.AttachOrdered).request, state="Attaching", error="E02 no such port"
        )
        world.tick(60)
    world.settle()
    assert world.state_of("common") == ("Failed" if failed else "Attached")
    world.pod("right", ["common"], node="node0")
    reserved_for(world, "common", "common", "right")
    alert = [one for one in world.events(e.Alerted) if one.reason == "PodPlaced"]
    assert [one.text for one in alert] == [
        "pod default/right was put on node0 past the scheduler, and the scheduler was told to choose anew, which the pod's "
        "reservation prevents; delete it and let the scheduler place it"
    ]


def reserved_for(world: World, claim: str, *pods: str) -> None:
    rows = tuple(Consumer(f"pod-default-{name}", name) for name in pods)
    world.update(world.get(Claim, claim), consumers=rows)


def test_b27_a_pod_past_the_scheduler_on_the_node_gets_the_devices_by_exchange() -> None:
    """The claim controller reserves an allocated claim for a pod that has a node (syncPod in controller.go), and its kubelet
    prepares what the claim names then. So nothing but the devices of the node will do."""
    world = one_node("attach", 8, exchange=True, scan_interval_seconds=0)
    world.claim("common", pod="left")
    world.pod("right", ["common"])
    world.allocate("common", "node0")
    world.update(world.get(Pod, "right"), node="node0")
    reserved_for(world, "common", "left", "right")
    assert world.state_of("common") == "Attaching"
    world.settle()
    given = world.only(e.DevicesGiven)
    assert {one.name for one in given.swap.consumers} == {"left", "right"}
    assert world.state_of("common") == "Bound" and not world.events(e.Alerted)


def test_b27_an_exchange_into_which_a_pod_past_the_scheduler_comes_is_tried_again() -> None:
    """Seed 92323: nothing else can give it the device, and both pods waited beside it for ever."""
    world = one_node("attach", 8, exchange=True, scan_interval_seconds=0)
    world.claim("common", pod="left")
    world.allocate("common", "node0")
    world.carry_out()
    world.online("res", "node0", request=world.only(e.AttachOrdered).request)
    while not world.events(e.AllocationCleared):
        world.carry_out()
    world.pod("right", ["common"], node="node0")
    reserved_for(world, "common", "left", "right")
    world.refused(world.only(e.AllocationCleared), obsolete=True)
    world.carry_out(e.GuardLifted)  # all but what was refused
    assert world.only(e.Alerted).text.startswith("pod default/right was put on node0 past the scheduler")
    world.tick(3)
    world.settle()
    assert {one.name for one in world.only(e.DevicesGiven).swap.consumers} == {"left", "right"}
    assert world.state_of("common") == "Bound"


def test_b27_for_a_pod_past_the_scheduler_that_can_never_be_served_nothing_is_ordered() -> None:
    """A device that came for it would be taken by others, and replaced again and again."""
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.claim("common", pod="right")
    world.update(world.get(Pod, "right"), node="node0")
    world.allocate("common", "node0")
    why = (
        "pod default/right was put on node0 past the scheduler, and its devices cannot be exchanged: "
        "the scheduler is of version unknown; delete it and let the scheduler place it"
    )
    assert not world.events(e.AttachOrdered)
    assert world.only(e.Alerted).text == why
    (row,) = waiting_rows(world.state)
    assert row.why == why
    world.tick(3600)
    assert not world.events(e.AttachOrdered) and not world.events(e.ClaimFailed)


def test_b27_pods_on_another_node_are_told_and_nothing_is_given() -> None:
    world = one_node("attach", 8, exchange=True, scan_interval_seconds=0)
    world.node("node1")
    world.claim("common", pod="left")
    world.pod("right", ["common"])
    world.allocate("common", "node0")
    world.update(world.get(Pod, "right"), node="node1")
    reserved_for(world, "common", "left", "right")
    world.settle()
    assert world.state_of("common") == "Attached" and not world.events(e.ExchangeBegun)
    assert world.only(e.Alerted).reason == "PodElsewhere"


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "net.example.com"])
def test_b27_a_pod_that_comes_to_a_claim_in_use_waits_for_its_own_alone(driver: str, exchange: bool) -> None:
    """An allocated claim takes further pods in reservedFor (up to 256, resource.k8s.io/v1) and stays as it is: the scheduler
    waits for the open binding conditions of the other one."""
    world = one_node("attach", 8, exchange=exchange, scan_interval_seconds=0)
    world.plug("node0", "shared-0", "GPU-fixed")
    world.claim("common", pod="left")
    world.allocate_local("common", "node0", "shared-0", driver=driver)
    world.bind("left", "node0")
    world.claim("right")
    world.pod("right", ["common"])
    reserved_for(world, "common", "left", "right")
    world.allocate("right", "node0")
    world.settle()
    if exchange:
        assert world.only(e.ExchangeBegun).for_claims() == (world.uid("right"),)
        assert world.only(e.DevicesGiven).claim == world.uid("right")
    else:
        assert [one.claim for one in world.only(e.HandOver).signals] == [world.uid("right")]


def test_b27_also_when_the_claim_in_use_was_handed_over_in_its_time() -> None:
    world = one_node("attach", 8, exchange=True, scan_interval_seconds=0)
    world.claim("common", pod="left")
    world.allocate("common", "node0")
    world.settle()
    world.bind("left", "node0")
    assert world.state_of("common") == "Bound"
    world.claim("right")
    world.pod("right", ["common"])
    reserved_for(world, "common", "left", "right")
    world.allocate("right", "node0")
    world.settle()
    assert [one.claim for one in world.events(e.DevicesGiven)] == [world.uid("common"), world.uid("right")]


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
