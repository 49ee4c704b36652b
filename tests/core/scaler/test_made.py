"""The operator makes the resources of both sizes if a request's size changes after it has named them and before it has
made them. So an order waits until what was ordered before is made; and what was made beyond the size is kept, by a size that has
room for it."""

from __future__ import annotations

from typing import Any

import pytest

from dds_core.events import DeadlinePassed
from dds_core.model import AttachRequest
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, World, one_node

OURS = {"app.kubernetes.io/managed-by": "dds"}


def sizes(world: World) -> list[int]:
    return [order.size for order in world.events(e.AttachOrdered)]


# -- one after the other -------------------------------------------------------------------------------------------------


def two(**policy: Any) -> World:
    """Two claims come to node0 within a moment; nothing is carried out yet."""
    world = one_node("attach", 8, scan_interval_seconds=0, **policy)
    for name in ("one", "two"):
        world.waits(name, "node0")
    return world


def test_an_order_waits_until_the_one_before_is_written_and_made() -> None:
    world = two()
    assert sizes(world) == [1]
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    assert world.get(AttachRequest, request).size == 1
    assert (world.state_of("one"), world.state_of("two")) == ("Attaching", "Pending")
    world.update(world.get(AttachRequest, request), state="NodeAllocating")
    assert sizes(world) == [1], "it has named the resource, and makes it now"
    world.make()
    second = world.events(e.AttachOrdered)[-1]
    assert (second.previous, second.size, second.claims) == (1, 2, (world.uid("two"),))
    assert world.state_of("two") == "Attaching"
    assert world.verified().differences == []


def test_claims_that_are_granted_together_are_one_order() -> None:
    world = one_node("attach", 8, synced=False, scan_interval_seconds=0)
    for name in ("one", "two"):
        world.waits(name, "node0")
    world.sync()
    order = world.only(e.AttachOrdered)
    assert (order.size, order.claims) == (2, (world.uid("one"), world.uid("two")))


def test_those_that_come_while_the_operator_makes_one_are_granted_together() -> None:
    world = two()
    world.waits("three", "node0")
    world.carry_out()
    world.waits("four", "node0")
    world.make()
    assert [(order.size, len(order.claims)) for order in world.events(e.AttachOrdered)] == [(1, 1), (4, 3)]


def test_all_resources_of_a_wide_order_are_made_before_the_next() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.claim("wide", 3)
    world.allocate("wide", "node0")
    world.waits("late", "node0")
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    for number in range(3):
        assert sizes(world) == [3]
        world.resource(f"res{number}", "node0", request=request, state="Attaching")
    assert sizes(world) == [3, 4]


@pytest.mark.parametrize("leaving", [{"deleting": True, "state": "Deleting"}, {"detach_only": True}])
def test_one_that_leaves_is_none_of_them(leaving: dict[str, Any]) -> None:
    world = two()
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("going", "node0", request=request, **{"state": "Online", **leaving})
    assert sizes(world) == [1]
    world.make()
    world.gone(world.state.fleet.resources.rows["going"])
    assert world.state.fleet.resources_of_request[request] == set()
    world.make()
    assert sizes(world) == [1, 2]


@pytest.mark.parametrize(
    "fields",
    [{"error": "the node is not found"}, {"state": "Running", "acted_size": 1}],
    ids=["it says why it makes none", "it says that it is done"],
)
def test_nobody_waits_for_what_is_not_being_made(fields: dict[str, Any]) -> None:
    world = two()
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.update(world.get(AttachRequest, request), **fields)
    assert sizes(world) == [1, 2]


@pytest.mark.parametrize("fields", [{"state": "Running", "acted_size": 0}, {"state": "Updating", "acted_size": 1}])
def test_what_it_says_of_another_size_or_in_between_ends_nothing(fields: dict[str, Any]) -> None:
    world = two()
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.update(world.get(AttachRequest, request), **fields)
    assert sizes(world) == [1]


def test_another_node_and_another_model_wait_for_nothing() -> None:
    world = two()
    world.node("node1")
    world.pool(H100, 4)
    world.waits("there", "node1")
    world.waits("other", "node0", (H100, 1))
    orders = [(order.node, order.model, order.size) for order in world.events(e.AttachOrdered)]
    assert orders == [("node0", A100.model, 1), ("node1", A100.model, 1), ("node0", H100.model, 1)]


def test_an_older_claim_that_waits_for_it_is_not_overtaken_by_a_smaller_one() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.waits("first", "node0", *pool_results(0))
    world.claim("wide", 3)
    world.allocate("wide", "node0", *pool_results(1, 2, 3))
    world.waits("small", "node0", *pool_results(3))
    world.carry_out()
    world.make()
    assert world.events(e.AttachOrdered)[-1].claims == (world.uid("wide"),)
    assert world.state_of("small") == "Pending"


def test_a_claim_that_has_no_room_on_the_node_is_told_at_once() -> None:
    world = two(limit={"max": 1})
    assert (world.only(e.ClaimFailed).claim, world.only(e.ClaimFailed).reason) == (world.uid("two"), "NodeLimit")


