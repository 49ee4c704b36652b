"""Looking is not using: requests with adminAccess. By the API's reference they are for monitoring and the like, and go past the
access modes and allocations of ordinary claims; so they take no device from others, and none is fetched for them."""

from msgspec.structs import replace

from dds_core.model import Allocation, Claim, ClaimRequest, Result
from dds_core.scaler import events as e
from dds_core.scaler.rules.assignment import assign
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, GPU, World, asks, one_node


def watch(world: World, name: str, *places: int, many: bool = True, count: int = 1) -> None:
    """A claim that waits on node0 to look at pool devices."""
    request = asks("r0", A100.device, admin=True, all=many, count=count)
    world.claim(name, requests=(request,))
    world.allocate(name, "node0", *(replace(one, request="r0", admin=True) for one in pool_results(*places)))


def test_nothing_is_ordered_for_it_and_it_waits_as_long_as_there_is_nothing() -> None:
    world = one_node("detach", 4, scan_interval_seconds=0)
    watch(world, "monitor", 0, 1, 2)
    world.tick(3600)
    told = {type(one) for step in world.steps for one, _ in step.caused}
    assert told.isdisjoint({e.AttachOrdered, e.ClaimFailed, e.Reserved})
    assert world.state_of("monitor") == "Pending"
    (waiting,) = assign(world.state, "node0")
    assert waiting.unseen == ["r0"] and not waiting.complete


def test_it_gets_all_devices_of_its_node_each_once_in_use_or_not() -> None:
    """One is fixed, one is used by another claim; three results are of the pool."""
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    world.plug("node0", "gpu-1", "GPU-1")
    world.holds("train", "node0", "gpu-0")
    watch(world, "monitor", 0, 1, 2)
    (promised,) = world.events(e.Reserved)
    assert [one.uuid for one in promised.promises] == ["GPU-0", "GPU-1"]
    assert all(one.admin for one in promised.promises)
    assert world.state_of("monitor") == "Attached"


def test_it_is_not_given_again_what_it_has() -> None:
    """The scheduler chose the fixed device and those of the pool: an allocation of ours named the fixed one twice."""
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    world.claim("monitor", requests=(asks("r0", A100.device, admin=True, all=True),))
    pool = [replace(one, request="r0", admin=True) for one in pool_results(0, 1)]
    world.allocate("monitor", "node0", Result("r0", GPU, "node0", "gpu-0", admin=True), *pool)
    assert world.state_of("monitor") == "Attached"
    (promised,) = world.events(e.Reserved)
    assert promised.promises == ()


def test_a_number_of_devices_is_had_as_a_whole_or_waited_for() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    watch(world, "two", 0, 1, many=False, count=2)
    assert world.state_of("two") == "Pending"
    world.plug("node0", "gpu-1", "GPU-1")
    assert world.state_of("two") == "Attached"
    assert not world.events(e.AttachOrdered)


def test_what_it_looks_at_is_for_others() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    watch(world, "monitor", 0)
    world.waits("train", "node0", (A100, 1))
    assert world.reserved("monitor") == world.reserved("train") == ["GPU-0"]


def test_one_more_that_it_looks_at_takes_nothing_that_is_promised() -> None:
    """Seed 91585: the device of a claim that was handed over was free for the next one, and two claims were told of it."""
    world = one_node("attach", 4, scan_interval_seconds=0, hand_over="clear")
    world.plug("node0", "gpu-0", "GPU-0")
    watch(world, "monitor", 0)
    world.waits("train", "node0", (A100, 1))
    assert world.only(e.HandOver).signals[0].claim == world.uid("train")
    world.plug("node0", "gpu-1", "GPU-1")
    assert world.reserved("monitor") == ["GPU-0", "GPU-1"] and world.reserved("train") == ["GPU-0"]
    assert not world.events(e.ReservationDropped)


def test_a_device_that_is_only_looked_at_idles_and_goes_back() -> None:
    world = one_node("detach", 4, no_removal_seconds=30, adoption="all")
    world.request("req", "node0")
    world.online("res", "node0", uuid="GPU-1", request="req")
    world.plug("node0", "gpu-1", "GPU-1")
    world.claim("monitor", requests=(asks("r0", A100.device, admin=True, all=True),))
    world.allocate("monitor", "node0", Result("r0", GPU, "node0", "gpu-1", admin=True))
    assert world.device("res") == "Idle"
    world.tick(31)
    assert world.events(e.VictimMarked)[0].uuid == "GPU-1"


def test_the_scheduler_is_not_told_to_choose_anew_what_it_would_choose_again() -> None:
    """It would take all devices of the pool again; where an exchange is impossible a person has to know."""
    world = one_node("attach", 4, scan_interval_seconds=0, hand_over="clear")
    world.plug("node0", "gpu-0", "GPU-0")
    watch(world, "monitor", 0, 1)
    assert not world.events(e.HandOver)
    assert world.only(e.Alerted).reason == "NoWayToHandOver"


def test_a_claim_that_uses_one_and_looks_at_all_gets_each_its_own_place() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    for number in range(3):
        world.plug("node0", f"gpu-{number}", f"GPU-{number}")
    uses, looks = asks("use", A100.device), asks("look", A100.device, admin=True, all=True)
    world.claim("both", requests=(uses, looks))
    one, other = pool_results(0, 1)
    world.allocate("both", "node0", replace(one, request="use"), replace(other, request="look", admin=True))
    (promised,) = world.events(e.Reserved)
    assert [(promise.uuid, promise.admin) for promise in promised.promises] == [
        ("GPU-0", False),
        ("GPU-1", True),
        ("GPU-2", True),
    ]
    assert len({promise.result for promise in promised.promises}) == 3


def test_a_claim_of_which_nothing_is_known_waits() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    world.claim("old", requests=(asks("r0", A100.device, admin=True),))
    world.update(world.get(Claim, "old"), requests=(ClaimRequest("r0", ("gpu",)),))
    allocation = Allocation((replace(pool_results(0)[0], request="r0", admin=True),), "node0")
    world.update(world.get(Claim, "old"), allocation=allocation)
    assert world.state_of("old") == "Pending" and not world.events(e.AttachOrdered)
