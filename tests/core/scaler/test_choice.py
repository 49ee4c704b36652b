"""Which device a claim gets: what the allocator says of what the claim asks for, and nothing else."""

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.model import Allocation, Claim, ClaimRequest, Constraint, DeviceClass, Slice, Taint, TaintRule, Toleration
from dds_core.scaler import events as e
from dds_core.scaler.waiting import waiting_rows
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, GPU, H100, World, asks, one_node

POOLED = replace(pool_results(0)[0], request="r0")
LARGE = f'device.attributes["{GPU}"].memory == "80Gi"'


def large(*, here: str, mode: str = "attach", **policy: Any) -> World:
    """A claim for a large A100 waits on node0, where one of memory `here` is free since before."""
    world = World(mode, scan_interval_seconds=0, **policy)
    world.node("node0")
    world.pool(A100, 4)
    world.plug("node0", "gpu-0", "GPU-0", more={"memory": here})
    world.claim("train", requests=(asks("r0", A100.device, selectors=(LARGE,)),))
    world.allocate("train", "node0")
    return world


def arrives(world: World, memory: str, name: str = "res") -> None:
    """The device that was ordered comes with so much memory."""
    order = world.events(e.AttachOrdered)[-1]
    world.carry_out()
    world.resource(name, "node0", request=order.request, state="Attaching", uuid=f"GPU-{name}")
    world.plug("node0", f"gpu-{name}", f"GPU-{name}", more={"memory": memory})
    world.resource(name, "node0", state="Online")


# -- selectors ----------------------------------------------------------------------------------------------------------


def test_f1_a_device_that_the_claims_selector_refuses_is_not_handed_over() -> None:
    """It was called there and free, promised and handed over; the scheduler refused it and took a pool device: for ever."""
    world = large(here="40Gi")
    assert not world.reserved("train")
    assert world.only(e.AttachOrdered).size == 1
    arrives(world, "80Gi")
    assert world.reserved("train") == ["GPU-res"]
    assert len(world.events(e.HandOver)) == 1


def test_one_that_it_selects_is() -> None:
    world = large(here="80Gi")
    assert world.reserved("train") == ["GPU-0"]
    assert not world.decisions(e.AttachOrdered)


def test_a_device_that_came_and_is_refused_fails_the_claim_with_the_expression() -> None:
    world = large(here="40Gi")
    arrives(world, "40Gi")
    failed = world.only(e.ClaimFailed)
    assert failed.reason == "DeviceUnsuitable"
    assert failed.message == f"GPU-res came for it and cannot be given to it: {LARGE}"
    assert len(world.events(e.AttachOrdered)) == 1
    world.tick(1000)
    world.clear("train")
    world.allocate("train", "node0")
    assert len(world.events(e.AttachOrdered)) == 1, "another like it would not help either"
    assert world.state_of("train") == "Failed"
    assert not world.events(e.CoolDown), "it is a matter of this claim: others may have the model here"


def test_one_that_was_on_its_way_since_an_earlier_attempt_counts_as_come_for_it_too() -> None:
    """Seed 91317: the scheduler had allocated anew meanwhile, and another was ordered that would be refused as well."""
    world = large(here="40Gi")
    world.carry_out()
    order = world.events(e.AttachOrdered)[-1]
    world.resource("res", "node0", request=order.request, state="Attaching", uuid="GPU-res")
    world.tick(20)
    world.clear("train")
    world.allocate("train", "node0")
    world.plug("node0", "gpu-res", "GPU-res", more={"memory": "40Gi"})
    assert world.only(e.ClaimFailed).message == f"GPU-res came for it and cannot be given to it: {LARGE}"
    assert len(world.events(e.AttachOrdered)) == 1


def refused_and_gone() -> World:
    """As above; then the device has gone back, and the scheduler has taken one of the pool again."""
    world = large(here="40Gi", mode="detach", no_removal_seconds=10)
    arrives(world, "40Gi")
    world.tick(60)
    world.settle()
    assert not world.state.fleet.resources.rows and world.only(e.DetachOrdered).size == 0
    again(world)
    return world


def again(world: World, node: str = "node0") -> None:
    world.tick(1000)
    world.clear("train")
    world.allocate("train", node, POOLED)


def test_what_was_refused_is_not_ordered_again_when_the_device_has_gone() -> None:
    """28 attaches in two hours: pools promised 80Gi of an H100 80GB, whose driver lists 81559Mi, as NVML does."""
    world = refused_and_gone()
    again(world)
    assert len(world.events(e.AttachOrdered)) == 1
    messages = {one.message for one in world.events(e.ClaimFailed)}
    assert messages == {f"GPU-res came for it and cannot be given to it: {LARGE}"}
    signalled = [world.decided_at(one) for one in world.events(e.FailureSignalled)]
    assert signalled == sorted(signalled) and len(signalled) >= 2, "it is told later each time"


