"""Which device a claim gets where something is out of the ordinary: faces of one hardware, all devices of a kind, administrators,
promises that stand. The first examples were found by tests/property/test_choice.py."""

from typing import Any

from msgspec.structs import replace

from dds_core.model import Constraint, Device, Result, Slice
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, GPU, H100, World, asks, one_node

BUS = {"resource.kubernetes.io/pciBusID": "0000:19:00.0"}


def waits_for(world: World, name: str, *requests: Any, pod: str = "", **fields: Any) -> None:
    """A claim that waits on node0 for as many devices as it asks for."""
    count = sum(one.alternatives[0].count for one in requests)
    before = sum(len(one.allocation.results) for one in world.state.demand.claims.rows.values() if one.allocation)
    names = [one.name for one in requests for _ in range(one.alternatives[0].count)]
    results = pool_results(*range(before, before + count))
    world.claim(name, pod=pod or None, requests=requests, **fields)
    world.allocate(name, "node0", *(replace(one, request=r) for one, r in zip(results, names, strict=True)))


# -- faces ----------------------------------------------------------------------------------------------------------------


def test_two_faces_of_one_hardware_are_not_given_together() -> None:
    """The rule failed on the second one."""
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0", more=BUS)
    world.plug("node0", "gpu-vfio-0", "", more=BUS | {"type": "vfio"})
    waits_for(world, "train", asks("r0", "gpu", count=2))
    assert not world.reserved("train")
    assert world.only(e.AttachOrdered).size == 1


def test_nor_one_after_the_other_where_the_first_is_a_share() -> None:
    world = one_node("attach", scan_interval_seconds=0)
    waits_for(world, "one", asks("r0", A100.device, selectors=("device.allowMultipleAllocations",)))
    waits_for(world, "two", asks("r0", A100.device, selectors=("!device.allowMultipleAllocations",)))
    world.resource("res", "node0", state="Attaching", uuid="GPU-0")
    world.plug("node0", "gpu-0", "GPU-0", more=BUS, shared=True)
    world.plug("node0", "gpu-vfio-0", "", more=BUS | {"type": "vfio"})
    world.resource("res", "node0", state="Online")
    assert world.reserved("one") == ["GPU-0"]
    assert not world.reserved("two")


def test_a_device_is_given_once_the_counters_on_which_it_draws_are_listed() -> None:
    """Drivers list them in a slice of their own, in any order, and raise the generation for neither. The pool is invalid
    meanwhile: a second device was ordered, and what had been found then was remembered for ever."""
    world = one_node("attach", scan_interval_seconds=0)
    waits_for(world, "train", asks("r0", A100.device))
    world.carry_out()
    (request,) = world.state.fleet.requests.rows.values()
    memory = {"gpu-0": {"memory": "40Gi"}}
    own = {"gpu-0": Device({**A100.attributes, "uuid": "GPU-0"}, consumes=memory)}
    counters = Slice("counters", "counters", GPU, "node0", 1, 2, node="node0")
    world.observe(counters)
    world.resource("res", "node0", state="Online", uuid="GPU-0", request=request.name)
    world.observe(Slice("devices", "devices", GPU, "node0", 1, 2, node="node0", devices=own))
    assert not world.reserved("train")
    world.update(counters, counters=memory)
    assert world.reserved("train") == ["GPU-0"]
    assert world.only(e.AttachOrdered).size == 1


# -- all devices ----------------------------------------------------------------------------------------------------------


def test_all_devices_are_not_had_while_one_of_them_is_not_free() -> None:
    """The rule failed on the one that is Online with an error."""
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0", H100)
    world.resource("sick", "node0", H100, state="Online", uuid="GPU-sick", error="broken")
    world.plug("node0", "gpu-sick", "GPU-sick", H100)
    every = asks("r0", H100.device, A100.device)
    first, second = every.alternatives
    every = replace(every, alternatives=(replace(first, all=True), second))
    world.claim("train", requests=(every,))
    world.allocate("train", "node0", replace(pool_results(0)[0], request=f"r0/{A100.device}"))
    assert not world.reserved("train")
    world.resource("sick", "node0", H100, error="")
    assert world.reserved("train") == ["GPU-0", "GPU-sick"]


# -- administrators -------------------------------------------------------------------------------------------------------


def test_a_device_that_an_administrator_looks_at_is_free() -> None:
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    world.claim("monitor")
    world.allocate("monitor", "node0", Result("r0", GPU, "node0", "gpu-0", admin=True))
    waits_for(world, "train", asks("r0", A100.device))
    assert world.reserved("train") == ["GPU-0"]


