"""Which machine a node is: as its provider ID says, or as an inventory names the node itself."""

import pytest
from msgspec.structs import replace

from dds_core.publisher import events as e
from dds_core.publisher.model import Host, Limit, Machine, by_name
from tests.support.publisher_world import A100, A100_0, PublisherWorld, labelled, usual, withdrawn


def named(board: PublisherWorld, node: str = "worker", fabric: str = "0", machine: str = "i-0abc") -> Machine:
    """A node with a provider ID of its own, in an inventory by its name."""
    board.see(Host(f"h-{node}", node, machine, {f"cohdi.io/{A100.device}": "true"}))
    return Machine(by_name(node), node, fabric, {A100.model: Limit(4, 0)})


def test_a_node_that_has_a_provider_id_may_be_named_by_an_inventory() -> None:
    board = PublisherWorld()
    (told,) = labelled([*board.feed(e.MachineObserved(named(board))), *board.synced()])
    assert told.node == "worker"
    assert told.labels == {
        "cohdi.io/fabric": "0",
        "cohdi.io/nvidia-a100-size-max": "4",
        "cohdi.io/nvidia-a100-size-min": "0",
    }
    board.verified()


def test_what_is_attached_to_such_a_node_is_of_its_fabric() -> None:
    board = PublisherWorld()
    board.feed(e.MachineObserved(named(board)))
    board.synced()
    board.stock(4, whole=True)
    board.resource("x", "worker", "Online", "GPU-1")
    board.stock(4, whole=True)
    board.write()
    assert len(board.names()) == 3


def test_its_labels_go_with_its_entry() -> None:
    board = usual(2)
    board.feed(e.MachineObserved(named(board)))
    board.write()
    assert labelled(board.feed(e.MachineGone(by_name("worker")))) == [], "not before it has been away for a while"
    (told,) = labelled(board.wait(61))
    assert (told.node, told.labels["cohdi.io/fabric"]) == ("worker", None)
    board.gone(Host, "h-worker")
    assert by_name("worker") not in board.state.fabric.absent
    board.verified()


def test_an_entry_by_uuid_counts_before_one_by_name() -> None:
    board = PublisherWorld()
    board.feed(e.MachineObserved(named(board, fabric="1")))
    board.feed(e.MachineObserved(Machine("i-0abc", "", "0")))
    board.synced()
    board.write()
    assert board.state.fabric_of("worker") == "0"
    assert [[one.name for one in board.state.hosts_in(fabric)] for fabric in "01"] == [["worker"], []]
    (told,) = labelled(board.feed(e.MachineGone("i-0abc")))
    assert told.labels["cohdi.io/fabric"] == "1", "what is left of the two speaks for it at once"


def test_a_node_of_two_entries_keeps_its_labels_until_both_are_away_for_a_while() -> None:
    board = PublisherWorld()
    board.nodes("0", "other")
    board.feed(e.MachineObserved(named(board)))
    board.feed(e.MachineObserved(Machine("i-0abc", "", "0")))
    board.synced()
    board.write()
    board.feed(e.MachineGone("i-0abc"))
    board.wait(50)
    board.feed(e.MachineGone(by_name("worker")))
    assert labelled(board.wait(20)) == [], "the second has been away for 20 s"
    assert [one.node for one in labelled(board.wait(41))] == ["worker"]


def test_a_node_that_was_made_anew_loses_the_labels_of_a_machine_that_is_away() -> None:
    board = usual(2)
    board.feed(e.MachineGone("m-n1"))
    host = board.state.host("n1")
    assert host is not None
    board.see(replace(host, uid="h-anew"))
    board.gone(Host, host.uid)
    assert [one.node for one in labelled(board.wait(61))] == ["n1"]
    board.verified()


def test_a_node_that_is_another_machine_does_not_cool_the_pool_of_its_old_fabric() -> None:
    board = usual(2)
    board.nodes("1", "m1")
    host = board.state.host("n1")
    assert host is not None
    board.see(replace(host, labels={**host.labels, f"cohdi.io/{A100.device}-cooling": "true"}))
    board.write()
    assert board.state.pools.rows[A100_0].taint
    board.see(replace(board.state.cluster.hosts.rows[host.uid], machine="m-m1"))
    assert not board.state.pools.rows[A100_0].taint


@pytest.mark.parametrize("mode", ["publish", "observe"])
def test_a_node_that_is_gone_before_it_was_labelled_is_labelled_when_it_is_back(mode: str) -> None:
    board = usual(2, mode=mode)
    board.feed(e.MachineObserved(Machine("m-late", "late", "0")))
    late = Host("h-late", "late", "m-late")
    assert len(labelled(board.see(late))) == 1
    board.gone(Host, late.uid)
    assert len(labelled(board.see(replace(late, uid="h-anew")))) == 1


def test_a_machine_that_moves_takes_the_cool_down_with_it_and_leaves_its_fabrics_pool_for_a_while() -> None:
    board = usual(2)
    board.nodes("1", "m1")
    board.stock(1, "1")
    host = board.state.host("m1")
    assert host is not None
    board.see(replace(host, labels={**host.labels, f"cohdi.io/{A100.device}-cooling": "true"}))
    board.write()
    board.wait(100)
    left = (A100_0[0], "nvidia-a100-fabric1")
    decided = board.feed(e.MachineObserved(Machine("m-m1", "m1", "0")))
    assert withdrawn(decided) == [] and board.state.pools.rows[A100_0].taint
    assert [one.pool for one in withdrawn(board.wait(61))] == [left[1]]
    board.feed(e.MachineObserved(Machine("m-m1", "m1", "1")))
    assert not board.state.pools.rows[A100_0].taint


def test_a_label_that_somebody_takes_off_comes_back_at_once() -> None:
    board = usual(2)
    board.feed(e.MachineObserved(Machine("m-late", "late", "0")))
    board.see(Host("h-late", "late", "m-late"))
    board.write()
    assert board.state.cluster.hosts.rows["h-late"].labels == {"cohdi.io/fabric": "0"}
    assert [one.node for one in labelled(board.see(Host("h-late", "late", "m-late")))] == ["late"]