@pytest.mark.parametrize("changed", ["class", "pool", "rule", "elsewhere"])
def test_it_is_ordered_again_when_something_has_changed_that_it_depends_on(changed: str) -> None:
    world = refused_and_gone()
    if changed == "class":
        known = world.get(DeviceClass, A100.device)
        world.update(known, selectors=(*known.selectors, "true"))
    elif changed == "pool":
        pool = world.get(Slice, f"{A100.device}-fabric1")
        devices = {name: replace(one, capacity={"memory": "40Gi"}) for name, one in pool.devices.items()}
        world.update(pool, devices=devices, generation=2)
    elif changed == "rule":
        world.observe(TaintRule("rule", "sick", GPU, "node9", "", Taint("sick", "", "NoSchedule")))
    else:
        world.node("node1")
        world.request("theirs", "node1", generate_name="composability-", state="Running", acted_size=1)
        world.resource("other", "node1", request="theirs", uuid="GPU-other", state="Online")
        world.plug("node1", "gpu-9", "GPU-other", more={"memory": "80Gi"})
    again(world)
    assert len(world.events(e.AttachOrdered)) == 2


def promising_80() -> World:
    """The pool promises more memory than its devices have."""
    world = one_node("attach", scan_interval_seconds=0)
    promise(world, "80Gi", 2)
    return world


def promise(world: World, memory: str, generation: int) -> None:
    pool = world.get(Slice, f"{A100.device}-fabric1")
    devices = {name: replace(one, capacity={"memory": memory}) for name, one in pool.devices.items()}
    world.update(pool, devices=devices, generation=generation)


def test_a_pool_that_promises_otherwise_than_its_driver_lists_is_told_once_and_nothing_is_ordered_in_vain() -> None:
    world = promising_80()
    world.request("req", "node0")
    world.resource("res", "node0", request="req", uuid="GPU-1", state="Online")
    world.plug("node0", "gpu-1", "GPU-1", capacity={"memory": "81559Mi"})
    told = world.only(e.Alerted)
    assert (told.of, told.reason) == (A100.model, "ModelDiffers") and "80Gi, the driver lists 81559Mi" in told.text
    world.node("node1")
    wants = f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0'
    world.claim("train", requests=(asks("r0", A100.device, selectors=(wants,)),))
    world.allocate("train", "node1", POOLED)
    assert world.only(e.ClaimFailed).message.endswith("its pool promises memory 80Gi, the driver lists 81559Mi")
    assert not world.events(e.AttachOrdered)
    promise(world, "81559Mi", 3)
    assert not world.state.notes.is_alerted(A100.model, told.reason)
    again(world, "node1")
    assert world.only(e.AttachOrdered).node == "node1"


def test_the_first_device_that_comes_tells_of_all_claims_that_are_promised_otherwise() -> None:
    """Seeds 91854, 91868, 91871: until the operator called it Online, each claim took what was on its way to the next one, which
    ordered another."""
    world = promising_80()
    wants = f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0'
    for place, name in enumerate(("one", "two")):
        world.claim(name, requests=(asks("r0", A100.device, selectors=(wants,)),))
        world.allocate(name, "node0", replace(pool_results(place)[0], request="r0"))
        world.carry_out()
        request = world.events(e.AttachOrdered)[-1].request
        world.resource(f"res{place}", "node0", request=request, state="Attaching")
        world.tick(2)
    world.resource("res0", "node0", uuid="GPU-0")
    world.plug("node0", "gpu-0", "GPU-0", capacity={"memory": "81559Mi"})
    world.carry_out()
    assert [one.size for one in world.events(e.AttachOrdered)] == [1, 2]
    assert world.events(e.ClaimFailed)[0].message.endswith("its pool promises memory 80Gi, the driver lists 81559Mi")


def test_the_message_has_what_the_pool_promises_and_what_the_driver_lists() -> None:
    world = promising_80()
    wants = f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) >= 0'
    world.claim("train", requests=(asks("r0", A100.device, selectors=(wants,)),))
    world.allocate("train", "node0", POOLED)
    world.carry_out()
    world.resource("res", "node0", request=world.only(e.AttachOrdered).request, uuid="GPU-res", state="Online")
    world.plug("node0", "gpu-0", "GPU-res", capacity={"memory": "81559Mi"})
    told = world.only(e.ClaimFailed).message
    assert told.endswith(f"{wants}; its pool promises memory 80Gi, the driver lists 81559Mi")


