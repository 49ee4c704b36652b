"""B10: another pod may take the device that was attached for a claim; the claim then asked the fabric for one more.

Here the theft is a transfer of demand: the thief's own order is now for the claim that lost its device.
"""

from dds_core.scaler import events as e
from tests.support.world import A100, World, one_node


def test_b10_a_theft_orders_nothing_more() -> None:
    world = one_node("attach", 4, synced=False, scan_interval_seconds=0)
    for name in ("early", "late"):
        world.waits(name, "node0")
    world.sync()
    world.carry_out()
    request = world.events(e.AttachOrdered)[0].request
    world.online("res0", "node0", request=request)
    world.resource("res1", "node0", request=request, state="Attaching")
    assert world.reserved("early") == ["GPU-res0"]
    world.carry_out()
    for name in ("early", "late"):
        world.unreserve(name)
        world.clear(name)
    world.allocate_local("late", "node0", "gpu-GPU-res0")
    world.bind("late")
    orders = len(world.events(e.AttachOrdered))
    world.allocate("early", "node0")
    assert world.state_of("early") == "Attaching", "the device that was coming for the thief is for it"
    assert len(world.events(e.AttachOrdered)) == orders
    world.online("res1", "node0")
    assert world.reserved("early") == ["GPU-res1"]


def test_b10_the_older_claim_is_served_first_after_a_theft() -> None:
    world = one_node("attach", 4, synced=False, scan_interval_seconds=0)
    for name in ("early", "late"):
        world.claim(name)
    world.allocate("late", "node0")
    world.allocate("early", "node0")
    world.sync()
    world.carry_out()
    world.online("res0", "node0", request=world.events(e.AttachOrdered)[0].request)
    assert world.reserved("early") == ["GPU-res0"]
    assert world.reserved("late") == []


def test_b10_where_a_hand_over_landed_is_counted() -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    for name in ("stays", "strays"):
        world.waits(name, "node0")
        world.settle()
        world.clear(name)
    device = world.state.hand_over.reservations.rows[world.uid("stays")].promises[0].device
    world.allocate_local("stays", "node0", device)
    world.allocate("strays", "node1")
    landed = {m.claim: m.landed for m in world.events(e.ClaimMoved) if m.landed}
    assert landed == {world.uid("stays"): "here", world.uid("strays"): "elsewhere"}
    assert (
        world.state.lifecycle.counters.get("landed/here"),
        world.state.lifecycle.counters.get("landed/elsewhere"),
    ) == (1, 1)
    assert world.moves("strays")[-2] == ("allocated_pool", "Attached", "Pending")
