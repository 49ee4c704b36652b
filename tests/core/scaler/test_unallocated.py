"""Who waits without an allocation, and why: each reason, by what the scheduler would find."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.matching.allocator import Allocator, Fit
from dds_core.model import (
    CORDON,
    GATED,
    Alternative,
    Claim,
    ClaimRequest,
    Constraint,
    Device,
    DeviceClass,
    Node,
    Pod,
    Result,
    Slice,
    Taint,
    TaintRule,
    Toleration,
)
from dds_core.scaler import events as e
from dds_core.scaler import lacking
from dds_core.scaler.state import dump, load
from dds_core.scaler.unallocated import Unallocated, queues, unallocated
from dds_core.scaler.waiting import waiting_rows
from dds_core.timeline.instants import rfc3339
from tests.support.world import A100, GPU, H100, SECOND, World, asks, class_of

MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'


def one_node(free: int, *nodes: str, **policy: Any) -> World:
    world = World("attach", scan_interval_seconds=0, **policy)
    for node in nodes or ("node0",):
        world.node(node)
    if free:
        world.pool(A100, free)
    return world


def hungry(world: World, name: str = "hungry", count: int = 1, *, model: Any = A100, **fields: Any) -> None:
    """A claim of a pod for which the scheduler has found no node."""
    world.claim(name, requests=(asks("r0", model.device, count=count, **fields),))
    world.update(world.get(Pod, name), waiting="Unschedulable")


def only(world: World) -> Unallocated:
    (row,) = unallocated(world.state)
    return row


def why(world: World) -> tuple[str, str]:
    row = only(world)
    return row.reason, row.why


# -- who waits -----------------------------------------------------------------------------------------------------------


def test_a_claim_waits_from_when_it_is_made_until_it_is_allocated() -> None:
    world = one_node(1)
    assert unallocated(world.state) == []
    hungry(world)
    row = only(world)
    assert (row.claim, row.pod, row.models, row.asked) == ("default/hungry", "default/hungry", ("A100 40G",), 1)
    assert row.since == world.get(Claim, "hungry").created
    world.allocate("hungry", "node0")
    assert unallocated(world.state) == []


def test_a_claim_that_was_handed_over_in_vain_waits_for_what_the_allocator_says() -> None:
    """Its device is there and promised to it, and the scheduler finds no node: only now does the class not exist."""
    world = one_node(1)
    world.waits("first", "node0")
    world.settle()
    began = world.state.lifecycle.lives.rows["uid-default-first"].began
    known = world.get(DeviceClass, A100.device)
    world.gone(known)
    world.clear("first")
    world.update(world.get(Pod, "first"), waiting="Unschedulable")
    assert world.state_of("first") == "Attached" and waiting_rows(world.state) == []
    row = only(world)
    assert (row.claim, row.since, row.reason) == ("default/first", began, lacking.NO_CLASS)
    world.observe(known)
    assert only(world).reason == lacking.UNTRIED
    world.observe(replace(known, selectors=("false",)))
    assert why(world) == (lacking.NONE, f"there is no device of class {A100.device}")


def test_a_claim_whose_pod_got_its_node_from_somebody_who_allocates_nothing() -> None:
    world = one_node(1)
    hungry(world)
    world.update(world.get(Pod, "hungry"), node="node0")
    words = "pod default/hungry was put on node0 past the scheduler, and no scheduler allocates its claim"
    assert why(world) == (lacking.PLACED, f"{words}; delete it and let the scheduler place it")
    world.update(world.get(Pod, "hungry"), phase="Failed")
    assert unallocated(world.state) == []


@pytest.mark.parametrize("change", [{"deleting": True}, {"phase": "Failed"}, {"waiting": GATED}])
def test_whose_pod_does_not_wait_for_the_scheduler_is_none(change: dict[str, Any]) -> None:
    world = one_node(0)
    hungry(world)
    assert unallocated(world.state)
    world.update(world.get(Pod, "hungry"), **change)
    assert unallocated(world.state) == []


def test_a_claim_without_a_pod_one_being_deleted_and_one_of_another_driver_are_none() -> None:
    world = one_node(1)
    world.claim("alone", pod="", requests=(asks("r0", A100.device),))
    hungry(world, "going")
    world.update(world.get(Claim, "going"), deleting=True)
    world.observe(DeviceClass("class-nic", "nic", ('device.driver == "nic.example.com"',)))
    world.claim("network", requests=(asks("r0", "nic"),))
    assert unallocated(world.state) == []


def test_a_claim_that_was_given_back_waits_from_then_on_and_one_between_two_writes_does_not() -> None:
    world = one_node(1, exchange=True)
    world.waits("first", "node0")
    world.settle()
    world.clear("first")
    assert world.state.lifecycle.lives.rows["uid-default-first"].state == "Attached"
    assert unallocated(world.state) == [], "dds is about to give it a device, or the scheduler chooses anew"
    again = one_node(2)
    again.waits("first", "node0")
    again.settle()
    again.bind("first")
    again.gone(again.get(Pod, "first"))
    again.clear("first")
    released = again.state.lifecycle.lives.rows["uid-default-first"]
    again.pod("default/second", ["first"])
    row = only(again)
    assert released.state in ("Detaching", "Released") and (row.pod, row.since) == ("default/second", released.since)


# -- why -----------------------------------------------------------------------------------------------------------------


def test_no_device_at_all() -> None:
    world = one_node(0)
    hungry(world)
    assert why(world) == (lacking.NONE, "there is no device of class nvidia-a100-40")
    assert only(world).models == ("A100 40G",), "by what device-info says of the model"


def test_a_pool_that_is_not_whole_is_said() -> None:
    world = World("attach")
    world.node("node0")
    world.pool(A100, 1, slices=2)
    hungry(world)
    assert why(world) == (
        lacking.NONE,
        "there is no device of class nvidia-a100-40; pool nvidia-a100-40-fabric1 is incomplete or faulty",
    )


def test_a_class_that_is_not_there() -> None:
    world = one_node(1)
    world.gone(world.state.inventory.classes.rows[f"class-{A100.device}"])
    hungry(world)
    assert why(world) == (lacking.NO_CLASS, "the DeviceClass nvidia-a100-40 does not exist")


def test_a_class_that_is_not_there_and_may_be_anybodys() -> None:
    world = one_node(1)
    world.claim("hungry", requests=(asks("r0", "nvidia-b200", count=2),))
    row = only(world)
    assert (row.reason, row.why, row.models, row.asked) == (
        lacking.NO_CLASS,
        "the DeviceClass nvidia-b200 does not exist",
        (),
        2,
    )
    (queue,) = queues(world.state, [row])
    assert (queue.models, queue.free, queue.held_by) == ((), 0, ())
    world.claim("more", pod="hungry", requests=(asks("r0", A100.device),))
    assert {one.reason for one in unallocated(world.state)} == {lacking.NO_CLASS}, "the pod wants both"
    world.observe(DeviceClass("class-b200", "nvidia-b200", ('device.driver == "nic.example.com"',)))
    assert [one.claim for one in unallocated(world.state)] == ["default/more"], "it is another driver's"


def test_all_are_in_use_wherever_they_are() -> None:
    world = one_node(3, "node0", "node1")
    world.waits("first", "node0")
    world.settle()
    world.waits("second", "node1")
    world.waits("third", "node1")
    hungry(world)
    assert why(world) == (lacking.IN_USE, "all 4 are in use"), "the pool of the test still shows what was attached"
    (queue,) = queues(world.state, unallocated(world.state))
    assert (queue.claims, queue.asked, queue.free, queue.idle_on) == (1, 1, 0, ())
    assert dict(queue.held_by) == {"default/first": 1, "default/second": 1, "default/third": 1}


def test_it_asks_for_more_than_is_free_on_any_node_or_than_there_is() -> None:
    world = one_node(0, "node0", "node1")
    world.plug("node0", "gpu-0", "GPU-0")
    world.plug("node1", "gpu-1", "GPU-1")
    hungry(world, count=2)
    assert why(world) == (lacking.IN_USE, "it asks for 2 on one node, and 1 are free there")
    world.update(world.get(Claim, "hungry"), requests=(asks("r0", A100.device, count=3),))
    assert why(world) == (lacking.TOO_FEW, "it asks for 3 on one node; devices in all: 2, in use: 0")


def test_what_is_on_its_way_counts_among_all_devices_and_what_goes_back_is_told() -> None:
    world = one_node(1, "node0", "node1")
    world.plug("node1", "gpu-1", "GPU-1")
    world.holds("busy", "node1", "gpu-1")
    world.resource("new", "node0", state="Attaching")
    world.waits("first", "node0")
    hungry(world, count=3)
    told = (lacking.TOO_FEW, "it asks for 3 on one node; devices in all: 2, in use: 2")
    assert why(world) == told, "the pool shows the device that is ordered for the first claim"
    world.pool(A100, 0, generation=2)
    assert why(world) == told, "and does so no more"
    world.update(world.get(Claim, "hungry"), requests=(asks("r0", A100.device),))
    assert why(world) == (lacking.IN_USE, "all 2 are in use")
    world.update(world.state.fleet.resources.rows["new"], uuid="GPU-new", state="Detaching", deleting=True)
    assert why(world) == (lacking.IN_USE, "all 2 are in use; going back to the pool: 1")
    world.unplug("node1", "gpu-1")
    assert why(world) == (lacking.IN_USE, "no device of class nvidia-a100-40 is listed; going back to the pool: 1")


def test_an_order_that_fails_is_no_device_in_use() -> None:
    world = one_node(0)
    world.resource("new", "node0", state="Attaching", error="no power")
    hungry(world)
    none = "there is no device of class nvidia-a100-40"
    assert why(world) == (lacking.NONE, f"{none}; ordered in vain so far: 1, no power")


def test_the_only_device_goes_back() -> None:
    world = one_node(0)
    world.online("idle", "node0")
    hungry(world)
    assert only(world).reason == lacking.UNTRIED
    world.holds("dds-hold", "node0", "gpu-GPU-idle")
    assert why(world) == (lacking.IN_USE, "the only device is in use")
    world.update(world.state.fleet.resources.rows["idle"], state="Detaching", deleting=True)
    assert why(world) == (lacking.IN_USE, "the only device is going back to the pool")


def test_more_than_any_node_may_have_is_told_whatever_is_in_use() -> None:
    world = one_node(2, "node0", "node1", limit={"max": 1})
    for name, node in (("first", "node0"), ("second", "node1")):
        world.waits(name, node)
    hungry(world, count=2)
    told = "it asks for 2 of A100 40G, and node1 may have 1, no other node more"
    assert why(world) == (lacking.LIMIT, told)
    world = one_node(2, "node0", "node1", limit={"max": 1})
    world.plug("node0", "gpu-0", "GPU-0")
    world.waits("first", "node0")
    world.waits("second", "node1")
    hungry(world, count=2)
    assert only(world).reason == lacking.IN_USE, "one that is fixed in the node does not count in its limit"


def test_which_selector_refuses_each() -> None:
    world = one_node(2)
    world.update(
        world.state.inventory.slices.rows["pool-nvidia-a100-40-fabric1"],
        devices={
            name: Device(one.attributes, {"memory": "40Gi"}, one.binding, one.failure)
            for name, one in world.state.inventory.pools[GPU, "nvidia-a100-40-fabric1"].devices.items()
        },
    )
    hungry(world, selectors=(MEMORY,))
    assert why(world) == (lacking.REFUSED, f"a selector refuses each of 2: {MEMORY}")
    assert only(world).models == ("A100 40G",)


def test_a_taint_closes_what_is_free() -> None:
    world = one_node(2)
    maintenance = Taint("maintenance", "", "NoSchedule")
    world.observe(TaintRule("rule", "rule", GPU, "nvidia-a100-40-fabric1", taint=maintenance))
    hungry(world)
    assert why(world) == (lacking.TAINTED, "the taint maintenance:NoSchedule closes what is free")
    tolerated = asks("r0", A100.device, tolerations=(Toleration("maintenance", "Exists"),))
    world.update(world.get(Claim, "hungry"), requests=(tolerated,))
    assert only(world).reason == lacking.UNTRIED


def partitions(world: World, used: str) -> None:
    """A device of the node in two halves that draw on one counter of 40Gi."""
    whole = {"memory": {"amount": "40Gi"}}
    halves = {
        f"half-{n}": Device({**A100.attributes, "uuid": f"H-{n}"}, consumes={"memory": {"amount": used}})
        for n in (0, 1)
    }
    world.observe(Slice("parts", "parts", GPU, "node0", node="node0", devices=halves, counters=whole))


def test_counters_are_used_up() -> None:
    world = one_node(0)
    partitions(world, "30Gi")
    world.claim("first", requests=(asks("r0", A100.device),))
    world.allocate_local("first", "node0", "half-0")
    world.bind("first")
    hungry(world)
    expected = "what is in use leaves too little of the counter amount of memory in pool node0"
    assert why(world) == (lacking.COUNTERS, expected)


def test_shared_devices_have_too_little_capacity_left() -> None:
    world = one_node(0)
    attributes: dict[str, str | int | bool] = {**A100.attributes, "uuid": "GPU-0"}
    shared = Device(attributes, {"memory": "40Gi"}, shared=True)
    world.observe(Slice("own", "own", GPU, "node0", node="node0", devices={"gpu-0": shared}))
    world.claim("first", requests=(asks("r0", A100.device, capacity={"memory": "30Gi"}),))
    world.allocate("first", "node0", Result("r0", GPU, "node0", "gpu-0", share="s1", consumed={"memory": "30Gi"}))
    world.bind("first")
    hungry(world, capacity={"memory": "20Gi"})
    assert why(world) == (lacking.CAPACITY, "the shared devices have too little capacity left")
    world.update(world.get(Claim, "hungry"), requests=(asks("r0", A100.device, capacity={"memory": "10Gi"}),))
    assert only(world).reason == lacking.UNTRIED


def test_a_node_without_the_label_that_opens_the_pool() -> None:
    world = World("observe")
    world.node("node0", labels={f"cohdi.io/{A100.device}": ""})
    world.pool(A100, 1)
    hungry(world)
    told = "node0 lacks the label cohdi.io/nvidia-a100-40=true, which opens the pool to it"
    assert why(world) == (lacking.NODE, told)


def test_constraints_and_requests_that_do_not_fit_together() -> None:
    world = one_node(0)
    world.plug("node0", "gpu-0", "GPU-0", more={"root": "a"})
    world.plug("node0", "gpu-1", "GPU-1", more={"root": "b"})
    hungry(world, count=2)
    together = (Constraint(match=f"{GPU}/root"),)
    world.update(world.get(Claim, "hungry"), constraints=together)
    assert why(world) == (
        lacking.CONSTRAINT,
        "no free devices of one node have one value of gpu.nvidia.com/root, as it asks for",
    )
    two = (asks("r0", A100.device, count=2), asks("r1", A100.device))
    world.update(world.get(Claim, "hungry"), constraints=(), requests=two)
    assert why(world) == (lacking.TOGETHER, "the requests of its pod together ask for more than is free for one node")


def test_a_cool_down_and_how_many_nodes_take_none_either() -> None:
    world = one_node(4, "node0", "node1")
    for node in ("node0", "node1"):
        world.feed(
            e.CoolDown(
                node=node, model="A100 40G", mode="attach", until=world.now + 600 * SECOND, reason="AttachFailed"
            )
        )
        world.relabel(node, {f"cohdi.io/{A100.device}": None})
    hungry(world)
    reason, words = why(world)
    assert reason == lacking.COOL_DOWN and words.startswith("A100 40G cools down on node0 until 20")
    assert words.endswith("after AttachFailed; 1 other node takes none either")


def test_a_model_that_may_not_share_the_node() -> None:
    rivals = (A100, type(H100)(2, H100.model, H100.device, GPU, H100.attributes, conflicts=(1,)))
    world = World("attach", models=rivals)
    world.node("node0")
    world.pool(A100, 1)
    world.pool(H100, 1)
    world.waits("first", "node0")
    world.settle()
    world.relabel("node0", {f"cohdi.io/{H100.device}": None})
    hungry(world, model=H100)
    assert why(world) == (lacking.COEXISTENCE, "H100 80G may not share node0 with A100 40G")


def test_two_models_that_may_not_share_a_node_and_are_asked_for_at_once() -> None:
    rivals = (A100, type(H100)(2, H100.model, H100.device, GPU, H100.attributes, conflicts=(1,)))
    world = World("attach", models=rivals)
    world.node("node0")
    world.pool(A100, 1)
    world.pool(H100, 1)
    hungry(world)
    both = (asks("r0", A100.device), asks("r1", H100.device))
    world.update(world.get(Claim, "hungry"), requests=both)
    told = (lacking.COEXISTENCE, "A100 40G and H100 80G may not share a node, and its pod wants both")
    assert why(world) == told, "though both are free"
    for model in (A100, H100):
        world.feed(
            e.CoolDown(
                node="node0", model=model.model, mode="attach", until=world.now + 600 * SECOND, reason="Coexistence"
            )
        )
        world.relabel("node0", {f"cohdi.io/{model.device}": None})
    assert why(world) == told, "a cool-down passes, this does not"
    world.update(world.get(Claim, "hungry"), requests=both[:1])
    world.claim("more", pod="hungry", requests=both[1:])
    assert {(one.reason, one.why) for one in unallocated(world.state)} == {told}, "of two claims of one pod, too"


def two_fabrics() -> World:
    """Each node reaches the pool of one model."""
    world = one_node(2)
    world.node("node1", fabric=2)
    world.pool(H100, 2, fabric=2)
    return world


def test_no_node_reaches_all_that_a_pod_asks_for_whatever_is_in_use() -> None:
    world = two_fabrics()
    both = tuple(asks(f"r{n}", model.device) for n, model in enumerate((A100, H100)))
    world.claim("mixed", requests=both)
    world.update(world.get(Pod, "mixed"), waiting="Unschedulable")
    device = "no device of class nvidia-h100-80 such as it asks for is on node0"
    told = (lacking.TOGETHER, f"{device} or in a pool that it reaches; elsewhere: 2")
    assert why(world) == told
    for name in ("one", "two"):
        world.waits(name, "node0")
    assert why(world) == told, "a device that is given back does not help"


def test_a_pool_that_no_node_reaches_is_no_matter_of_what_is_in_use_but_devices_come_back_from_other_nodes() -> None:
    world = one_node(0, "node0", "node1")
    world.pool(H100, 1, fabric=2)
    hungry(world, model=H100)
    assert why(world)[0] == lacking.NODE and why(world)[1].startswith("no device of class nvidia-h100-80 such as")
    world = one_node(0, "node0", "node1")
    world.pool(A100, 0)
    world.online("res", "node1")
    world.holds("busy", "node1", "gpu-GPU-res")
    world.plug("node0", "fixed", "GPU-fixed", H100)
    world.claim("here", pod="hungry")
    world.allocate_local("here", "node0", "fixed")
    hungry(world)
    assert why(world) == (lacking.IN_USE, "the only device is in use")


def test_a_node_that_is_full_and_a_claim_that_asks_for_more_than_a_node_may_have() -> None:
    world = one_node(5, limit={"max": 2})
    hungry(world, count=3)
    assert why(world) == (lacking.LIMIT, "it asks for 3 of A100 40G, and node0 may have 2")
    world.online("idle", "node0")
    assert why(world) == (lacking.LIMIT, "it asks for 3 of A100 40G, and node0 may have 2"), "one of them is there"
    world.take_away("idle")
    world.update(world.get(Claim, "hungry"), requests=(asks("r0", A100.device),))
    assert only(world).reason == lacking.UNTRIED
    world.waits("first", "node0", (A100, 2))
    world.settle()
    world.bind("first")
    assert f"cohdi.io/{A100.device}" not in world.state.fleet.nodes.rows["node-node0"].labels, "dds closed the pool"
    assert why(world) == (lacking.LIMIT, "node0 may have 2 of A100 40G and has or awaits 2")
    world.update(world.get(Claim, "hungry"), requests=(asks("r0", A100.device, count=3),))
    assert why(world) == (lacking.LIMIT, "it asks for 3 of A100 40G, and node0 may have 2"), "the pool is closed to it"


def test_nodes_that_the_pod_does_not_tolerate() -> None:
    world = one_node(1)
    world.update(world.state.fleet.nodes.rows["node-node0"], unschedulable=True)
    hungry(world)
    assert why(world) == (lacking.NODE, "node0 is cordoned")
    world.update(world.get(Pod, "hungry"), tolerations=(Toleration(CORDON.key, "Exists"),))
    assert only(world).reason == lacking.UNTRIED


def test_the_node_that_lacks_least_is_told_of() -> None:
    """Of two nodes one has no device at all, the other a free one and a cordon."""
    world = one_node(0, "node0", "node1")
    world.plug("node1", "gpu-0", "GPU-0")
    world.update(world.state.fleet.nodes.rows["node-node1"], unschedulable=True)
    hungry(world)
    assert why(world) == (lacking.NODE, "node1 is cordoned")


def test_a_node_that_the_pod_may_not_use_is_no_reason_while_another_is_only_full_or_in_use() -> None:
    world = one_node(5, "node0", "node1", "node2", limit={"max": 1})
    others = (Taint("dedicated", "x", "NoSchedule"),)
    world.update(world.state.fleet.nodes.rows["node-node1"], taints=others)
    world.update(world.state.fleet.nodes.rows["node-node2"], unschedulable=True)
    world.waits("first", "node0")
    world.settle()
    world.bind("first")
    hungry(world)
    assert why(world) == (lacking.LIMIT, "node0 may have 1 of A100 40G and has or awaits 1")
    world.gone(world.get(Pod, "first"))
    world.clear("first")
    world.update(world.state.fleet.nodes.rows["node-node0"], deleting=True)
    assert why(world) == (lacking.NODE, "node2 is cordoned"), "the others are not for it"


def test_a_dedicated_node_with_a_free_device_is_no_reason_while_those_of_the_others_are_in_use() -> None:
    world = one_node(0, "node0", "node1")
    world.plug("node0", "gpu-0", "GPU-0")
    world.plug("node1", "gpu-1", "GPU-1")
    world.claim("first", requests=(asks("r0", A100.device),))
    world.allocate_local("first", "node0", "gpu-0")
    node = world.state.fleet.nodes.rows["node-node1"]
    world.update(node, taints=(Taint("dedicated", "x", "NoSchedule"),))
    hungry(world)
    assert why(world) == (lacking.IN_USE, "it asks for 1 on one node, and 0 are free there")
    world.update(world.state.fleet.nodes.rows["node-node1"], taints=(), unschedulable=True)
    assert why(world) == (lacking.NODE, "node1 is cordoned")


def test_another_claim_of_the_pod_that_has_its_node_decides_where() -> None:
    world = one_node(0, "node0", "node1")
    world.plug("node0", "gpu-0", "GPU-0")
    world.plug("node1", "gpu-1", "GPU-1")
    world.claim("first", requests=(asks("r0", A100.device),))
    world.allocate_local("first", "node1", "gpu-1")
    world.claim("hungry", pod="first", requests=(asks("r0", A100.device),))
    assert [(one.claim, one.reason) for one in unallocated(world.state)] == [("default/hungry", lacking.IN_USE)]


def test_what_lacks_for_the_other_claim_of_its_pod_is_told_of_both() -> None:
    world = one_node(2)
    world.observe(DeviceClass("class-nic", "nic", ('device.driver == "nic.example.com"',)))
    hungry(world)
    world.claim("network", pod="hungry", requests=(asks("r0", "nic"),))
    assert why(world) == (lacking.NONE, "there is no device of class nic")


def test_a_free_device_that_the_scheduler_has_not_tried() -> None:
    world = one_node(1)
    hungry(world)
    reason, words = why(world)
    assert reason == lacking.UNTRIED
    assert words == (
        "what it asks for is free for node0: the scheduler has not tried since, or its pod lacks something else there"
    )
    world.update(world.get(Pod, "hungry"), waiting="")
    assert why(world)[1] == "what it asks for is free for node0: the scheduler has not tried its pod yet"


def test_since_when_a_device_of_a_node_is_free_for_it() -> None:
    world = one_node(1)
    world.waits("first", "node0")
    world.settle()
    world.bind("first")
    world.observe(Slice("pool-nvidia-a100-40-fabric1", "nvidia-a100-40-fabric1", GPU, "nvidia-a100-40-fabric1", 2))
    hungry(world)
    assert only(world).reason == lacking.IN_USE
    world.finish("first")
    (since,) = [one.since for one in world.state.lifecycle.devices.rows.values() if one.state == "Idle"]
    reason, words = why(world)
    assert (
        reason == lacking.UNTRIED
        and f"free for node0 since {rfc3339(since)}: the scheduler has not tried since, or" in words
    )
    (queue,) = queues(world.state, unallocated(world.state))
    assert (queue.held_by, queue.idle_on) == ((), (("node0", 1),))


def test_a_device_that_is_tainted_and_taken_is_not_free_once() -> None:
    """A pool of three: one is taken, and tainted since. Two are free."""
    world = one_node(3)
    world.waits("first", "node0")
    hungry(world, selectors=(MEMORY,))
    shared = world.state.inventory.slices.rows["pool-nvidia-a100-40-fabric1"]
    (taken,) = (key[2] for key in world.state.demand.having if key[1] == shared.pool)
    devices = {
        name: replace(one, taints=(Taint("broken", "", "NoSchedule"),)) if name == taken else one
        for name, one in shared.devices.items()
    }
    world.update(shared, devices=devices)
    (queue,) = queues(world.state, unallocated(world.state))
    assert queue.free == 2


# -- many ----------------------------------------------------------------------------------------------------------------


def test_any_of_several_models_and_a_first_available() -> None:
    world = one_node(0)
    world.pool(H100, 1)
    world.waits("first", "node0", (H100, 1))
    world.claim("either", requests=(asks("r0", A100.device, H100.device),))
    row = only(world)
    assert (row.models, row.reason) == (("A100 40G", "H100 80G"), lacking.IN_USE)


def test_who_waits_for_the_same_stands_together_the_longest_wait_first() -> None:
    world = one_node(0)
    for number in range(5):
        hungry(world, f"a{number}", count=1 + number % 2)
    hungry(world, "h", model=H100)
    first, second = queues(world.state, unallocated(world.state))
    assert (first.models, first.claims, first.asked) == (("A100 40G",), 5, 7)
    assert first.longest == ("default/a0", "default/a1", "default/a2") and first.since < second.since
    assert second.longest == ("default/h",)


def test_claims_that_ask_for_the_same_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = one_node(1, *(f"node{n}" for n in range(20)))
    for number in range(200):
        hungry(world, f"c{number}")
    searched: list[str] = []
    allocate = Allocator.allocate

    def counted(self: Allocator, node: Node, *rest: Any, **more: Any) -> Fit:
        searched.append(node.name)
        return allocate(self, node, *rest, **more)

    monkeypatch.setattr(Allocator, "allocate", counted)
    assert len(unallocated(world.state)) == 200 and len(searched) == 1


def test_devices_that_differ_in_nothing_that_a_selector_names_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = one_node(0)
    for number in range(40):
        world.plug("node0", f"gpu-{number}", f"GPU-{number}", more={"root": str(number % 4)})
    evaluated: list[str] = []
    refusal = Allocator.refusal

    def counted(self: Allocator, claim: Claim, key: Any, **more: Any) -> str | None:
        evaluated.extend([key[2]] * key[2].startswith("gpu-"))
        return refusal(self, claim, key, **more)

    monkeypatch.setattr(Allocator, "refusal", counted)
    hungry(world)
    assert only(world).reason == lacking.UNTRIED and len(evaluated) < 5
    evaluated.clear()
    by_root = f'device.attributes["{GPU}"].root == "7"'
    world.update(world.get(Claim, "hungry"), requests=(asks("r0", A100.device, selectors=(by_root,)),))
    assert why(world) == (lacking.REFUSED, f"a selector refuses each of 40: {by_root}") and 4 <= len(evaluated) < 15
    evaluated.clear()
    by_any = f'device.attributes["{GPU}"].exists(name, name == "no-such-name")'
    world.update(world.get(Claim, "hungry"), requests=(asks("r0", A100.device, selectors=(by_any,)),))
    assert only(world).reason == lacking.REFUSED and len(evaluated) >= 40, "it may look at any attribute"


def test_more_kinds_of_pods_than_are_looked_at_are_said() -> None:
    world = one_node(0)
    for number in range(lacking.MOST_SHAPES + 1):
        hungry(world, f"c{number}", selectors=(f"{number} == {number}",))
    *some, last = unallocated(world.state)
    assert {one.reason for one in some} == {lacking.NONE}
    assert (last.reason, last.why) == (lacking.NOT_COMPUTED, "not computed: more than 64 kinds of pods wait")


def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes over which the allocator searches from now on."""
    nodes: list[str] = []
    allocate = Allocator.allocate

    def counted(self: Allocator, node: Node, claims: Any, **more: Any) -> Fit:
        nodes.append(node.name)
        return allocate(self, node, claims, **more)

    monkeypatch.setattr(Allocator, "allocate", counted)
    return nodes


