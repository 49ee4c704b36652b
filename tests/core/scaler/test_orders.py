"""What is ordered: whole claims, per node and model, within the limits, and only what is not there or coming already."""

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.model import AttachRequest, Claim, Model, Node, Result, Taint, Toleration, request_name
from dds_core.scaler import events as e
from dds_core.scaler.rules.assignment import assign
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, GPU, H100, World, one_node

CXL = Model(7, "CXL 256G", "cxl-256", "cxl.example.com", {"productName": "CXL 256"})


def world_with_pools(mode: str = "attach", *, pools: bool = True, **policy: Any) -> World:
    """Two nodes, and a pool of each model."""
    world = World(mode, models=(A100, H100, CXL), scan_interval_seconds=0, **policy)
    world.node("node0")
    world.node("node1")
    for model in (A100, H100, CXL) if pools else ():
        world.pool(model, 8)
    return world


# --- claims of every shape ---------------------------------------------------------------------------------------------


def test_a_claim_for_several_devices_is_attached_as_a_whole() -> None:
    world = world_with_pools()
    world.claim("wide", 3)
    world.allocate("wide", "node0")
    assert world.only(e.AttachOrdered).size == 3
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    for number in range(3):
        assert world.state_of("wide") == "Attaching"
        assert not world.events(e.Reserved)
        world.online(f"res{number}", "node0", request=request)
    assert world.reserved("wide") == ["GPU-res0", "GPU-res1", "GPU-res2"]
    assert len(world.only(e.HandOver).signals[0].entries) == 3


def test_what_was_ordered_for_one_that_fails_is_for_the_next() -> None:
    """Seed 92208: an older claim that the node is too full for took the one device that a younger one still needed, and both
    failed; of several claims for two on nodes for two none was ever served."""
    world = one_node("attach", 8, scan_interval_seconds=0, limit={"max": 2})
    world.claim("older", 2)
    world.request("ours", "node0", labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("res", "node0", request="ours")
    world.claim("younger", 2)
    world.allocate("younger", "node0", Result("r0", GPU, "node0", "gpu-GPU-res"), *pool_results(0))
    assert world.only(e.AttachOrdered).size == 2
    world.allocate("older", "node0", *pool_results(1, 2))
    assert [one.claim for one in world.events(e.ClaimFailed)] == [world.uid("older")]
    assert world.state_of("younger") == "Attaching" and len(world.events(e.AttachOrdered)) == 1


def test_the_cause_of_an_advance_names_the_size_that_was_just_ordered() -> None:
    """The request itself is seen with it only once the write has come back."""
    world = world_with_pools()
    name = request_name("node0", "gpu", A100.model)
    world.request(name, "node0", size=0, state="Running")
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).size == 1
    causes = [one.cause for one in world.events(e.ClaimMoved) if one.trigger == "ordered"]
    assert causes == [f"request {name} asks for 1 of A100 40G"]


def test_several_requests_and_models_in_one_claim() -> None:
    world = world_with_pools(drivers={CXL.driver: {"request_type": "cxlmemory"}})
    world.waits("mixed", "node0", (A100, 2), (H100, 1), (CXL, 1))
    orders = {(o.model, o.type): o.size for o in world.events(e.AttachOrdered)}
    assert orders == {(A100.model, "gpu"): 2, (H100.model, "gpu"): 1, (CXL.model, "cxlmemory"): 1}
    world.settle()
    assert world.state_of("mixed") == "Attached"
    promised = world.only(e.Reserved).promises
    assert [(p.result, p.driver) for p in promised] == [
        (0, A100.driver),
        (1, A100.driver),
        (2, H100.driver),
        (3, CXL.driver),
    ]


def test_local_and_pool_devices_in_one_claim() -> None:
    world = world_with_pools()
    world.plug("node0", "gpu-fixed", "GPU-fixed")
    world.claim("mixed")
    local = replace(pool_results(0)[0], pool="node0", device="gpu-fixed", binding=(), failure=())
    world.allocate("mixed", "node0", local, (A100, 1))
    assert world.only(e.AttachOrdered).size == 1, "only what is waited for is ordered"
    world.settle()
    assert world.only(e.Reserved).promises[0].result == 1


