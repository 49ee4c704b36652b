"""A ConfigMap with entries that cannot be read, and a log that does not know what they said before: no pool goes for it."""

from __future__ import annotations

from dds_core.events import NodeLabelled
from dds_core.publisher.events import PoolPublished
from dds_core.publisher.model import PoolConfig
from tests.support.board import A100, A100_0, H100, Board, pool_slice, withdrawn

THERE = ("nvidia-a100-0", "nvidia-a100-1")


def without_a_log(*, unread: bool) -> Board:
    """A publisher that begins on an empty log beside pools that were published before it; of two models it can read one."""
    board = Board(models=(H100,))
    board.nodes("0", "n1")
    board.see(PoolConfig("config", models=(H100,), unread=unread))
    board.see(pool_slice("ours", devices=THERE))
    board.synced()
    return board


def test_a_pool_of_a_model_that_nobody_can_read_stays_until_it_can_be_read() -> None:
    board = without_a_log(unread=True)
    board.stock(2)
    board.wait(1000)
    assert withdrawn(board.decided) == [] and not any(isinstance(one, NodeLabelled) for one in board.decided)
    assert not any(isinstance(one, PoolPublished) and one.pool == A100_0[1] for one in board.decided)
    board.see(PoolConfig("config", models=(A100, H100)))
    board.stock(3)
    board.write()
    assert board.names() == [*THERE, "nvidia-a100-2"], "and goes on as it was"
    board.verified()


def test_models_beside_it_are_published() -> None:
    board = without_a_log(unread=True)
    board.stock(1, model=H100)
    board.write()
    assert board.names((A100_0[0], "nvidia-h100-fabric0")) == ["nvidia-h100-0"]


def test_once_all_can_be_read_what_is_no_models_goes() -> None:
    board = without_a_log(unread=True)
    (one,) = withdrawn(board.see(PoolConfig("config", models=(H100,))))
    assert one.pool == A100_0[1]
    assert withdrawn(without_a_log(unread=False).decided)
