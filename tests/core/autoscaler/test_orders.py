"""Servers that are ordered and given back: none twice, none lost, and the target is true from the return of a call on."""

from __future__ import annotations

import pytest

from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import Server
from dds_core.events import Decision
from tests.core.autoscaler.yard import Yard


@pytest.fixture
def yard() -> Yard:
    found = Yard()
    found.refresh()
    return found


def done(yard: Yard, decision: Decision, target: str) -> None:
    yard.feed(e.WriteDone(decision="x", action=type(decision).__name__, target=target))


def refused(yard: Yard, decision: Decision, target: str, code: int, reason: str) -> None:
    yard.feed(e.WriteRefused("x", type(decision).__name__, target, code=code, reason=reason, text="as it says"))


# -- growth


def test_each_server_is_ordered_once_under_a_name_of_its_own_and_counts_at_once(yard: Yard) -> None:
    assert yard.grow(2) == ""
    assert len({one.order for one in yard.events(e.ServerOrdered)}) == 2
    assert yard.group.target == 4
    assert [one.id for one in yard.coming] == [f"dds://order/{yard.order()}", f"dds://order/{yard.order(2)}"]
    assert yard.grow() == "refused: big takes no 1 more than 4: its maximum is 4"
    yard.sound()


def test_it_is_known_by_its_provider_id_and_served_when_its_node_is_there(yard: Yard) -> None:
    yard.grow()
    yard.see(Server("s", "big", yard.order(), "id-new", "creating"))
    assert [one.id for one in yard.coming] == ["id-new"]
    yard.on("new", yard.order())
    yard.gone(Server, "s")
    yard.refresh()
    assert "new" in yard.members and not yard.coming and yard.group.target == 3
    yard.tick(2000)
    assert not yard.events(e.OrderFailed)
    yard.sound()


@pytest.mark.parametrize(
    ("group", "delta", "said"), [("none", 1, "unknown: there is no group none"), ("big", 0, "bad: ")]
)
def test_what_makes_no_sense_is_refused(yard: Yard, group: str, delta: int, said: str) -> None:
    assert yard.grow(delta, group).startswith(said)
    assert not yard.events(e.ServerOrdered)


# -- failures


def test_an_order_whose_node_does_not_come_is_told_and_given_up_when_asked_for(yard: Yard) -> None:
    yard.grow()
    yard.tick(901)
    (failed,) = yard.events(e.OrderFailed)
    assert (failed.code, failed.text) == ("ComposeTimeout", "its node is not there after 900 s")
    (instance,) = yard.coming
    assert (instance.code, yard.group.target) == ("ComposeTimeout", 3)
    assert yard.remove(instance.id) == "" and yard.group.target == 2
    (returned,) = yard.events(e.ServerReturned)
    assert yard.remove(instance.id) == "" and len(yard.events(e.ServerReturned)) == 1, "a repeated call"
    done(yard, returned, yard.order())
    assert not yard.state.orders.rows
    yard.sound()


def test_a_server_that_fails_says_why(yard: Yard) -> None:
    yard.grow()
    yard.see(
        Server("s", "big", yard.order(), state="failed", code="NoPower", message="rack 7 is off", out_of_resources=True)
    )
    (instance,) = yard.coming
    assert (instance.code, instance.message, instance.out_of_resources) == ("NoPower", "rack 7 is off", True)
    assert yard.remove(instance.id) == ""
    assert yard.events(e.ServerReturned)[0].server == "s"
    yard.gone(Server, "s")
    assert not yard.state.orders.rows and not yard.state.leaving.rows
    yard.sound()


def test_a_provider_that_has_none_to_give_is_told_as_out_of_resources(yard: Yard) -> None:
    yard.grow()
    refused(yard, yard.events(e.ServerOrdered)[0], yard.order(), 507, "NoSpareServer")
    (instance,) = yard.coming
    assert (instance.code, instance.out_of_resources) == ("NoSpareServer", True)
    yard.tick(2000)
    assert not yard.events(e.OrderFailed), "it has failed already"
    yard.sound()


def test_an_order_that_somebody_took_away_times_out_like_any_other(yard: Yard) -> None:
    yard.grow()
    yard.see(Server("s", "big", yard.order(), "id-s", "creating"))
    yard.gone(Server, "s")
    yard.tick(901)
    assert yard.events(e.OrderFailed)[0].code == "ComposeTimeout"
    yard.sound()


# -- less


def test_the_newest_of_those_that_did_not_come_are_given_up_first(yard: Yard) -> None:
    yard.grow(2)
    assert yard.shrink(3).startswith("refused: 2 servers of big are still to come")
    assert yard.shrink() == "" and yard.group.target == 3
    assert [one.order for one in yard.events(e.ServerReturned)] == [yard.order(2)]
    yard.sound()


def test_a_server_that_comes_after_its_order_was_given_up_goes_again(yard: Yard) -> None:
    yard.grow()
    yard.shrink()
    yard.see(Server("server-late", "big", yard.order(), "id-late", "creating"))
    assert [one.server for one in yard.events(e.ServerReturned)] == ["", "server-late"]
    yard.on("late", yard.order())
    yard.refresh()
    assert "late" not in yard.members and yard.group.target == 2
    yard.off("late")
    assert yard.events(e.NodeRemoved)[0].node == "late"
    yard.sound()