def test_a_fixed_device_goes_before_a_composable_one_and_both_before_an_order() -> None:
    world = world_with_pools()
    world.plug("node0", "gpu-zz-fixed", "GPU-fixed")
    world.online("res", "node0")
    for name in ("one", "two", "three"):
        world.waits(name, "node0")
    assert (world.reserved("one"), world.reserved("two"), world.reserved("three")) == (["GPU-fixed"], ["GPU-res"], [])
    assert world.only(e.AttachOrdered).claims == (world.uid("three"),)


def test_a_device_is_not_taken_for_a_claim_of_another_model_or_driver() -> None:
    world = world_with_pools()
    world.plug("node0", "gpu-h100", "GPU-h", H100)
    world.plug("node0", "cxl-0", "CXL-0", CXL)
    world.waits("train", "node0")
    assert world.state_of("train") == "Attaching"
    assert world.only(e.AttachOrdered).model == A100.model


def test_an_order_of_anybody_covers_a_claim() -> None:
    world = world_with_pools()
    world.request("theirs", "node0", size=2)
    for name in ("one", "two"):
        world.waits(name, "node0")
    assert not world.events(e.AttachOrdered)
    assert (world.state_of("one"), world.state_of("two")) == ("Attaching", "Attaching")


def test_claims_are_served_by_age_then_namespace_then_name() -> None:
    world = world_with_pools(synced=False)
    for name in ("red/b", "blue/b", "blue/a", "old"):
        world.claim(name, created=5 if name != "old" else 1)
    for name in ("red/b", "blue/b", "blue/a", "old"):
        world.allocate(name, "node0")
    world.sync()
    assert world.only(e.AttachOrdered).size == 4
    world.carry_out()
    for number in range(4):
        world.online(f"res{number}", "node0")
    assert [r.claim for r in world.events(e.Reserved)] == [world.uid(n) for n in ("old", "blue/a", "blue/b", "red/b")]


# --- nodes, fabrics, names ---------------------------------------------------------------------------------------------


def test_each_node_and_model_has_its_own_request() -> None:
    world = world_with_pools()
    for name, node, model in (("a", "node0", A100), ("b", "node1", A100), ("c", "node0", H100)):
        world.waits(name, node, (model, 1))
    orders = {(o.node, o.model, o.request) for o in world.events(e.AttachOrdered)}
    assert orders == {
        (n, m.model, request_name(n, "gpu", m.model)) for n, m in (("node0", A100), ("node1", A100), ("node0", H100))
    }
    assert len({request for _, _, request in orders}) == 3


def test_our_names_are_valid_stable_and_unique() -> None:
    names = {request_name(node, kind, "A100 40G") for node in ("node0", "n" * 250) for kind in ("gpu", "cxlmemory")}
    assert len(names) == 4
    assert request_name("node0", "gpu", "A100 40G") == "dds-node0-a100-40g-98899e7c75"
    assert all(len(name) <= 63 and name.replace("-", "").isalnum() and name == name.lower() for name in names)
    assert request_name("a-b", "gpu", "c") != request_name("a", "gpu", "b c")


def test_each_fabric_has_its_own_free_devices() -> None:
    world = world_with_pools()
    world.node("far", fabric=2)
    world.pool(A100, 1, fabric=2)
    for number, name in enumerate(("one", "two")):
        world.waits(name, "far", *pool_results(number, fabric=2))
        world.carry_out()
        world.make()
    assert [o.size for o in world.events(e.AttachOrdered)] == [1]
    assert world.state_of("two") == "Pending", "the free devices of the other fabric do not reach the node"


