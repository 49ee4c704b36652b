"""When the fabric brings no device of a model to several of its nodes, the model cools down in the whole fabric: its publisher
is asked by node labels to close the pool, and a failure is told once the pool was seen closed, or some seconds later."""

from collections.abc import Collection
from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.model import PUBLISHER, Model, Node, Slice, Taint
from dds_core.publisher.model import COOLING as TAINT_KEY
from dds_core.publisher.model import MANAGED_BY, PoolModel
from dds_core.publisher.state import PoolState
from dds_core.scaler import events as e
from dds_core.scaler.deadlines import deadlines
from dds_core.scaler.state import dump, load
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, SECOND, World

LABEL = f"cohdi.io/{A100.device}"
COOLING = f"{LABEL}-cooling"
CLOSED = Taint("cohdi.io/cooling", effect="NoSchedule")
BUDGET = 540


def fabric(nodes: int = 3, *, mode: str = "attach", ours: bool = True, **policy: Any) -> World:
    """Nodes of one fabric, and a pool of eight A100 that our publisher lists."""
    world = World(mode, scan_interval_seconds=0, **policy)
    for i in range(nodes):
        world.node(f"node{i}")
    world.pool(A100, 8)
    if ours:
        world.update(pool_slice(world), owner=PUBLISHER)
    return world


def pool_slice(world: World, model: Model = A100, fabric: int = 1) -> Slice:
    return world.state.inventory.slices.rows[f"pool-{model.device}-fabric{fabric}"]


def close(world: World, but: Collection[int] = (), taint: Taint = CLOSED) -> None:
    """The publisher taints the devices of the pool, except those with these numbers."""
    one = pool_slice(world)
    left = {f"{A100.device}-{i}" for i in but}
    tainted = {n: d if n in left else replace(d, taints=(taint,)) for n, d in one.devices.items()}
    world.update(one, devices=tainted, generation=one.generation + 1)


def fail(world: World, node: int, model: Model = A100, words: str = "E02 no such port") -> None:
    """The fabric refuses a device for a claim on the node, and the writer does what was decided."""
    name = f"on-{node}-{model.index}"
    world.waits(name, f"node{node}", *pool_results(node, model=model))
    world.carry_out()
    request = next(o.request for o in world.events(e.AttachOrdered) if o.claims == (world.uid(name),))
    world.resource(name, f"node{node}", model, request=request, state="Attaching", error=words)
    world.tick(10)
    assert world.uid(name) in {failed.claim for failed in world.events(e.ClaimFailed)}


def labels(world: World, node: int) -> dict[str, str]:
    return world.get(Node, f"node{node}").labels


def cooling(world: World) -> list[str]:
    """The nodes by which the publisher is asked to close the pool."""
    return [node.name for node in world.state.fleet.nodes.rows.values() if COOLING in node.labels]


def told(world: World) -> list[str]:
    """The nodes on which a failure was told to the scheduler."""
    claims = world.state.failing.failures.rows
    return [claims[signalled.claim].node for signalled in world.events(e.FailureSignalled)]


# --- the rule ----------------------------------------------------------------------------------------------------------


def test_one_node_that_fails_is_the_nodes_own_fault() -> None:
    world = fabric()
    fail(world, 0)
    world.carry_out()
    assert LABEL not in labels(world, 0)
    assert not cooling(world)
    assert told(world) == ["node0"]


def test_two_nodes_of_a_fabric_that_fail_for_a_model_ask_the_publisher_to_close_its_pool() -> None:
    world = fabric()
    fail(world, 0)
    fail(world, 1)
    world.carry_out()
    assert cooling(world) == ["node0", "node1"]
    assert labels(world, 2)[LABEL] == "true"


