"""Nodes, slices, requests and claims that vanish, in whatever order, in every mode."""

import pytest

from dds_core.model import AttachRequest, Claim, FabricResource, Node, Pod, Slice
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, World, one_node

MODES = ["observe", "attach", "detach"]


def in_state(state: str, mode: str) -> World:
    """The claim `train` on node0, as far as `state`."""
    world = one_node(mode, 8, no_removal_seconds=60, scan_interval_seconds=60)
    world.claim("train")
    if state == "New":
        return world
    world.allocate("train", "node0")
    if state == "Pending":
        return world
    world.request("ours", "node0", labels={"app.kubernetes.io/managed-by": "dds"})
    world.carry_out()
    if state == "Attaching":
        return world
    if state == "Failed":
        world.condition("train", "FabricDeviceFailed")
        return world
    world.online("res", "node0", request="ours")
    if state == "Attached":
        return world
    world.allocate_local("train", "node0", "gpu-GPU-res")
    world.bind("train")
    if state == "Detaching":
        world.gone(world.get(Pod, "train"))
        world.clear("train")
    return world


STATES = ["New", "Pending", "Attaching", "Attached", "Bound", "Detaching", "Failed"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", STATES)
def test_a_claim_that_vanishes_leaves_no_promise_and_no_holder(state: str, mode: str) -> None:
    world = in_state(state, mode)
    uid = world.uid("train")
    world.gone(world.get(Claim, "train"))
    world.tick(300)
    known = world.state
    assert not known.hand_over.reservations.rows
    assert uid not in known.failing.failures and uid not in known.hand_over.hand_overs
    assert not known.demand.holders
    if "res" in known.fleet.resources:
        assert world.device("res") in ("Idle", "Marked")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", STATES)
def test_a_node_that_vanishes_takes_its_devices_and_nobody_elses(state: str, mode: str) -> None:
    world = in_state(state, mode)
    world.gone(world.get(Node, "node0"))
    for resource in list(world.state.fleet.resources):
        world.take_away(resource)
    for request in list(world.state.fleet.requests.rows.values()):
        world.gone(request)
    world.node("node1")
    world.waits("next", "node1")
    world.settle()
    assert world.state_of("next") == ("Attached" if mode != "observe" else "Pending")
    assert not [row for (node, _), row in world.state.fleet.orders.rows.items() if node == "node0"]
    assert not world.state.lifecycle.devices.rows or mode != "observe"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", STATES)
def test_all_objects_in_reverse_order(state: str, mode: str) -> None:
    """Whatever goes first, nothing is left over in the end and no rule stumbles."""
    world = in_state(state, mode)
    for node in list(world.state.fleet.nodes.rows.values()):
        world.gone(node)
    for one in list(world.state.inventory.slices.rows.values()):
        world.gone(one)
    for resource in list(world.state.fleet.resources.rows.values()):
        world.gone(resource)
    for request in list(world.state.fleet.requests.rows.values()):
        world.gone(request)
    for claim in list(world.state.demand.claims.rows.values()):
        world.gone(claim)
    for pod in list(world.state.demand.pods.rows.values()):
        world.gone(pod)
    known = world.state
    for table in (
        known.lifecycle.lives,
        known.lifecycle.devices,
        known.hand_over.reservations,
        known.fleet.orders,
        known.give_back.fences,
        known.failing.failures,
    ):
        assert not table.rows
    assert not known.inventory.pools


def test_a_node_made_anew_under_its_name_starts_clean() -> None:
    world = in_state("Attaching", "attach")
    node = world.get(Node, "node0")
    world.tick(541)
    assert world.events(e.CoolDown)
    world.gone(node)
    assert not world.state.failing.cooling.rows
    world.observe(Node("other-uid", "node0", labels=node.labels))
    world.waits("next", "node0")
    assert world.state_of("next") == "Attaching"


def test_a_request_that_somebody_deletes_is_made_again_while_a_claim_waits() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.carry_out()
    first = world.only(e.AttachOrdered)
    world.gone(world.get(AttachRequest, first.request))
    again = world.events(e.AttachOrdered)[-1]
    assert (again.request, again.previous, again.size) == (first.request, None, 1)


def test_a_promised_device_that_vanishes_is_replaced() -> None:
    world = in_state("Attached", "attach")
    assert world.reserved("train") == ["GPU-res"]
    world.take_away("res")
    world.online("res2", "node0", request="ours")
    assert world.reserved("train") == ["GPU-res2"]


def test_a_claim_allocated_before_its_pool_was_seen_is_served() -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.waits("train", "node0", *pool_results(0))
    assert world.state_of("train") == "Attaching"
    world.pool(A100, 8)
    assert world.only(e.AttachOrdered).size == 1


def test_a_claim_allocated_before_its_node_was_seen_is_served_when_it_is() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.claim("train")
    node = world.get(Node, "node0")
    world.allocate("train", "node0")
    claim = world.get(Claim, "train")

    other = World("attach", scan_interval_seconds=0)
    other.pool(A100, 8)
    other.observe(claim)
    assert not other.events(e.AttachOrdered)
    other.observe(node)
    assert other.only(e.AttachOrdered).node == "node0"


def test_slices_that_come_in_pieces_count_when_they_are_whole() -> None:
    world = in_state("Attaching", "attach")
    world.gone(world.get(Slice, "nvidia-a100-40-fabric1"))
    world.tick(5)
    world.pool(A100, 8, generation=7)
    world.online("res", "node0", request="ours")
    assert world.state_of("train") == "Attached"


@pytest.mark.parametrize("said_first", [True, False])
def test_a_device_that_went_back_is_not_taken_for_one_that_is_built_in(said_first: bool) -> None:
    """Its resource is gone, and the node's slice still shows it, as one watch may be behind the other for a while."""
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.plug("node0", "built-in", "GPU-built-in")
    world.online("res", "node0", uuid="GPU-1")
    world.holds("holder", "node0", "built-in")
    if said_first:
        world.resource("res", "node0", state="Deleting", uuid="")
    world.gone(world.get(FabricResource, "res"))
    world.waits("train", "node0", *pool_results(0))
    assert world.state_of("train") == "Attaching", "a device has to come"
    assert not world.events(e.Reserved)
    world.unplug("node0", "gpu-GPU-1")
    assert not [kind for kind, _ in world.state.notes.fired_deadlines if kind == "departed"], (
        "nothing is remembered for nothing"
    )
    world.online("new", "node0", uuid="GPU-1")
    world.settle()
    assert world.state_of("train") == "Attached"
    assert world.only(e.Reserved).promises[0].uuid == "GPU-1"


def test_a_built_in_device_is_used_as_before() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.plug("node0", "built-in", "GPU-built-in")
    world.waits("train", "node0", *pool_results(0))
    assert world.only(e.Reserved).promises[0].uuid == "GPU-built-in"


def test_a_slice_that_moves_to_another_node_takes_the_names_of_its_devices_along() -> None:
    """Its devices are the same objects: their names are indexed by node, and only the node has changed."""
    world = one_node("attach")
    world.node("node1")
    uuid = world.online("res", "node0")
    state = world.state
    (own,) = [one for one in state.inventory.slices.rows.values() if one.node == "node0"]
    assert state.names_of(world.get(FabricResource, "res")) == {(own.driver, own.pool, f"gpu-{uuid}")}
    world.update(own, node="node1")
    assert state.names_of(world.get(FabricResource, "res")) == set()
    assert state.inventory.keys_at.keys() == {("node1", uuid)}
