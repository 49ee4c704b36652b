"""B23: a claim failed for the node's limit, and the scheduler chose the same node again at once, for ever.

Here the pool label goes and is read back before the failure is told; while the node is full it stays away. A node that fails
again soon after it cooled down does so for twice as long.
"""

from dds_core.model import Node
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, SECOND, World, one_node


def full_node() -> World:
    world = World("attach", cool_down_seconds=120, scan_interval_seconds=0)
    world.node("node0", labels={"cohdi.io/nvidia-a100-40-size-max": "1"})
    world.pool(A100, 4)
    for name in ("fits", "over"):
        world.waits(name, "node0")
    return world


def test_b23_the_failure_is_told_only_after_the_label_was_seen_gone() -> None:
    world = full_node()
    failed = world.only(e.ClaimFailed)
    assert (failed.claim, failed.reason) == (world.uid("over"), "NodeLimit")
    assert not world.events(e.FailureSignalled)
    world.carry_out(e.AttachOrdered)
    assert not world.events(e.FailureSignalled)
    world.relabel("node0", {"cohdi.io/nvidia-a100-40": None})
    assert world.only(e.FailureSignalled).claim == world.uid("over")


def test_b23_the_label_stays_away_while_the_node_is_full_even_after_the_cool_down() -> None:
    world = full_node()
    world.settle()
    world.tick(3600)
    assert [list(x.labels.values()) for x in world.events(e.NodeLabelled)] == [[None]]


def test_b23_the_label_comes_back_with_room() -> None:
    world = full_node()
    world.settle()
    world.tick(121)
    world.relabel("node0", {"cohdi.io/nvidia-a100-40-size-max": "2"})
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-a100-40": "true"}


def test_b23_the_cool_down_ends_as_soon_as_there_is_room() -> None:
    world = full_node()
    world.settle()
    world.tick(10)
    assert not world.events(e.CoolDownOver)
    world.relabel("node0", {"cohdi.io/nvidia-a100-40-size-max": "2"})
    assert world.only(e.CoolDownOver).node == "node0"
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-a100-40": "true"}


def test_b23_a_claim_that_no_node_can_serve_keeps_nobody_out() -> None:
    """On 14 equal nodes others waited 182 s (p95) for one such claim, whose failures closed node after node, longer each time."""
    world = World("attach", cool_down_seconds=120, scan_interval_seconds=0)
    for i in range(2):
        world.node(f"node{i}", labels={"cohdi.io/nvidia-a100-40-size-max": "2"})
    world.pool(A100, 8)
    world.claim("wide", 3)
    world.allocate("wide", "node0")
    assert world.only(e.ClaimFailed).reason == "NodeLimit" and not world.events(e.CoolDown)
    assert world.only(e.FailureSignalled).claim == world.uid("wide")
    world.waits("other", "node0", *pool_results(5))
    assert world.only(e.AttachOrdered).claims == (world.uid("other"),)


def test_b23_a_label_that_nobody_removes_leaves_the_failure_untold() -> None:
    world = full_node()
    world.tick(3600)
    assert not world.events(e.FailureSignalled)


def test_b23_the_model_that_did_not_come_cools_down_and_not_the_one_that_did() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.pool(H100, 4)
    world.claim("train", 2)
    world.allocate("train", "node0", (A100, 1), (H100, 1))
    world.carry_out(e.AttachOrdered)
    request = next(r.name for r in world.state.fleet.requests.rows.values() if r.model == A100.model)
    world.online("res", "node0", request=request)
    world.tick(600)
    assert world.only(e.ClaimFailed).model == H100.model
    assert world.only(e.CoolDown).model == H100.model


def turned_away(cool_down_seconds: int = 120) -> World:
    """A claim was allocated on a node that may have no device."""
    world = World("attach", cool_down_seconds=cool_down_seconds, scan_interval_seconds=0)
    for i in range(2):
        world.node(f"node{i}", labels={"cohdi.io/nvidia-a100-40-size-max": "0"})
    world.pool(A100, 4)
    world.waits("over", "node0")
    return world


def comes_back(world: World, after: float, node: str = "node0") -> tuple[int, int]:
    """The claim is allocated on a node so many seconds after the last cool-down was over: how often in a row that fails, and
    for how many seconds the node cools down."""
    world.tick((world.events(e.CoolDown)[-1].until - world.now) / SECOND + after)
    world.clear("over")
    known = len(world.events(e.CoolDown))
    world.allocate("over", node)
    (cool_down,) = world.events(e.CoolDown)[known:]
    assert cool_down.node == node
    return cool_down.times, round((cool_down.until - world.now) / SECOND)


def test_b23_who_comes_back_finds_the_node_closed_for_twice_as_long_up_to_ten_minutes() -> None:
    world = turned_away()
    assert [comes_back(world, after=20) for _ in range(4)] == [(2, 240), (3, 480), (4, 600), (5, 600)]
    assert len(world.events(e.CoolDownOver)) == 4, "a longer one ends too"


def test_b23_a_node_that_was_open_for_ten_minutes_begins_anew() -> None:
    world = turned_away()
    assert comes_back(world, after=590) == (2, 240)
    assert comes_back(world, after=600) == (1, 120)


def test_b23_each_node_and_each_reason_counts_by_itself() -> None:
    world = turned_away()
    assert comes_back(world, after=1) == (2, 240)
    assert comes_back(world, after=1, node="node1") == (1, 120)
    world.update(world.get(Node, "node0"), unschedulable=True)
    assert comes_back(world, after=1) == (1, 120)
    assert [one.reason for one in world.events(e.CoolDown)] == ["NodeLimit"] * 3 + ["NodeUnschedulable"]


def test_b23_a_cool_down_that_is_longer_by_policy_stays_as_it_is() -> None:
    assert comes_back(turned_away(cool_down_seconds=3600), after=1) == (2, 3600)


def test_b23_a_node_that_is_gone_is_forgotten() -> None:
    world = turned_away()
    world.gone(world.get(Node, "node0"))
    assert not list(world.state.failing.cooled)