def test_a_refused_order_keeps_nobody_waiting_longer_than_itself() -> None:
    world = two()
    request = world.only(e.AttachOrdered).request
    world.feed(e.WriteRefused(decision="", action="AttachOrdered", target=request, code=500, reason="InternalError"))
    world.tick(31)
    again = world.events(e.AttachOrdered)[-1]
    assert (again.size, set(again.claims)) == (2, {world.uid("one"), world.uid("two")})


def test_after_a_restart_what_was_not_written_is_ordered_with_what_waited_for_it() -> None:
    world = two()
    world.feed(e.Started(code="new", fingerprint="", projection=1, epoch=2, mode="attach"))
    world.sync()
    assert sizes(world) == [1, 2]


def test_nor_is_anything_ordered_ahead_of_demand_meanwhile() -> None:
    world = one_node("attach", 8, prewarm=True, limit={"min": 2}, scan_interval_seconds=0)
    world.tick(61)
    world.carry_out()
    world.tick(120)
    assert sizes(world) == [1]
    world.make()
    world.tick(61)
    assert sizes(world) == [1, 2]


# -- more than was ordered -----------------------------------------------------------------------------------------------


def made_more(mode: str = "detach", *, size: int = 1, count: int = 2, **policy: Any) -> World:
    """The request of ours has more devices than its size, the first in use; the operator has yet to say that it is done."""
    world = one_node(mode, 8, **{"no_removal_seconds": 3600, "scan_interval_seconds": 0, **policy})
    world.request("ours", "node0", size=size, state="NodeAllocating", labels=OURS)
    for number in range(count):
        world.online(f"res{number}", "node0", request="ours")
    world.holds("busy", "node0", "gpu-GPU-res0")
    return world


def done(world: World, *keeps: str, **fields: Any) -> World:
    """The operator is done with the request, and keeps these resources of it: else all that do not leave."""
    request = world.get(AttachRequest, "ours")
    staying = (one for one in world.state.fleet.resources.rows.values() if one.request == "ours" and not one.leaving)
    planned = keeps or tuple(one.name for one in staying)
    world.update(request, **{"state": "Running", "acted_size": request.size, "planned": planned, **fields})
    return world


def test_a_size_is_raised_to_what_was_made_for_it() -> None:
    """At the next change of the size the operator took off the surplus: a device in use."""
    world = made_more()
    assert not world.events(e.AttachOrdered)
    done(world)
    order = world.only(e.AttachOrdered)
    assert (order.size, order.previous, order.reason, order.claims) == (2, 1, e.SURPLUS, ())
    assert (order.request, order.uid) == ("ours", "request-ours")
    world.carry_out()
    assert world.get(AttachRequest, "ours").size == 2 and not world.state.fleet.orders.rows
    done(world)
    world.tick(600)
    assert len(world.events(e.AttachOrdered)) == 1
    assert world.verified().differences == []


def test_then_one_that_idles_goes_back_as_any_other_and_it_alone() -> None:
    world = done(made_more(no_removal_seconds=60))
    for _ in range(6):
        world.settle()
        world.tick(30)
    lowered = world.only(e.DetachOrdered)
    assert (lowered.previous, lowered.size, lowered.victims) == (2, 1, ("res1",))
    assert world.device("res0") == "Used"


def test_it_is_raised_beyond_the_nodes_maximum_too() -> None:
    world = done(made_more(limit={"max": 1}))
    assert world.only(e.AttachOrdered).size == 2
    assert world.verified().differences == []


def test_by_as_many_as_there_are() -> None:
    assert done(made_more(size=2, count=5)).only(e.AttachOrdered).size == 5


def test_in_attach_too_where_nothing_is_taken_off() -> None:
    assert done(made_more("attach")).only(e.AttachOrdered).size == 2


def test_in_observe_it_is_decided_once() -> None:
    world = done(made_more("observe"))
    world.tick(600)
    assert (world.only(e.AttachOrdered).mode, world.only(e.AttachOrdered).size) == ("observe", 2)


def test_resources_without_a_device_are_counted() -> None:
    world = made_more(count=1)
    world.resource("res1", "node0", request="ours", state="Attaching")
    done(world)
    assert world.only(e.AttachOrdered).size == 2


@pytest.mark.parametrize(
    "fields",
    [{"acted_size": 0}, {"acted_size": 2}, {"acted_size": None}, {"state": "Updating"}, {"deleting": True}],
    ids=lambda fields: next(iter(fields.items())),
)
def test_not_before_the_operator_says_that_it_is_done(fields: dict[str, Any]) -> None:
    world = done(made_more(), **fields)
    assert not world.events(e.AttachOrdered)


@pytest.mark.parametrize("leaving", [{"deleting": True, "state": "Detaching"}, {"detach_only": True}])
def test_one_that_leaves_is_no_surplus(leaving: dict[str, Any]) -> None:
    world = made_more()
    world.resource("res1", "node0", **leaving)
    assert not done(world).events(e.AttachOrdered)