# --- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "policy", "top"),
    [
        ({}, {"limit": {"max": 2}}, 2),
        ({}, {"limits": {A100.model: {"max": 1}}}, 1),
        ({}, {"limits": {A100.model: {"max": 1}, f"node0/{A100.model}": {"max": 3}}}, 3),
        ({"cohdi.io/nvidia-a100-40-size-max": "2"}, {"limits": {A100.model: {"max": 4}}}, 2),
        ({"cohdi.io/nvidia-a100-40-size-max": "-2"}, {"limit": {"max": 1}}, 1),
        ({"cohdi.io/nvidia-h100-80-size-max": "0"}, {"limit": {"max": 1}}, 1),
    ],
    ids=["for all", "for the model", "for the node and model", "by label", "an odd label", "another model's label"],
)
def test_a_node_has_no_more_than_its_limit(labels: dict[str, str], policy: dict[str, Any], top: int) -> None:
    world = world_with_pools(cool_down_seconds=86_400, synced=False, **policy)
    world.node("node0", labels=labels)
    for number in range(4):
        world.waits(f"train{number}", "node0")
    world.sync()
    assert max(o.size for o in world.events(e.AttachOrdered)) == top
    assert {f.reason for f in world.events(e.ClaimFailed)} == {"NodeLimit"}
    assert len(world.events(e.ClaimFailed)) == 4 - top


def test_devices_without_a_request_count_against_the_limit() -> None:
    world = world_with_pools(limit={"max": 1})
    world.plug("node0", "gpu-fixed", "GPU-fixed")
    world.online("orphan", "node0", request="long-gone")
    world.holds("busy", "node0", "gpu-GPU-orphan")
    for name in ("fixed", "over"):
        world.waits(name, "node0")
    assert world.reserved("fixed") == ["GPU-fixed"]
    assert world.only(e.ClaimFailed).claim == world.uid("over")


def test_a_device_that_cannot_be_detached_counts_against_the_limit_until_it_can() -> None:
    """A claim has what the operator is to take off: the node has no room for another one."""
    world = world_with_pools(limit={"max": 1})
    world.online("orphan", "node0", request="long-gone")
    world.holds("busy", "node0", "gpu-GPU-orphan")
    world.resource("orphan", "node0", state="Detaching", deleting=True, error="compute processes are still running")
    label = "cohdi.io/nvidia-a100-40"
    assert any(one.labels.get(label, "") is None for one in world.events(e.NodeLabelled))
    world.waits("over", "node0")
    assert world.only(e.ClaimFailed).reason == "NodeLimit"
    world.tick(121)
    world.resource("orphan", "node0", error="")
    assert world.events(e.NodeLabelled)[-1].labels[label] == "true"


def asking_for_three(limits: dict[str, Any]) -> World:
    """Two nodes; one has an idle device, and a claim gets it with two from the pool."""
    world = world_with_pools(cool_down_seconds=600, **limits)
    world.online("idle", "node0", request=request_name("node0", "gpu", A100.model))
    world.request(request_name("node0", "gpu", A100.model), "node0", size=1, state="Running", planned=("idle",))
    world.claim("three", devices=3)
    world.allocate("three", "node0", Result("r0", GPU, "node0", "gpu-GPU-idle"), *pool_results(0, 1))
    return world


def test_what_a_claim_has_on_the_node_counts_to_what_no_node_may_have() -> None:
    """Of three devices that no node may have one is there already: no cool-down keeps others from healthy nodes."""
    world = asking_for_three({"limit": {"max": 2}})
    failure = world.only(e.ClaimFailed)
    assert failure.message == "it asks for 3 of A100 40G, and node0 may have 2"
    assert not world.events(e.CoolDown) and not world.events(e.AttachOrdered)


def test_a_node_that_may_not_have_so_many_is_closed_though_it_has_room_if_another_one_may() -> None:
    world = asking_for_three({"limits": {f"node0/{A100.model}": {"max": 2}}})
    assert world.only(e.ClaimFailed).message == "it asks for 3 of A100 40G, and node0 may have 2"
    world.carry_out()
    world.clear("three")
    world.take_away("idle")
    world.tick(1)
    assert world.only(e.CoolDown).node == "node0" and not world.events(e.CoolDownOver), "no room will do"


