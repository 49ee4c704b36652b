"""B22: more devices were asked for than exist, and nobody freed a device that idled on another node.

Here orders stop at the published free count; in mode detach the device of the model that idled longest elsewhere is freed.
"""

from typing import Any

from msgspec.structs import replace

from dds_core.model import Slice
from dds_core.scaler import events as e
from tests.core.scaler.pools import four_nodes_wait, pool_results
from tests.support.world import A100, World, one_node


def test_b22_orders_stop_at_the_published_free_count() -> None:
    world = one_node("attach", 2, scan_interval_seconds=0)
    for i in range(3):
        world.waits(f"train{i}", "node0", *pool_results(i))
        world.carry_out()
        world.make()
    assert [order.size for order in world.events(e.AttachOrdered)] == [1, 2]
    assert [world.state_of(f"train{i}") for i in range(3)] == ["Attaching", "Attaching", "Pending"]
    world.pool(A100, 3, generation=2)
    assert world.events(e.AttachOrdered)[-1].size == 3


def test_b22_the_last_device_is_not_asked_for_again_while_it_comes() -> None:
    """The pool shows it for a while after the operator has begun to attach it."""
    world = one_node("attach", 1, scan_interval_seconds=0)
    for i in range(2):
        world.waits(f"train{i}", "node0", *pool_results(i))
        world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("res", "node0", request=request)
    world.resource("res", "node0", state="Attaching")
    world.tick(1)
    world.pool(A100, 0, generation=2)
    assert len(world.events(e.AttachOrdered)) == 1
    world.resource("res", "node0", uuid="GPU-1")
    assert len(world.events(e.AttachOrdered)) == 1
    world.pool(A100, 1, generation=3)
    assert world.events(e.AttachOrdered)[-1].size == 2


def test_b22_a_claim_that_had_to_wait_for_an_attach_is_served_when_it_ends() -> None:
    """When the pool shows one more after all, the claim waits no longer than the attach before it."""
    world = one_node("attach", 1, scan_interval_seconds=0)
    for i in range(2):
        world.waits(f"train{i}", "node0", *pool_results(i))
        world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("res", "node0", request=request, state="Attaching")
    world.pool(A100, 1, generation=2)
    assert len(world.events(e.AttachOrdered)) == 1
    world.resource("res", "node0", uuid="GPU-1")
    assert [order.size for order in world.events(e.AttachOrdered)] == [1, 2]


def test_b22_what_is_ordered_on_another_node_of_the_fabric_is_spoken_for() -> None:
    """As after a restart, when all that waits is decided at once."""
    world = World("attach", scan_interval_seconds=0)
    for name, fabric in (("node0", 1), ("node1", 1), ("node2", 2)):
        world.node(name, fabric=fabric)
    world.pool(A100, 1)
    world.pool(A100, 1, fabric=2)
    for i in range(2):
        world.waits(f"train{i}", f"node{i}", *pool_results(i))
    assert [order.node for order in world.events(e.AttachOrdered)] == ["node0"]
    world.waits("other", "node2", *pool_results(0, fabric=2))
    assert [order.node for order in world.events(e.AttachOrdered)] == ["node0", "node2"]


def test_b22_what_is_asked_for_on_another_node_is_spoken_for_until_it_is_there() -> None:
    """The pool goes on showing it for a while after its request was written."""
    world = four_nodes_wait(1)
    world.carry_out()
    assert [order.node for order in world.events(e.AttachOrdered)] == ["n0"]
    request = world.only(e.AttachOrdered).request
    world.resource("res", "n0", request=request, state="Attaching")
    assert len(world.events(e.AttachOrdered)) == 1
    world.resource("res", "n0", uuid="GPU-res")
    assert [order.node for order in world.events(e.AttachOrdered)] == ["n0", "n1"]


def test_b22_more_in_a_second_pool_is_had_at_once() -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    first = world.get(Slice, world.pool(A100, 1))
    second = replace(first, uid="second", name="second", pool=f"{first.pool}-b", devices={})
    world.observe(second)
    for number in range(2):
        world.waits(f"train{number}", "node0", *pool_results(number))
    world.carry_out()
    world.make()
    assert world.only(e.AttachOrdered).size == 1
    world.update(second, devices=first.devices, generation=2)
    assert world.events(e.AttachOrdered)[-1].size == 2


