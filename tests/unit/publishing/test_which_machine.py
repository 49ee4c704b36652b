"""Which machine a node is: as its provider ID says, or as an inventory names the node itself."""

from dds_core import events as e
from dds_core.publishing.model import Host, Limit, Machine, by_name
from tests.support.board import A100, Board, labelled, usual


def named(board: Board, node: str = "worker", fabric: str = "0", machine: str = "i-0abc") -> Machine:
    """A node with a provider ID of its own, in an inventory by its name."""
    board.see(Host(f"h-{node}", node, machine, {f"cohdi.io/{A100.device}": "true"}))
    return Machine(by_name(node), node, fabric, {A100.model: Limit(4, 0)})


def test_a_node_that_has_a_provider_id_may_be_named_by_an_inventory() -> None:
    board = Board()
    (told,) = labelled([*board.feed(e.MachineObserved(named(board))), *board.synced()])
    assert told.node == "worker"
    assert told.labels == {
        "cohdi.io/fabric": "0",
        "cohdi.io/nvidia-a100-size-max": "4",
        "cohdi.io/nvidia-a100-size-min": "0",
    }
    board.verified()


def test_what_is_attached_to_such_a_node_is_of_its_fabric() -> None:
    board = Board()
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
    assert by_name("worker") not in board.picture.absent
    board.verified()


def test_an_entry_by_uuid_counts_before_one_by_name() -> None:
    board = Board()
    board.feed(e.MachineObserved(named(board, fabric="1")))
    board.feed(e.MachineObserved(Machine("i-0abc", "", "0")))
    board.synced()
    board.write()
    assert board.picture.fabric_of("worker") == "0"
    assert [[one.name for one in board.picture.hosts_in(fabric)] for fabric in "01"] == [["worker"], []]
    (told,) = labelled(board.feed(e.MachineGone("i-0abc")))
    assert told.labels["cohdi.io/fabric"] == "1", "what is left of the two speaks for it at once"
