"""The claim of an extended resource is deleted and made again at the hand-over: its reservation belongs to the pod."""

from msgspec.structs import replace

from dds_core.model import Claim
from dds_core.scaler import events as e
from dds_core.scaler.unallocated import unallocated
from tests.support.world import A100, World, class_of, one_node

POD = "pod-default-web"


def made(world: World, number: int) -> str:
    """The scheduler makes the special claim of the pod `web` once more; its name."""
    name = f"web-extended-{number}"
    world.claim(name, pod="", extended=True, owner=POD)
    world.pod("web", extended_claim=name)
    return name


def handed_over(mode: str = "attach") -> tuple[World, str]:
    world = one_node(mode, 8, scan_interval_seconds=0)
    world.pod("web")
    name = made(world, 1)
    world.allocate(name, "node0")
    world.settle()
    assert world.only(e.HandOver).pod == POD
    return world, name


def test_the_reservation_is_the_pods_and_survives_the_claim() -> None:
    world, name = handed_over()
    assert world.only(e.Reserved).pod == POD
    promised = world.state.hand_over.reservations.rows[f"pod:{POD}"].promises[0].uuid
    world.gone(world.get(Claim, name))
    assert f"pod:{POD}" in world.state.hand_over.reservations
    world.waits("rival", "node0")
    assert world.reserved("rival") == [], "the device is still for the pod"
    again = made(world, 2)
    world.allocate(again, "node0")
    assert world.reserved(again) == [promised]
    assert len(world.events(e.AttachOrdered)) == 2, "one for the pod, one for the rival"


def test_landing_on_the_device_keeps_the_promise_and_settles_the_first_claim() -> None:
    world, name = handed_over()
    uid = world.uid(name)
    device = world.state.hand_over.reservations.rows[f"pod:{POD}"].promises[0].device
    world.gone(world.get(Claim, name))
    again = made(world, 2)
    world.allocate_local(again, "node0", device)
    assert f"pod:{POD}" not in world.state.hand_over.reservations
    steps = [(m.trigger, m.target) for m in world.events(e.ClaimMoved) if m.claim == uid]
    assert steps[-2:] == [("released", "Detaching"), ("settled", "Released")]
    world.bind("web")
    assert world.state_of(again) == "Bound"


def test_the_promise_ends_with_the_pod() -> None:
    world, name = handed_over()
    world.gone(world.get(Claim, name))
    world.gone(world.state.demand.pods.rows[POD])
    assert not world.state.hand_over.reservations.rows
    world.waits("next", "node0")
    assert world.reserved("next") != []


def test_a_promise_that_is_not_kept_in_time_expires_though_the_claim_is_gone() -> None:
    world, name = handed_over()
    world.gone(world.get(Claim, name))
    world.tick(120)
    assert len(world.events(e.ReservationDropped)) == 1
    assert not world.state.hand_over.reservations.rows


def test_between_two_claims_the_pod_waits_for_its_device_and_for_no_choice() -> None:
    world, name = handed_over()
    world.observe(replace(class_of(A100), extended_resource="example.com/gpu"))
    world.gone(world.get(Claim, name))
    world.pod("web", waiting="SchedulerError", extended_resources={"example.com/gpu": 1})
    assert unallocated(world.state) == []
    world.tick(120)
    (row,) = unallocated(world.state)
    assert row.claim == "pod/default/web"