# -- removal


def test_a_drained_node_goes_with_its_server_and_then_its_node(yard: Yard) -> None:
    yard.condemn("node0")
    assert yard.remove("node0") == ""
    (returned,) = yard.events(e.ServerReturned)
    assert (returned.server, returned.node) == ("server-node0", "node0") and yard.group.target == 1
    assert {one.id: one.state for one in yard.group.instances} == {"id-node0": "deleting", "id-node1": "running"}
    assert yard.remove("node0") == "" and len(yard.events(e.ServerReturned)) == 1, "a repeated call"
    assert not yard.events(e.NodeRemoved)
    yard.off("node0")
    assert yard.events(e.NodeRemoved)[0].node == "node0"
    yard.gone(type(yard.state.cluster.workers.rows["node0"]), "node0")
    assert not yard.state.leaving.rows and yard.remove("node0").startswith("unknown"), "it is over"
    yard.refresh()
    assert yard.members == ["node1"] and yard.group.target == 1
    yard.sound()


@pytest.mark.parametrize("late", ["claim", "device", "pod"])
def test_what_came_since_the_refresh_keeps_the_node(yard: Yard, late: str) -> None:
    """The last line of defence: Cluster Autoscaler acts on a view that is seconds old."""
    yard.condemn("node0", "node1")
    match late:
        case "claim":
            yard.claim("late", "node0")
        case "device":
            yard.device("node0", state="Attaching")
        case _:
            yard.pod("late", claim=True, nominated="node0", waiting="")
    assert yard.remove("node1", "node0").startswith("refused: node0 may not be removed: ")
    assert not yard.events(e.ServerReturned) and yard.group.target == 2, "all or none"
    assert yard.remove("node1") == ""
    yard.sound()


def test_a_node_of_another_group_or_of_none_is_unknown(yard: Yard) -> None:
    assert yard.remove("elsewhere") == "unknown: elsewhere is no node of big"
    assert yard.remove("node0", group="none") == "unknown: there is no group none"


def test_a_target_is_never_raised_for_a_node_that_was_just_removed(yard: Yard) -> None:
    yard.remove("node0")
    yard.refresh()
    assert yard.group.target == 1 and yard.members == ["node0", "node1"]
    yard.sound()


# -- restarts


def test_after_a_restart_what_was_under_way_is_written_again_and_nothing_else(yard: Yard) -> None:
    yard.grow(2)
    yard.see(Server("s", "big", yard.order(2), state="creating"))
    yard.remove("node0")
    again = yard.restart()
    assert [(type(one).__name__, one.subject, one.reissued) for one in again] == [
        ("ServerOrdered", f"order/{yard.order()}", True),
        ("ServerReturned", "order/server-node0", True),
    ]
    assert yard.group.target == 3
    yard.grow()
    assert yard.events(e.ServerOrdered)[-1].order not in (yard.order(), yard.order(2)), "no name is used twice"
    yard.sound()


def test_the_node_of_a_server_that_went_while_nobody_looked_is_deleted_after_the_restart(yard: Yard) -> None:
    yard.remove("node0")
    yard.off("node0")
    (first,) = yard.events(e.NodeRemoved)
    again = [one for one in yard.restart() if isinstance(one, e.NodeRemoved)]
    assert [one.node for one in again] == [first.node]


@pytest.mark.parametrize("came", [True, False])
def test_a_server_that_its_provider_does_not_take_back_is_given_back_later(yard: Yard, came: bool) -> None:
    yard.grow()
    if came:
        yard.see(Server("s", "big", yard.order(), "id-s", "creating"))
    yard.remove("s" if came else f"dds://order/{yard.order()}")
    refused(yard, yard.events(e.ServerReturned)[0], yard.order(), 500, "Broken")
    yard.tick(29)
    assert len(yard.events(e.ServerReturned)) == 1
    yard.tick(2)
    assert [one.server for one in yard.events(e.ServerReturned)] == ["s" if came else ""] * 2
    done(yard, yard.events(e.ServerReturned)[-1], yard.order())
    yard.gone(Server, "s")
    assert not yard.state.orders.rows and not yard.state.leaving.rows
    yard.sound()


def test_a_refused_deletion_of_a_node_is_tried_again(yard: Yard) -> None:
    yard.remove("node0")
    yard.off("node0")
    refused(yard, yard.events(e.NodeRemoved)[0], "node0", 403, "Forbidden")
    assert len(yard.events(e.NodeRemoved)) == 1
    yard.tick(31)
    assert len(yard.events(e.NodeRemoved)) == 2


def test_a_group_does_not_fall_below_its_minimum() -> None:
    yard = Yard(2, group={"minimum": 2})
    yard.refresh()
    assert yard.remove("node0") == "refused: big would have 1 servers, less than its minimum of 2"
    yard.grow()
    assert yard.remove("node0") == "", "one more is coming"
    assert yard.remove(f"dds://order/{yard.order()}") == "", "what did not come is given up all the same"
    yard.sound()