def scattered(*nodes: str) -> World:
    """A pool of six devices with three roots, and a claim that asks for three devices of one root."""
    world = one_node(6, *nodes)
    (pool,) = (one for one in world.state.inventory.slices.rows.values() if not one.node)
    rooted = {
        name: replace(one, attributes={**one.attributes, f"{GPU}/root": str(place // 2)})
        for place, (name, one) in enumerate(pool.devices.items())
    }
    world.update(pool, devices=rooted, generation=pool.generation + 1)
    hungry(world, count=3)
    world.update(world.get(Claim, "hungry"), constraints=(Constraint(match=f"{GPU}/root"),))
    return world


def test_nodes_that_reach_the_same_pools_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = scattered("node0", "node1", "node2", "node3")
    nodes = searched(monkeypatch)
    assert only(world).reason == lacking.CONSTRAINT
    assert len(nodes) == 1


def test_a_search_that_would_take_long_is_not_begun_and_keeps_no_other_from_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that decides counts who waits."""
    world = scattered()
    hungry(world, "modest")
    monkeypatch.setattr(lacking, "MOST_LOOKS", 20)
    nodes = searched(monkeypatch)
    reasons = {one.claim: one.reason for one in unallocated(world.state)}
    assert reasons == {"default/hungry": lacking.NOT_COMPUTED, "default/modest": lacking.UNTRIED}
    assert len(nodes) == 1


def test_a_request_of_an_old_log_is_not_judged() -> None:
    world = one_node(1)
    world.claim("old", requests=(ClaimRequest("r0", classes=(A100.device,)),))
    assert unallocated(world.state) == []
    world.update(world.get(Claim, "old"), requests=(ClaimRequest("r0", alternatives=(Alternative(A100.device),)),))
    assert only(world).reason == lacking.UNTRIED
    assert class_of(A100).name == A100.device


# -- pods that ask for an extended resource --------------------------------------------------------------------------------

RESOURCE = "example.com/gpu"


def asking(world: World, name: str = "hungry", **resources: int) -> None:
    """A pod for whose extended resources the scheduler has found no node, and has made no claim; `gpu` is `RESOURCE`."""
    asked = {RESOURCE if key == "gpu" else key: count for key, count in (resources or {"gpu": 1}).items()}
    world.pod(name, waiting="Unschedulable", extended_resources=asked, created=world.now)


def served(free: int, *nodes: str, resource: str = RESOURCE) -> World:
    """A pool whose class serves the resource."""
    world = one_node(free, *nodes)
    world.observe(replace(class_of(A100), extended_resource=resource))
    return world


def test_a_pod_of_an_extended_resource_waits_as_the_claim_that_it_will_have() -> None:
    world = served(1)
    world.waits("first", "node0")
    world.settle()
    hungry(world, "claimed")
    asking(world)
    claimed, row = sorted(unallocated(world.state), key=lambda one: len(one.resources))
    assert (row.claim, row.pod, row.models, row.asked) == ("pod/default/hungry", "default/hungry", ("A100 40G",), 1)
    assert row.resources == ((RESOURCE, A100.device, 1),) and claimed.resources == ()
    assert (row.reason, row.why) == (claimed.reason, claimed.why) == (lacking.IN_USE, "all 2 are in use")
    assert row.since == world.get(Pod, "hungry").created
    (queue,) = queues(world.state, unallocated(world.state))
    assert (queue.claims, queue.asked, queue.resources) == (2, 2, ((RESOURCE, A100.device),))
    assert {*queue.longest} == {"default/claimed", "pod/default/hungry"}


@pytest.mark.parametrize(
    "change", [{"deleting": True}, {"phase": "Failed"}, {"node": "node0"}, {"extended_resources": {}}]
)
def test_such_a_pod_that_does_not_wait_is_none(change: dict[str, Any]) -> None:
    world = served(0)
    asking(world)
    assert unallocated(world.state)
    world.update(world.get(Pod, "hungry"), **change)
    assert unallocated(world.state) == []


def test_what_no_class_serves_is_not_waited_for_until_one_does() -> None:
    world = one_node(0)
    asking(world)
    assert unallocated(world.state) == [], "a device plugin may serve it"
    world.observe(replace(class_of(A100), extended_resource=RESOURCE))
    assert why(world) == (lacking.NONE, "there is no device of class nvidia-a100-40")
    world.observe(DeviceClass("class-nic", "nic", ('device.driver == "nic.example.com"',), "example.com/nic"))
    world.update(world.get(Pod, "hungry"), extended_resources={"example.com/nic": 1})
    assert unallocated(world.state) == [], "its devices are of no model"


def test_the_implicit_resource_names_its_class_and_that_may_be_missing() -> None:
    world = one_node(1)
    asking(world, "hungry", **{f"deviceclass.resource.kubernetes.io/{A100.device}": 2})
    assert why(world) == (lacking.TOO_FEW, "it asks for 2 on one node; devices in all: 1, in use: 0")
    assert only(world).resources[0].device_class == A100.device
    world.gone(world.state.inventory.classes.rows[f"class-{A100.device}"])
    assert why(world) == (lacking.NO_CLASS, "the DeviceClass nvidia-a100-40 does not exist")


def test_of_several_classes_for_one_resource_the_newest_counts_then_the_first_by_name() -> None:
    world = served(1)
    world.observe(replace(class_of(H100), extended_resource=RESOURCE))
    asking(world)
    first, second = sorted((A100.device, H100.device))
    assert only(world).resources[0].device_class == first
    world.update(world.state.inventory.classes.rows[f"class-{second}"], created=world.now)
    assert only(world).resources[0].device_class == second


def test_its_claims_and_its_extended_resources_are_wanted_together() -> None:
    world = served(1)
    hungry(world)
    assert only(world).reason == lacking.UNTRIED
    world.pod("hungry", extended_resources={RESOURCE: 1}, created=world.now)
    rows = unallocated(world.state)
    assert {row.claim: row.reason for row in rows} == {
        "default/hungry": lacking.TOGETHER,
        "pod/default/hungry": lacking.TOGETHER,
    }


def special(world: World, name: str = "hungry-x", **fields: Any) -> Claim:
    """The claim that the scheduler makes for the pod `hungry`."""
    world.observe(
        Claim(
            f"uid-{name}",
            "default",
            name,
            world.now,
            extended=True,
            owner=world.get(Pod, "hungry").uid,
            requests=(asks("container-0-request-0", A100.device),),
            **fields,
        )
    )
    return world.get(Claim, name)


def test_the_row_is_that_of_its_claim_from_when_a_reader_finds_that() -> None:
    world = served(1)
    asking(world)
    special(world)
    assert only(world).claim == "pod/default/hungry", "neither allocated nor named in the pod's status"
    world.update(world.get(Pod, "hungry"), extended_claim="hungry-x")
    assert only(world).claim == "default/hungry-x"
    world.allocate("hungry-x", "node0")
    assert unallocated(world.state) == []
    world.gone(world.get(Claim, "hungry-x"))
    assert only(world).claim == "pod/default/hungry", "its status names it still"


def test_a_restart_shows_the_same() -> None:
    world = served(1)
    world.waits("first", "node0")
    world.settle()
    asking(world)
    again = load(dump(world.state))
    assert unallocated(again) == unallocated(world.state) != []