@pytest.mark.parametrize("limit", [1, 2])
def test_the_claims_of_a_pod_need_their_devices_on_one_node(limit: int) -> None:
    """Neither gets a device that its pod could never use; nor does a node cool down for them."""
    world = world_with_pools(limit={"max": limit}, synced=False)
    for number, name in enumerate(("one", "two")):
        world.claim(name, pod="train")
        world.allocate(name, "node0", *pool_results(number))
    world.sync()
    told = "it asks for 2 of A100 40G with the other claims of its pod, and node0 may have 1"
    assert [one.message for one in world.events(e.ClaimFailed)] == ([told] * 2 if limit == 1 else [])
    assert len(world.events(e.AttachOrdered)) == (limit == 2) and not world.events(e.CoolDown)


# --- nodes that cannot be used -----------------------------------------------------------------------------------------

UNUSABLE: dict[str, dict[str, Any]] = {
    "cordoned": {"unschedulable": True},
    "tainted": {"taints": (Taint("maintenance", "", "NoSchedule"),)},
    "draining": {"taints": (Taint("drain", "", "NoExecute"),)},
    "being deleted": {"deleting": True},
}


@pytest.mark.parametrize("why", UNUSABLE)
def test_no_new_order_for_a_node_that_the_pod_cannot_use(why: str) -> None:
    world = world_with_pools()
    world.node("node0", **UNUSABLE[why])
    world.waits("train", "node0")
    assert not world.events(e.AttachOrdered)
    assert world.state_of("train") == "Failed"
    world.node("node0")
    world.allocate("train", "node0", (H100, 1))
    assert world.only(e.AttachOrdered).node == "node0"


def test_a_taint_that_only_prefers_or_is_tolerated_does_not_matter() -> None:
    world = world_with_pools()
    world.node("node0", taints=(Taint("gpu", "yes", "NoSchedule"), Taint("slow", "", "PreferNoSchedule")))
    world.claim("train")
    world.pod("train", tolerations=(Toleration("gpu", "Equal", "yes", "NoSchedule"),))
    world.claim("other")
    world.allocate("train", "node0")
    world.allocate("other", "node0")
    assert world.only(e.AttachOrdered).claims == (world.uid("train"),)
    assert world.only(e.ClaimFailed).claim == world.uid("other")
    world.carry_out(e.AttachOrdered)
    world.make()
    world.claim("third")
    world.pod("third", tolerations=(Toleration("", "Exists"),))
    world.allocate("third", "node0")
    assert world.events(e.AttachOrdered)[-1].claims == (world.uid("third"),)


def test_no_order_for_a_node_that_is_gone() -> None:
    world = world_with_pools()
    world.claim("train")
    world.waits("early", "node0")
    node = world.get(Node, "node0")
    world.gone(node)
    world.update(world.get(Claim, "train"), allocation=world.get(Claim, "early").allocation)
    assert world.only(e.AttachOrdered).claims == (world.uid("early"),)
    assert not world.state.fleet.orders.rows, "what was meant for the node is void"


# --- pace --------------------------------------------------------------------------------------------------------------


def test_what_the_pool_shows_is_ordered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dds_core.scaler.ordering.ORDERS_IN_FLIGHT", 2)
    world = world_with_pools()
    for number in range(8):
        world.node(f"n{number}")
        world.waits(f"train{number}", f"n{number}")
    assert len(world.events(e.AttachOrdered)) == 8


def test_without_a_pool_orders_in_flight_are_capped_and_go_on_as_devices_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dds_core.scaler.ordering.ORDERS_IN_FLIGHT", 2)
    world = world_with_pools(pools=False)
    for number in range(4):
        world.node(f"n{number}")
        world.waits(f"train{number}", f"n{number}", *pool_results(number))
    assert [o.node for o in world.events(e.AttachOrdered)] == ["n0", "n1"]
    world.carry_out()
    assert len(world.events(e.AttachOrdered)) == 2, (
        "what is asked for is under way, whether or not there is a resource yet"
    )
    world.operate()
    assert [o.node for o in world.events(e.AttachOrdered)] == ["n0", "n1", "n2", "n3"]