def test_who_looks_on_is_given_what_is_there_and_keeps_it_from_nobody() -> None:
    """In the claims of one pod: both have the one device, as adminAccess goes past allocations (the API's reference)."""
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    world.claim("train", pod="both", requests=(asks("r0", A100.device),))
    world.claim("look", pod="both", requests=(asks("r0", A100.device, admin=True),))
    for place, name in enumerate(("train", "look")):
        world.allocate(name, "node0", replace(pool_results(place)[0], request="r0", admin=name == "look"))
    assert world.reserved("train") == ["GPU-0"]
    assert world.reserved("look") == ["GPU-0"]
    assert not world.events(e.AttachOrdered)


# -- promises that stand --------------------------------------------------------------------------------------------------


def test_what_was_promised_stays_when_another_device_would_do_too() -> None:
    """Of the two that were promised, the one that either request may have went to the other request, and the second was given up
    for the device that came."""
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0", more={"memory": "80Gi"})
    world.plug("node0", "gpu-1", "GPU-1")
    large = 'device.attributes["gpu.nvidia.com"].memory == "80Gi"'
    waits_for(world, "train", asks("r0", A100.device), asks("r1", A100.device, selectors=(large,)))
    assert world.reserved("train") == ["GPU-1", "GPU-0"]
    world.plug("node0", "gpu-2", "GPU-2", more={"memory": "80Gi"})
    assert world.reserved("train") == ["GPU-1", "GPU-0"]
    assert len(world.events(e.Reserved)) == 1


def test_a_share_is_not_given_of_hardware_that_is_promised_to_another_under_another_name() -> None:
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-vfio-0", "", more=BUS | {"type": "vfio"})
    waits_for(world, "one", asks("r0", A100.device))
    assert len(world.events(e.Reserved)) == 1
    world.plug("node0", "gpu-0", "", more=BUS, shared=True)
    waits_for(world, "two", asks("r0", A100.device))
    assert len(world.events(e.Reserved)) == 1


def test_a_device_that_was_promised_before_its_uuid_was_published_is_promised() -> None:
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "")
    waits_for(world, "one", asks("r0", A100.device))
    world.carry_out()
    world.clear("one")  # handed over, and not allocated again yet
    world.plug("node0", "gpu-0", "GPU-0")
    waits_for(world, "two", asks("r0", A100.device))
    assert world.reserved("one") == [""]
    assert not world.reserved("two")


# -- what a claim keeps ---------------------------------------------------------------------------------------------------


def keeping(*constraints: Constraint) -> World:
    """A claim of a GPU that comes and of a device that no node has for its own."""
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0")
    world.claim("train", requests=(asks("r0", A100.device), asks("nic", "gpu")), constraints=constraints)
    waiting = replace(pool_results(0)[0], request="r0")
    world.allocate("train", "node0", waiting, Result("nic", "nic.example.com", "shared", "nic-0"))
    return world


def test_a_constraint_on_other_requests_does_not_ask_for_what_a_claim_keeps() -> None:
    world = keeping(Constraint(("r0",), match=f"{GPU}/productName"))
    assert world.reserved("train") == ["GPU-0"]


def test_what_a_constraint_asks_of_a_device_that_nobody_lists_is_not_had() -> None:
    assert not keeping(Constraint(match=f"{GPU}/productName")).reserved("train")


def test_a_claim_whose_constraints_cannot_be_kept_leaves_the_other_claims_of_its_pod_alone() -> None:
    world = keeping(Constraint(match=f"{GPU}/productName"))
    world.claim("other", pod="train", requests=(asks("r0", A100.device),))
    world.allocate("other", "node0", replace(pool_results(1)[0], request="r0"))
    assert world.only(e.AttachOrdered).size == 1


def test_what_a_claim_keeps_is_as_the_newest_generation_shows_it() -> None:
    world = one_node("attach", scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-0", more={"root": "a"})
    world.plug("node0", "gpu-1", "GPU-1", more={"root": "a"})
    own = next(one for one in world.state.inventory.slices.rows.values() if one.node)
    old = {"gpu-0": Device({**A100.attributes, "root": "b"})}
    world.observe(replace(own, uid="old", name="z-old", generation=own.generation - 1, devices=old))
    constraints = (Constraint(match=f"{GPU}/root"),)
    world.claim("train", requests=(asks("r0", A100.device, count=2),), constraints=constraints)
    waiting = replace(pool_results(0)[0], request="r0")
    world.allocate("train", "node0", Result("r0", GPU, "node0", "gpu-0"), waiting)
    assert world.reserved("train") == ["GPU-1", "GPU-0"], "what it has beside stays its own at a hand-over"