def test_b22_a_claim_is_ordered_whole_or_not_at_all() -> None:
    world = one_node("attach", 2, scan_interval_seconds=0)
    world.claim("wide", 3)
    world.allocate("wide", "node0", *pool_results(0, 1, 2))
    assert not world.events(e.AttachOrdered)
    world.waits("small", "node0", *pool_results(3))
    assert not world.events(e.AttachOrdered), "the older claim is not starved by a smaller one"


def idles(world: World, number: int) -> None:
    """A device `res<number>` of a request that dds may resize idles on that node."""
    request = f"composability-{number}"
    world.request(request, f"node{number}", generate_name="composability-", state="Running", acted_size=1)
    world.online(f"res{number}", f"node{number}", request=request)


def three_nodes_and_an_empty_pool(mode: str, slices: int = 1, **policy: Any) -> World:
    world = World(mode, no_removal_seconds=3600, scan_interval_seconds=0, **policy)
    for i in range(3):
        world.node(f"node{i}")
    world.pool(A100, 0, slices=slices)
    for i in (2, 1):
        idles(world, i)
        world.tick(60)
    world.waits("train", "node0", *pool_results(0))
    return world


def test_b22_the_longest_idle_device_elsewhere_is_freed() -> None:
    world = three_nodes_and_an_empty_pool("detach")
    victim = world.only(e.VictimMarked)
    assert victim.resource == "res2"
    assert "node0" in victim.reason
    world.tick(300)
    world.relabel("node0", {"looked": "at"})
    assert len(world.events(e.VictimMarked)) == 1, "one claim, one device"
    world.tick(31)
    world.settle()
    assert world.only(e.DetachOrdered).request == "composability-2"
    world.pool(A100, 1, generation=2)
    world.settle()
    assert world.state_of("train") == "Attached"


def test_b22_nothing_is_freed_in_another_fabric() -> None:
    """A detached device goes to the pool of its own fabric (the manager plugs it into no other), which node0 does not reach."""
    world = World("detach", no_removal_seconds=3600, scan_interval_seconds=0)
    for node, fabric in (("node0", 1), ("node1", 2), ("node2", 2), ("node3", 1), ("node4", 2)):
        world.node(node, fabric=fabric)
    for fabric in (1, 2):
        world.pool(A100, 0, fabric=fabric)
    for i in (1, 2):
        idles(world, i)
        world.tick(60)
    world.waits("train", "node0", *pool_results(0))
    assert not world.events(e.VictimMarked)
    world.waits("beside", "node4", *pool_results(0, fabric=2))
    assert world.only(e.VictimMarked).resource == "res1"
    idles(world, 3)
    world.relabel("node0", {"looked": "at"})
    marked = [one.resource for one in world.events(e.VictimMarked)]
    assert marked == ["res1", "res3"], "what goes elsewhere is no reason against it"


def test_b22_not_in_mode_attach_and_not_against_the_policy() -> None:
    assert not three_nodes_and_an_empty_pool("attach").events(e.VictimMarked)
    assert not three_nodes_and_an_empty_pool("detach", rebalance=False).events(e.VictimMarked)


def test_b22_nothing_is_freed_while_the_pool_is_not_known_whole() -> None:
    world = three_nodes_and_an_empty_pool("detach", slices=2)
    assert not world.events(e.VictimMarked), "the slice that is still to come may list a free one"
    world.pool(A100, 0, generation=2)
    world.only(e.VictimMarked)


def test_b22_the_minimum_of_the_other_nodes_stays() -> None:
    world = three_nodes_and_an_empty_pool("detach", limit={"min": 1})
    assert not world.events(e.VictimMarked)


def test_b22_observe_shows_it_once() -> None:
    world = three_nodes_and_an_empty_pool("observe")
    world.tick(300)
    assert [v.resource for v in world.events(e.VictimMarked)] == ["res2"]


def test_b22_two_nodes_do_not_take_each_others_devices_in_turn() -> None:
    """A device in a node's pool that is not whole just now is on its way to the claim that waits there."""
    world = World("detach", no_removal_seconds=3600, scan_interval_seconds=0)
    for node in ("node0", "node1"):
        world.node(node)
        world.request(
            f"ours-{node}", node, labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1
        )
        world.online(f"res-{node}", node, request=f"ours-{node}")
        world.update(world.state.inventory.slices.rows[f"local-{node}-{A100.driver}"], slices=2)
    world.pool(A100, 0)
    for i, node in enumerate(("node0", "node1", "node0", "node1")):
        world.waits(f"train{i}", node, *pool_results(i))
    assert not world.events(e.VictimMarked)
    assert not world.events(e.Alerted)