def test_the_measured_pace_replaces_the_first_number() -> None:
    world = world_with_pools(pools=False, schedulers={})
    for number in range(5):
        world.resource(f"res{number}", "node1", state="Attaching")
        world.tick(200)
        world.resource(f"res{number}", "node1", state="Online", uuid=f"GPU-{number}")
    assert world.state.fleet.rates.rows[""].service == pytest.approx(200.1, abs=1)
    for number in range(4):
        world.waits(f"train{number}", "node0", *pool_results(number))
        world.carry_out()
        world.make()
    assert world.events(e.AttachOrdered)[-1].size == 2, "540 s of budget hold two attaches of 200 s"


def test_a_device_that_goes_is_not_the_one_that_was_ordered_since() -> None:
    world = one_node("detach", 4, no_removal_seconds=60, scan_interval_seconds=0)
    world.request("ours", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), size=0)
    world.resource("res", "node0", state="Deleting", deleting=True)
    world.waits("train", "node0", *pool_results(0))
    world.carry_out()
    world.relabel("node0", {"looked": "at"})
    assert [(one.previous, one.size) for one in world.events(e.AttachOrdered)] == [(0, 1)]
    assert world.state_of("train") == "Attaching"


def test_nothing_is_ordered_while_the_operator_counts_one_that_goes() -> None:
    """It was content with the size, and made none for the claim; nor could the other device go, since the size was never met."""
    world = one_node("detach", 4, scan_interval_seconds=0)
    world.request("ours", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), size=0)
    world.resource("res", "node0", deleting=True)
    world.update(world.get(AttachRequest, "ours"), acted_size=0)
    world.waits("train", "node0", *pool_results(0))
    assert not world.events(e.AttachOrdered) and world.state_of("train") == "Pending"
    world.resource("res", "node0", state="Deleting")
    assert [(one.previous, one.size) for one in world.events(e.AttachOrdered)] == [(0, 1)]


def one_leaves(error: str = "", **policy: Any) -> World:
    """A device of the model is just leaving node0, and no other is there."""
    world = one_node("detach", 4, **policy)
    world.request("ours", "node0", acted_size=1, generate_name="composability-", state="Running")
    world.online("res", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), size=0)
    world.resource("res", "node0", state="Detaching", deleting=True, error=error)
    world.update(world.get(AttachRequest, "ours"), acted_size=0)
    return world


def one_is_taken_off(**policy: Any) -> World:
    """A claim comes to a node which a device of the model is just leaving."""
    world = one_leaves(scan_interval_seconds=60, **policy)
    world.waits("train", "node0", *pool_results(0))
    return world


def test_nothing_is_ordered_while_a_device_of_the_model_is_taken_off() -> None:
    """The fabric gave it to the same node again; the operator, which saw it there, took it off once more."""
    world = one_is_taken_off()
    world.tick(61)
    assert not world.events(e.AttachOrdered) and world.state_of("train") == "Pending"
    world.take_away("res")
    assert world.only(e.AttachOrdered).size == 1


def test_a_device_that_is_taken_off_keeps_no_other_model_back() -> None:
    world = one_is_taken_off()
    world.pool(H100, 4)
    world.waits("other", "node0", (H100, 1))
    assert world.only(e.AttachOrdered).model == H100.model


def test_nor_while_its_detach_failed_and_the_node_lists_it_no_more() -> None:
    """Seed 51063: the processes that had kept it were gone by then, and it was off before the operator said so."""
    world = one_is_taken_off()
    world.unplug("node0", "gpu-GPU-res")
    world.resource("res", "node0", error="compute processes are still running")
    world.tick(61)
    assert not world.events(e.AttachOrdered)