def test_the_node_that_fails_last_gets_both_labels_in_one_decision() -> None:
    world = fabric()
    fail(world, 0)
    before = len(world.events(e.NodeLabelled))
    fail(world, 1)
    last = {label.node: label for label in world.events(e.NodeLabelled)[before:]}
    ends = {cell[0]: str(-(-row.until // SECOND)) for cell, row in world.state.failing.cooling.rows.items()}
    assert last["node1"].labels == {LABEL: None, COOLING: ends["node1"]}
    assert last["node0"].labels[COOLING] == ends["node0"], "where no scaler takes it off, it is over then"
    assert "fails on several nodes" in last["node1"].reason


def test_a_device_that_came_elsewhere_meanwhile_speaks_for_the_fabric() -> None:
    """Two fresh nodes got none, and eight healthy nodes were closed: 20 pods waited up to 405 s instead of 5."""
    world = fabric(4)
    fail(world, 0)
    world.waits("well", "node2", *pool_results(6))
    world.settle()
    assert world.state_of("well") == "Attached"
    fail(world, 1)
    world.carry_out()
    assert not cooling(world)
    assert {LABEL in labels(world, node) for node in (0, 1)} == {False}, "each cools down by itself"
    fail(world, 3)
    world.carry_out()
    assert cooling(world) == ["node1", "node3"], "two since then"


def test_of_many_nodes_a_quarter_has_to_fail() -> None:
    world = fabric(10)
    fail(world, 0)
    fail(world, 1)
    world.carry_out()
    assert not cooling(world)
    fail(world, 2)
    world.carry_out()
    assert cooling(world) == ["node0", "node1", "node2"]


@pytest.mark.parametrize(
    "words",
    [
        "no running nvidia driver pod was found on the node",
        "nvidia-smi failed: command terminated with exit code 9",
        "the kubelet plugin of node0 is not there",
    ],
)
def test_an_error_of_the_node_closes_no_pool(words: str) -> None:
    """The operator attaches first and asks the node's driver then: such words come from the node."""
    world = fabric()
    for node in range(2):
        fail(world, node, words=words)
    world.carry_out()
    assert not cooling(world) and {LABEL in labels(world, node) for node in (0, 1)} == {False}


def test_nodes_of_two_fabrics_are_not_counted_together() -> None:
    world = fabric(1)
    world.node("node1", fabric=2)
    world.pool(A100, 8, fabric=2)
    fail(world, 0)
    world.waits("other", "node1", *pool_results(1, fabric=2))
    world.tick(BUDGET + 1)
    world.carry_out()
    assert len(world.events(e.ClaimFailed)) == 2
    assert not cooling(world)


def test_two_models_are_not_counted_together() -> None:
    world = fabric()
    world.pool(H100, 8)
    fail(world, 0)
    fail(world, 1, H100)
    world.carry_out()
    assert len(world.events(e.CoolDown)) == 2
    assert not cooling(world)


def test_nodes_that_are_full_say_nothing_about_the_fabric() -> None:
    """Only a device that the fabric did not bring does: a node at its limit cools down for its own sake."""
    world = World("attach", scan_interval_seconds=0, limit={"max": 0})
    for i in range(3):
        world.node(f"node{i}")
    world.pool(A100, 8)
    for i in range(3):
        world.waits(f"train{i}", f"node{i}", *pool_results(i))
    world.carry_out()
    assert [failed.reason for failed in world.events(e.CoolDown)] == ["NodeLimit"] * 3
    assert not cooling(world)


def test_budgets_that_are_used_up_count_as_the_fabrics_fault() -> None:
    world = fabric()
    for i in range(2):
        world.waits(f"train{i}", f"node{i}", *pool_results(i))
    world.tick(BUDGET + 1)
    world.carry_out()
    assert {one.reason for one in world.events(e.CoolDown)} == {"AttachTimeout"}
    assert cooling(world) == ["node0", "node1"]


def test_in_observe_nothing_is_asked() -> None:
    world = fabric(mode="observe")
    for i in range(2):
        world.waits(f"train{i}", f"node{i}", *pool_results(i))
    world.tick(BUDGET + 200)
    assert len(world.events(e.CoolDown)) == 2
    assert not world.events(e.NodeLabelled)


def test_a_node_that_moves_to_another_fabric_counts_there() -> None:
    world = fabric()
    world.node("node3", fabric=2)
    fail(world, 0)
    fail(world, 1)
    world.carry_out()
    world.relabel("node1", {"cohdi.io/fabric": "2"})
    world.carry_out()
    assert not cooling(world)
    world.relabel("node1", {"cohdi.io/fabric": "1"})
    world.carry_out()
    assert cooling(world) == ["node0", "node1"]


def test_a_picture_from_a_checkpoint_knows_which_fabric_fails() -> None:
    world = fabric()
    fail(world, 0)
    fail(world, 1)
    again = load(dump(world.state))
    assert again.failing.fabric_of == world.state.failing.fabric_of
    assert again.failing.fabric_failed == world.state.failing.fabric_failed
    assert again.failing.fails("1", A100.model)


def test_a_fabric_that_fails_everywhere_costs_each_node_one_decision() -> None:
    """Not one for each other node that fails: only who makes the difference makes others be looked at."""
    world = fabric(40)
    for i in range(40):
        world.waits(f"train{i}", f"node{i}", *pool_results(i))
    before = len(world.steps)
    world.tick(BUDGET + 10)
    assert len(world.events(e.CoolDown)) == 40
    labelled = [one.node for one in world.events(e.NodeLabelled, since=before)]
    assert set(labelled) == {f"node{i}" for i in range(40)}
    assert len(labelled) == 40 + 9, "nine are asked when the tenth fails, a quarter of them all"


# --- the end -----------------------------------------------------------------------------------------------------------


def test_the_label_goes_when_fewer_nodes_cool_than_asked() -> None:
    world = fabric(cool_down_seconds=120)
    fail(world, 0)
    world.carry_out()
    world.tick(60)
    fail(world, 1)
    world.carry_out()
    world.tick(61)
    assert [over.node for over in world.events(e.CoolDownOver)] == ["node0"]
    last = {label.node: label for label in world.events(e.NodeLabelled)}
    assert last["node0"].labels == {LABEL: "true", COOLING: None}
    assert last["node1"].labels == {COOLING: None}
    assert "does not cool down any more" in last["node1"].reason
    world.carry_out()
    assert not cooling(world)
    assert LABEL not in labels(world, 1), "the node itself still cools down"
    world.tick(61)
    world.carry_out()
    assert labels(world, 1)[LABEL] == "true"


def test_the_label_stands_while_enough_nodes_cool() -> None:
    world = fabric(cool_down_seconds=120)
    for node in range(3):
        fail(world, node)
        world.carry_out()
        world.tick(30)
    world.tick(35)
    world.carry_out()
    assert cooling(world) == ["node1", "node2"]


def test_a_label_that_nobody_asks_for_any_more_is_removed_and_foreign_ones_are_left() -> None:
    """As by one whose log is another."""
    world = fabric(2)
    world.relabel("node0", {COOLING: "true", "cohdi.io/note-cooling": "x"})
    world.relabel("node1", {COOLING: "1700000123", "cohdi.io/gone-cooling": "1700000123"})
    world.carry_out()
    assert COOLING not in labels(world, 0)
    assert not [key for key in labels(world, 1) if key.endswith("-cooling")]
    assert labels(world, 0)["cohdi.io/note-cooling"] == "x"


def test_a_model_that_is_not_configured_any_more_takes_its_label_along() -> None:
    world = fabric()
    fail(world, 0)
    fail(world, 1)
    world.carry_out()
    world.update(world.state.settings.config, models=(H100,))
    world.carry_out()
    assert not cooling(world)


def test_a_node_that_is_gone_counts_no_more() -> None:
    world = fabric()
    fail(world, 0)
    fail(world, 1)
    world.carry_out()
    world.gone(world.get(Node, "node1"))
    world.carry_out()
    assert not cooling(world)


# --- read back ---------------------------------------------------------------------------------------------------------


def failing(**policy: Any) -> World:
    """Two nodes have failed, and the labels are written; the failure of the first was told already, when it was alone."""
    world = fabric(**policy)
    fail(world, 0)
    world.carry_out()
    fail(world, 1)
    world.carry_out()
    assert cooling(world) == ["node0", "node1"]
    return world


def test_the_failure_is_told_when_the_pool_was_seen_closed() -> None:
    world = failing()
    world.tick(5)
    assert told(world) == ["node0"]
    close(world)
    assert told(world) == ["node0", "node1"]


def test_a_device_that_a_claim_holds_need_not_be_tainted() -> None:
    world = failing()
    close(world, but=(0, 1))
    assert told(world) == ["node0", "node1"]


def test_a_device_that_could_still_be_chosen_holds_the_failure_back() -> None:
    world = failing()
    close(world, but=(7,))
    assert told(world) == ["node0"]
    close(world)
    assert told(world) == ["node0", "node1"]


@pytest.mark.parametrize("taint", [Taint("cohdi.io/cooling", effect="None"), Taint("other", effect="NoSchedule")])
def test_another_taint_does_not_close_the_pool(taint: Taint) -> None:
    world = failing()
    close(world, taint=taint)
    assert told(world) == ["node0"]


def test_a_pool_that_lists_nothing_but_what_is_held_is_closed() -> None:
    """As our publisher leaves it where the API drops taints."""
    world = failing()
    one = pool_slice(world)
    held = {f"{A100.device}-{i}" for i in range(2)}
    world.update(one, devices={n: d for n, d in one.devices.items() if n in held}, generation=2)
    assert told(world) == ["node0", "node1"]


def test_a_pool_that_is_gone_is_closed() -> None:
    world = failing()
    world.gone(pool_slice(world))
    assert told(world) == ["node0", "node1"]


def test_a_pool_that_is_not_whole_was_not_seen_closed() -> None:
    world = failing()
    world.update(pool_slice(world), slices=2)
    close(world)
    assert told(world) == ["node0"]
    world.update(pool_slice(world), slices=1)
    assert told(world) == ["node0", "node1"]


def test_the_pool_of_another_publisher_is_not_waited_for() -> None:
    world = fabric(ours=False)
    for node in range(2):
        fail(world, node)
        world.carry_out()
    assert cooling(world) == ["node0", "node1"]
    assert told(world) == ["node0", "node1"]


def test_a_closed_pool_is_no_reason_to_tell_before_the_label_was_seen_gone() -> None:
    world = fabric()
    fail(world, 0)
    world.carry_out()
    fail(world, 1)
    close(world)
    assert told(world) == ["node0"]
    world.carry_out()
    assert told(world) == ["node0", "node1"]


def test_a_publisher_that_is_away_holds_a_failure_up_for_some_seconds_only() -> None:
    world = failing()
    world.tick(14)
    assert told(world) == ["node0"]
    world.tick(1)
    assert told(world) == ["node0", "node1"]
    passed = [step.fact for step in world.steps if isinstance(step.fact, e.DeadlinePassed)]
    assert [one.of for one in passed if one.kind == "publisher"] == [world.uid("on-1-1")]


def test_while_a_view_is_stale_the_time_does_not_come() -> None:
    """The view that is old may be that of the slices: the pool may be closed long since, or not."""
    world = failing()
    world.feed(e.Stale(resource="resourceslices", age=60))
    world.tick(60)
    assert told(world) == ["node0"]
    world.feed(e.Synced())
    world.tick(1)
    assert told(world) == ["node0", "node1"]


def test_what_was_told_is_waited_for_no_more() -> None:
    world = failing()
    close(world)
    assert not [one for one in deadlines(world.state) if one.kind == "publisher"]


def test_a_fabric_that_recovers_meanwhile_lets_the_failure_go() -> None:
    world = failing()
    world.online("comes", "node2")
    assert told(world) == ["node0", "node1"]


def test_a_node_that_is_full_in_a_fabric_that_fails_does_not_wait_for_the_pool() -> None:
    world = failing()
    world.relabel("node2", {f"{LABEL}-size-max": "0"})
    world.waits("over", "node2", *pool_results(5))
    world.carry_out()
    assert told(world)[-1] == "node2"
    assert COOLING not in labels(world, 2)


# --- a closed pool has nothing free ------------------------------------------------------------------------------------


def test_devices_that_are_tainted_are_not_counted_as_free() -> None:
    world = fabric()
    close(world)
    world.waits("train", "node2", *pool_results(3))
    assert not world.events(e.AttachOrdered)
    one = pool_slice(world)
    open_again = {n: replace(d, taints=()) for n, d in one.devices.items()}
    world.update(one, devices=open_again, generation=one.generation + 1)
    assert world.only(e.AttachOrdered).size == 1


def test_a_taint_that_keeps_nobody_away_does_not_count() -> None:
    world = fabric()
    close(world, taint=Taint("example.com/note", effect="None"))
    world.waits("train", "node2", *pool_results(3))
    assert world.only(e.AttachOrdered).size == 1


def test_only_the_devices_without_a_taint_are_ordered() -> None:
    world = fabric()
    close(world, but=(0, 1))
    for i in range(3):
        world.waits(f"train{i}", "node0", *pool_results(i))
        world.carry_out()
        world.make()
    assert [order.size for order in world.events(e.AttachOrdered)] == [1, 2]
    assert world.state_of("train2") == "Pending"


def test_no_device_is_freed_elsewhere_for_a_fabric_that_fails() -> None:
    world = fabric(4, mode="detach", no_removal_seconds=3600)
    world.request("ours", "node3", labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1)
    world.online("idle", "node3", request="ours")
    fail(world, 0)
    fail(world, 1)
    close(world)
    world.waits("train", "node2", *pool_results(3))
    assert not world.events(e.VictimMarked)
    world.online("comes", "node1")
    world.relabel("node2", {"looked": "at"})
    assert world.only(e.VictimMarked).resource == "idle", "a pool that is empty for another reason"


# --- the publisher ------------------------------------------------------------------------------------------------------


def test_the_publisher_reads_what_the_scaler_writes_and_the_scaler_what_the_publisher_does() -> None:
    world = failing()
    state = PoolState()
    model = PoolModel(A100.index, A100.model, A100.device, A100.driver)
    until = world.state.failing.cooling.rows["node0", A100.model].until
    assert 0 <= state.cooling_until(labels(world, 0), model) - until < SECOND
    assert state.cooling_until(labels(world, 2), model) == 0
    assert CLOSED.key == f"{state.prefix}/{TAINT_KEY}"
    assert MANAGED_BY == PUBLISHER