def test_that_of_somebody_else_is_left_alone() -> None:
    world = one_node("detach", 8, adoption="none", scan_interval_seconds=0)
    world.request("theirs", "node0", state="Running", acted_size=1)
    for number in range(2):
        world.online(f"res{number}", "node0", request="theirs")
    world.tick(60)
    assert not world.events(e.AttachOrdered)


def lowered() -> World:
    """The size was lowered for the idle one of two devices, and written; the operator has not acted on it yet."""
    world = one_node("detach", 8, no_removal_seconds=60, scan_interval_seconds=0)
    world.request("ours", "node0", size=2, state="Running", acted_size=2, labels=OURS)
    for number in range(2):
        world.online(f"res{number}", "node0", request="ours")
    world.holds("busy", "node0", "gpu-GPU-res0")
    for _ in range(20):
        world.tick(5)
        world.carry_out()
    assert world.only(e.DetachOrdered).victims == ("res1",)
    assert world.get(AttachRequest, "ours").size == 1
    return world


def test_a_victim_that_is_not_seen_to_leave_yet_is_no_surplus() -> None:
    """The news of the resource may come later than that of the request."""
    world = done(lowered(), "res0")
    world.tick(60)
    assert not world.events(e.AttachOrdered)
    world.take_away("res1")
    assert not world.events(e.AttachOrdered)


def left_out() -> World:
    """A claim waits for the victim, but the operator has gone on without it before it has taken up the larger size."""
    world = lowered()
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).size == 2
    world.update(world.get(AttachRequest, "ours"), state="Updating", acted_size=1, planned=("res0",))
    world.carry_out()
    assert world.get(AttachRequest, "ours").size == 2
    world.update(world.get(AttachRequest, "ours"), state="NodeAllocating", acted_size=2, planned=None)
    return world


def test_a_victim_that_the_operator_has_left_out_is_not_kept_by_a_larger_size() -> None:
    """Seed 91608: its delete was sent, the news of it came after that of the request, and it left under the claim that got it."""
    world = left_out()
    world.update(world.get(AttachRequest, "ours"), state="Running")
    world.tick(20)
    assert not world.events(e.VictimUnmarked) and not world.reserved("train")
    world.take_away("res1")
    world.online("res2", "node0", request="ours")
    assert world.reserved("train") == ["GPU-res2"]


def test_one_that_leaves_slowly_is_looked_at_once_more_and_not_for_ever() -> None:
    """Fleet 2: its deadline passed again and again at the same instant."""
    world = left_out()
    world.resource("res1", "node0", state="Detaching", deleting=True)
    steps = len(world.steps)
    world.tick(120)
    assert sum(isinstance(one.fact, DeadlinePassed) and one.fact.kind == "stuck" for one in world.steps[steps:]) == 1


def test_one_that_the_operator_keeps_after_all_is_given_once_no_news_has_come_for_long() -> None:
    world = left_out()
    world.update(world.get(AttachRequest, "ours"), state="Running")
    world.tick(31)
    world.carry_out()
    assert world.only(e.VictimUnmarked).resource == "res1"
    world.tick(5)
    assert world.reserved("train") == ["GPU-res1"]


def test_nor_after_a_restart() -> None:
    world = done(lowered(), "res0")
    world.feed(e.Started(code="new", fingerprint="", projection=1, epoch=2, mode="detach"))
    world.sync()
    world.tick(60)
    assert not world.events(e.AttachOrdered)


def test_nor_is_one_that_somebody_else_has_lowered_the_size_for() -> None:
    """What the operator says of the request may be seen before its resource is seen to go."""
    world = one_node("detach", 8, no_removal_seconds=3600, scan_interval_seconds=0)
    world.request("ours", "node0", size=2, state="Running", acted_size=2, generate_name="composability-")
    for number in range(2):
        world.online(f"res{number}", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), size=1)
    done(world, "res0")
    assert not world.events(e.AttachOrdered)


def test_a_third_one_beside_a_victim_is() -> None:
    world = lowered()
    world.online("more", "node0", request="ours")
    done(world, "res0", "more")
    assert world.only(e.AttachOrdered).size == 2


def test_a_claim_that_waits_is_served_by_the_surplus_and_orders_nothing() -> None:
    world = made_more("attach")
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-res1"]
    done(world)
    world.settle()
    assert [order.reason for order in world.events(e.AttachOrdered)] == [e.SURPLUS]


def test_one_that_waits_for_more_is_served_after_it() -> None:
    world = made_more("attach")
    world.holds("second", "node0", "gpu-GPU-res1")
    done(world)
    world.waits("train", "node0")
    world.settle()
    assert [(order.size, order.reason) for order in world.events(e.AttachOrdered)] == [(2, e.SURPLUS), (3, "demand")]
    assert world.state_of("train") == "Attached"
