"""`dds status` of a publisher: what it lists of a picture."""

from __future__ import annotations

from dds_commands.status import pools_status
from dds_core.log import MemoryLog
from dds_core.publisher.model import PoolSlice
from tests.support.board import Board, usual


def alerts(board: Board) -> list[str]:
    head = MemoryLog("lab/publisher", cluster="uid", recorded_at=1).head()
    return [one["reason"] for one in pools_status(head, board.picture)["alerts"]]


def test_a_pool_that_somebody_deletes_is_told_of_until_it_stays() -> None:
    board = usual(2)
    told: list[str] = []
    while not told:
        board.gone(PoolSlice, board.live()[0].uid)
        while not board.unwritten:
            board.wait(1)
        told = alerts(board)
        board.write()
    assert told == ["ReadBackDiffers"]
    assert alerts(board) == [], "it is as it was written"
    board.gone(PoolSlice, board.live()[0].uid)
    assert alerts(board) == ["ReadBackDiffers"]