def test_a_device_with_a_taint_is_replaced_once_in_an_attempt() -> None:
    """One pod that asked for one got all 20 devices of the pool attached to its node."""
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.claim("train")
    world.allocate("train", "node0")
    for number in range(2):
        world.carry_out()
        order = world.events(e.AttachOrdered)[-1]
        assert order.size == number + 1
        world.resource(f"res{number}", "node0", request=order.request, uuid=f"GPU-{number}", state="Online")
        world.plug("node0", f"gpu-{number}", f"GPU-{number}", taints=(Taint("sick", "", "NoSchedule"),))
    failed = world.only(e.ClaimFailed)
    assert failed.reason == "DeviceUnsuitable" and failed.message.endswith("it has the taint sick:NoSchedule")
    world.tick(30)
    assert len(world.events(e.AttachOrdered)) == 2


@pytest.mark.parametrize("tolerated", [False, True])
def test_nothing_is_ordered_where_a_rule_taints_all_that_comes(tolerated: bool) -> None:
    """resource.k8s.io/v1beta2: a rule whose deviceSelector names driver and pool taints every device of that pool."""
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.observe(TaintRule("rule", "repair", GPU, "node0", "", Taint("repair", "", "NoSchedule")))
    tolerations = (Toleration("repair", "Exists"),) if tolerated else ()
    world.claim("train", requests=(asks("r0", "gpu", selectors=("true",), tolerations=tolerations),))
    world.allocate("train", "node0", POOLED)
    if tolerated:
        world.only(e.AttachOrdered)
    else:
        assert not world.events(e.AttachOrdered)
        assert (
            world.only(e.ClaimFailed).message
            == "the DeviceTaintRule repair taints what comes to node0: repair:NoSchedule"
        )
        assert world.only(e.CoolDown).node == "node0", "it holds for every claim"


def test_a_class_that_is_gone_as_the_device_comes_fails_nobody() -> None:
    """A class is immutable in nothing, but tools replace it by delete and create; the scheduler waits for it too."""
    world = one_node("detach", 8, scan_interval_seconds=0, no_removal_seconds=10)
    world.claim("train")
    world.allocate("train", "node0", POOLED)
    world.carry_out()
    known = world.get(DeviceClass, A100.device)
    world.gone(known)
    world.operate()
    assert world.state_of("train") == "Attaching"
    (waits,) = waiting_rows(world.state)
    assert (
        f"cannot be told whether the claim may have it: could not retrieve device class {A100.device}: not found"
        in waits.why
    )
    world.tick(3600)
    assert not world.events(e.ClaimFailed) and not world.events(e.CoolDown)
    assert len(world.events(e.AttachOrdered)) == 1, "another could be told no better"
    assert not world.events(e.VictimMarked)
    world.observe(known)
    assert len(world.reserved("train")) == 1


def test_a_class_that_is_gone_after_the_device_was_promised_orders_no_other() -> None:
    world = one_node("detach", 8, scan_interval_seconds=0, no_removal_seconds=10)
    world.claim("train")
    world.allocate("train", "node0", POOLED)
    world.carry_out()
    world.operate()
    assert len(world.reserved("train")) == 1
    known = world.get(DeviceClass, A100.device)
    world.gone(known)
    world.tick(1)
    world.carry_out()
    assert len(world.events(e.AttachOrdered)) == 1
    world.observe(known)
    assert len(world.reserved("train")) == 1
    assert len(world.events(e.AttachOrdered)) == 1


def test_one_that_is_free_anyway_serves_it_before_the_one_that_came_is_told() -> None:
    world = large(here="40Gi", limit={"fixed": 2})
    world.plug("node0", "gpu-1", "GPU-1", more={"memory": "80Gi"})
    arrives(world, "40Gi")
    assert world.reserved("train") == ["GPU-1"]
    assert not world.events(e.ClaimFailed)


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes[",
        f'device.attributes["{GPU}"].nothing == "x"',
        f'device.attributes["{GPU}"].memory > 3',
        '"text"',
    ],
)
def test_an_expression_that_cannot_be_evaluated_gives_nothing_and_takes_nothing_away(expression: str) -> None:
    world = one_node("detach", no_removal_seconds=10, scan_interval_seconds=0)
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="composability-x")
    world.claim("train", requests=(asks("r0", "gpu", selectors=(expression,)),))
    world.pod("train", nominated="node0")
    world.tick(100)
    assert not world.events(e.VictimMarked), "a pod that is nominated to the node might have it"
    world.allocate("train", "node0", POOLED)
    assert not world.reserved("train")
    world.waits("other", "node0", *pool_results(1))
    assert world.reserved("other") == ["GPU-res"]