def test_nor_for_a_claim_that_has_the_device_which_leaves() -> None:
    """Seed 51063: the scheduler took it a moment after it had gone."""
    world = one_leaves("compute processes are still running", scan_interval_seconds=60)
    world.claim("train", devices=2)
    world.allocate("train", "node0", Result("r0", GPU, "node0", "gpu-GPU-res"), pool_results(0)[0])
    world.tick(61)
    assert not world.events(e.AttachOrdered)
    world.waits("small", "node0", pool_results(1)[0])
    assert {one.claims for one in world.events(e.AttachOrdered)} == {(world.uid("small"),)}, (
        "others are not kept waiting"
    )


def test_a_device_that_cannot_be_taken_off_keeps_no_claim_waiting() -> None:
    world = one_is_taken_off()
    world.resource("res", "node0", error="compute processes are still running")
    assert world.only(e.AttachOrdered).size == 1
    world = one_is_taken_off()
    world.tick(290)
    assert not world.events(e.AttachOrdered)
    world.tick(20)
    assert world.only(e.AttachOrdered).size == 1


def test_a_device_whose_detach_hangs_takes_its_place_of_the_nodes_limit() -> None:
    """The operator reports no error, and the device stays on the node: another would be one over the limit."""
    world = one_is_taken_off(limit={"max": 1})
    world.tick(310)
    assert not world.events(e.AttachOrdered)


def test_who_takes_a_request_beyond_our_order_before_it_is_seen_has_the_last_word() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.request("ours", "node0", size=1, generate_name="composability-", state="Running", acted_size=1)
    world.holds("first", "node0", "gpu-" + world.online("res", "node0", request="ours"))
    world.waits("train", "node0", *pool_results(0))
    assert world.only(e.AttachOrdered).size == 2
    world.update(world.get(AttachRequest, "ours"), size=5)
    for number in (1, 2, 3):
        world.waits(f"more{number}", "node0", *pool_results(number))
    assert len(world.events(e.AttachOrdered)) == 1, "four come for four claims"


def test_a_second_order_names_what_it_changes() -> None:
    world = world_with_pools()
    world.waits("one", "node0")
    world.carry_out()
    world.make()
    world.waits("two", "node0")
    first, second = world.events(e.AttachOrdered)
    assert (first.previous, first.uid) == (None, "")
    assert (second.previous, second.uid, second.size) == (1, f"request-{first.request}", 2)
    assert world.get(AttachRequest, first.request).size == 1


# --- ahead of demand ---------------------------------------------------------------------------------------------------


def test_prewarm_is_off_unless_the_policy_says_so() -> None:
    world = world_with_pools(limit={"min": 2})
    world.tick(3600)
    assert not world.events(e.AttachOrdered)


def test_prewarm_fills_up_to_the_minimum_one_at_a_time() -> None:
    world = World("attach", prewarm=True, scan_interval_seconds=0)
    world.node("node0", labels={"cohdi.io/nvidia-a100-40-size-min": "2"})
    world.pool(A100, 8)
    world.tick(59)
    for _ in range(5):
        world.settle()
        world.tick(61)
    orders = world.events(e.AttachOrdered)
    assert [(o.size, o.reason, o.claims) for o in orders] == [(1, "prewarm", ()), (2, "prewarm", ())]


@pytest.mark.parametrize("why", UNUSABLE)
def test_prewarm_leaves_unusable_nodes_alone(why: str) -> None:
    world = World("attach", prewarm=True, limit={"min": 1}, scan_interval_seconds=0)
    world.node("node0", **UNUSABLE[why])
    world.pool(A100, 8)
    world.tick(600)
    assert not world.events(e.AttachOrdered)


def test_prewarm_counts_a_device_that_cannot_be_taken_off() -> None:
    world = one_leaves("compute processes are still running", scan_interval_seconds=0)
    world.change_policy(prewarm=True, limit={"min": 1, "max": 1})
    world.tick(600)
    assert not world.events(e.AttachOrdered)


