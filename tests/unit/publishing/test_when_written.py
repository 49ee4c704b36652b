"""What makes a pool or a label be written, and at which generation: cases in which nothing else would notice a slip."""

from msgspec.structs import replace

from dds_core import events as e
from dds_core.publishing.describe import selector
from dds_core.publishing.model import FreeDevice, Host, Limit, Machine, PoolConfig, PoolSlice
from tests.support.board import A100, A100_0, H100, Board, labelled, published, usual, withdrawn


def test_another_label_prefix_selects_nodes_by_it() -> None:
    board = usual(2)
    (one,) = published(board.see(PoolConfig("config", prefix="example.com", models=(A100,))))
    assert one.prefix == "example.com"
    board.write()
    assert [one.selector for one in board.live()] == [selector("example.com", "nvidia-a100", "0")]
    board.verified()


def test_a_pool_that_shrinks_by_a_slice_leaves_none_behind() -> None:
    board = usual(130)
    board.stock(2)
    assert board.write() == 2
    assert [(one.generation, one.slices, len(one.devices)) for one in board.live()] == [(2, 1, 2)]


def test_a_generation_is_never_given_twice() -> None:
    """Who saw slices of it would take those of the next for the same pool."""
    board = usual(128)
    (first,) = published(board.stock(129))
    (second,) = published(board.stock(128))
    assert (first.generation, second.generation) == (2, 3), "the first may be half written"
    board.write()
    for one in board.live():
        board.gone(PoolSlice, one.uid)
    assert [one.generation for one in published(board.decided[-1:])] == [4]


def test_a_pool_whose_write_is_under_way_is_taken_back() -> None:
    board = Board(models=(A100, H100))
    board.nodes("0", "n1")
    board.stock(2)
    assert published(board.synced())
    assert [one.pool for one in withdrawn(board.see(PoolConfig("config", models=(H100,))))] == [A100_0[1]]
    board.write()
    assert board.live() == []


def test_what_is_to_go_is_told_once_while_it_is_under_way() -> None:
    board = usual(2, models=(A100, H100))
    assert len(withdrawn(board.see(PoolConfig("config", models=(H100,))))) == 1
    (one,) = board.live()
    assert board.see(replace(one, generation=9)) == []
    assert board.feed(e.MachineGone("m-n2")) == []
    board.write()
    assert board.live() == [] and A100_0 not in board.picture.pools


def test_a_device_that_is_not_healthy_takes_nobodys_place() -> None:
    board = usual(0)
    board.stock(1, devices=(FreeDevice("a", healthy=False), FreeDevice("b")))
    board.write()
    assert board.names() == ["nvidia-a100-b"]


def test_what_is_there_as_it_would_be_is_not_shown_in_mode_observe() -> None:
    there = usual(2).live()
    board = Board(mode="observe")
    board.nodes("0", "n1")
    board.see(*there)
    board.stock(2)
    assert published(board.synced()) == []
    assert published(board.stock(3))


def test_no_label_is_decided_on_an_old_view() -> None:
    board = usual(2)
    board.feed(e.Stale("nodes", 60))
    assert labelled(board.feed(e.MachineObserved(Machine("m-n1", "n1", "1")))) == []
    assert [one.node for one in labelled(board.feed(e.Synced()))] == ["n1"]


def test_limits_are_labels_only_where_the_policy_wants_them() -> None:
    limits = Machine("m-n1", "n1", "0", {"NVIDIA A100": Limit(4, 1)})
    assert labelled(usual(2).feed(e.MachineObserved(limits)))
    assert labelled(usual(2, policy={"label_limits": False}).feed(e.MachineObserved(limits))) == []


def test_a_node_without_a_machine_gets_no_label() -> None:
    board = usual(2)
    assert labelled(board.see(Host("h-x", "x", "", {}))) == []