def test_a_class_that_is_not_there_gives_nothing_until_it_is() -> None:
    world = one_node("attach")
    world.plug("node0", "gpu-0", "GPU-0")
    world.claim("train", requests=(asks("r0", "late"),))
    world.allocate("train", "node0", POOLED)
    assert not world.reserved("train")
    world.observe(DeviceClass("class-late", "late", (f'device.driver == "{GPU}"',)))
    assert world.reserved("train") == ["GPU-0"]


def test_a_claim_of_which_it_is_not_known_what_it_asks_for_gets_nothing() -> None:
    """Such is one of a log that did not hold it, until the claim is listed again."""
    world = one_node("attach")
    world.plug("node0", "gpu-0", "GPU-0")
    world.claim("train", requests=(ClaimRequest("r0", ("gpu",)),), allocation=Allocation((POOLED,), "node0"))
    assert not world.reserved("train")
    world.update(world.get(Claim, "train"), requests=(asks("r0", "gpu"),))
    assert world.reserved("train") == ["GPU-0"]


# -- taints, constraints, other models ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerated", [False, True])
def test_a_tainted_device_is_for_who_tolerates_it(tolerated: bool) -> None:
    world = one_node("attach")
    world.plug("node0", "gpu-0", "GPU-0", taints=(Taint("hot", "", "NoSchedule"),))
    tolerations = (Toleration("hot", "Exists"),) if tolerated else ()
    world.claim("train", requests=(asks("r0", A100.device, tolerations=tolerations),))
    world.allocate("train", "node0")
    assert world.reserved("train") == (["GPU-0"] if tolerated else [])


def two_roots(*roots: str) -> World:
    world = one_node("attach", scan_interval_seconds=0)
    for number, root in enumerate(roots):
        world.plug("node0", f"gpu-{number}", f"GPU-{number}", more={"root": root})
    constraints = (Constraint(match=f"{GPU}/root"),)
    world.claim("train", 2, requests=(asks("r0", A100.device, count=2),), constraints=constraints)
    world.allocate("train", "node0", *(replace(one, request="r0") for one in pool_results(0, 1)))
    return world


def test_devices_that_must_agree_are_chosen_together() -> None:
    assert two_roots("a", "b", "b").reserved("train") == ["GPU-1", "GPU-2"]


def test_what_agrees_with_nothing_there_waits_for_one_more() -> None:
    world = two_roots("a", "b")
    assert not world.reserved("train")
    assert world.only(e.AttachOrdered).size == 1


def test_a_claim_for_any_device_takes_one_of_another_model_than_it_waits_for() -> None:
    world = one_node("attach")
    world.plug("node0", "gpu-0", "GPU-0", H100)
    world.claim("train", requests=(asks("r0", "gpu", selectors=(f'device.driver == "{GPU}"',)),))
    world.allocate("train", "node0")
    assert world.reserved("train") == ["GPU-0"]


def test_the_claims_of_a_pod_are_asked_for_together() -> None:
    """The first could have either device, the second only one of them."""
    world = one_node("attach", scan_interval_seconds=0)
    world.pool(H100, 4)
    world.plug("node0", "gpu-0", "GPU-0", A100)
    world.plug("node0", "gpu-1", "GPU-1", H100)
    world.claim("any", pod="both", requests=(asks("r0", "gpu", selectors=("true",)),))
    world.claim("exact", pod="both", requests=(asks("r0", A100.device),))
    world.allocate("any", "node0", (H100, 1))
    assert world.reserved("any") == ["GPU-0"], "alone it takes the first"
    world.allocate("exact", "node0", (A100, 1))
    assert (world.reserved("any"), world.reserved("exact")) == (["GPU-1"], ["GPU-0"])


def test_nothing_is_ordered_while_the_class_does_not_exist_and_the_node_is_not_to_blame() -> None:
    """A device came of which nobody could tell whether the claim may have it, and the node cooled down when the time was over."""
    world = World("attach", synced=False, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 2)
    world.claim("train")
    world.allocate("train", "node0")
    known = world.get(DeviceClass, A100.device)
    world.gone(known)
    world.sync()
    assert not world.events(e.AttachOrdered)
    (row,) = waiting_rows(world.state)
    assert (row.stage, row.why) == ("barred", f"the DeviceClass {A100.device} does not exist")
    world.tick(100)
    world.observe(known)
    assert world.only(e.AttachOrdered).size == 1, "as soon as it exists"
    world.gone(known)
    world.tick(700)
    assert not world.events(e.CoolDown)