def test_prewarm_never_touches_a_foreign_request() -> None:
    world = one_node("attach", 8, prewarm=True, adoption="none", limit={"min": 1}, scan_interval_seconds=0)
    world.request("theirs", "node0", size=0)
    world.tick(600)
    assert not world.events(e.AttachOrdered)


# -- what a node has is handed out in one order, whatever order the rows are kept in: a replay has to find the same


def test_devices_that_are_not_listed_yet_go_to_claims_by_their_age() -> None:
    world = one_node("attach", 12)
    names = [f"res{number}" for number in range(12)]
    for name in names:
        world.resource(name, "node0", state="Attaching", request="ours")
        world.resource(name, "node0", state="Online", uuid=f"GPU-{name}")
        world.tick(1)
    world.claim("train", 12)
    world.allocate("train", "node0")
    (assignment,) = assign(world.state, "node0")
    assert [uid for _, uid in assignment.attaching] == names


def test_what_the_operator_is_about_to_take_is_handed_out_last_whoever_has_marked_it() -> None:
    world = one_node("detach", 8)
    world.request("ours", "node0", size=2, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("res0", "node0", request="ours")
    world.online("res1", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), size=1)
    world.resource("res0", "node0", marked=True)
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-res1"]


# --- taken back before it was written ----------------------------------------------------------------------------------


def test_an_order_whose_claim_went_before_it_was_written_is_taken_back() -> None:
    world = world_with_pools()
    world.waits("train", "node0")
    world.finish("train")
    first, back = world.events(e.AttachOrdered)
    assert (back.request, back.size, back.previous) == (first.request, 0, None)
    assert not world.state.fleet.orders.rows
    assert not world.state.fleet.units_coming


def test_only_what_nobody_else_waits_for_is_taken_back() -> None:
    world = world_with_pools()
    world.waits("one", "node0")
    world.settle()
    world.pool(A100, 8, generation=2, slices=2)
    for name in ("two", "three"):
        world.waits(name, "node0")
    world.pool(A100, 8, generation=3)
    assert world.events(e.AttachOrdered)[-1].size == 3
    world.finish("two")
    back = world.events(e.AttachOrdered)[-1]
    assert (back.size, back.previous) == (2, 1)
    world.finish("three")
    back = world.events(e.AttachOrdered)[-1]
    assert (back.size, back.previous) == (1, 1)
    world.feed(e.WriteDone("", "AttachOrdered", back.request))
    assert not world.state.fleet.orders.rows
    ordered = len(world.events(e.AttachOrdered))
    world.tick(600)
    assert len(world.events(e.AttachOrdered)) == ordered


def test_a_device_that_becomes_free_meanwhile_takes_an_order_back() -> None:
    world = world_with_pools()
    world.plug("node0", "gpu-0", "GPU-0")
    world.holds("busy", "node0", "gpu-0")
    world.waits("train", "node0")
    world.finish("busy")
    assert world.reserved("train") == ["GPU-0"]
    assert world.events(e.AttachOrdered)[-1].size == 0


def test_what_was_written_already_is_not_taken_back() -> None:
    world = world_with_pools()
    world.waits("train", "node0")
    world.carry_out()
    world.finish("train")
    assert len(world.events(e.AttachOrdered)) == 1


def test_what_was_written_and_not_seen_yet_comes_and_idles() -> None:
    world = world_with_pools("detach")
    world.waits("train", "node0")
    order = world.only(e.AttachOrdered)
    world.finish("train")
    world.request(order.request, "node0", size=1, labels={"app.kubernetes.io/managed-by": "dds"})
    world.operate()
    assert not world.state.fleet.orders.rows
    (resource,) = world.state.fleet.resources
    assert world.device(resource) == "Idle"


def test_what_is_ordered_ahead_of_demand_stays() -> None:
    world = world_with_pools(prewarm=True, limit={"min": 1})
    world.tick(60)
    sizes = {order.size for order in world.events(e.AttachOrdered)}
    assert sizes == {1}
