"""Slices that others made: whatever the policy lets us take over, nothing else is changed or deleted."""

import pytest

from dds_core import events as e
from dds_core.publisher.describe import selector
from dds_core.publisher.model import PoolConfig
from tests.support.board import DRIVER, pool_slice, usual, withdrawn

ADOPT = {"adopt": "reference"}


@pytest.mark.parametrize(
    ("driver", "pool"),
    [
        ("rdma.example.com", "rdma-net"),
        (DRIVER, "vendor-pool"),
        (DRIVER, "nvidia-h100-fabric0"),
        ("x.example", "a-fabric0"),
    ],
)
def test_who_adopts_the_references_slices_leaves_those_of_all_others(driver: str, pool: str) -> None:
    """Hardly any driver marks its slices: that one has no mark does not make it the reference's."""
    board = usual(2, policy=ADOPT)
    assert board.see(pool_slice("theirs", pool, ("nic-0",), driver=driver, owner="", ordinary=("nic-0",))) == []
    assert board.wait(3600) == []
    board.restart()
    assert withdrawn(board.decided) == []
    board.verified()


def test_what_the_reference_left_of_a_model_that_is_not_configured_any_more_goes() -> None:
    board = usual(2, policy=ADOPT)
    left = pool_slice(
        "left", "nvidia-h100-fabric0", ("nvidia-h100-0",), owner="", selector=selector("cohdi.io", "nvidia-h100", "0")
    )
    (one,) = withdrawn(board.see(left))
    assert (one.pool, one.drop) == ("nvidia-h100-fabric0", {"left": "uid-left"})


def test_nothing_unmarked_goes_without_leave_to_adopt() -> None:
    board = usual(2)
    chosen = selector("cohdi.io", "nvidia-h100", "0")
    assert board.see(pool_slice("left", "nvidia-h100-fabric0", owner="", selector=chosen)) == []


def test_leave_to_adopt_that_comes_and_goes_while_it_runs() -> None:
    board = usual(2)
    board.see(pool_slice("theirs", "vendor-pool", ("nic-0",), owner="", ordinary=("nic-0",)))
    board.see(pool_slice("net", "rdma", ("nic-0",), owner="", driver="rdma.example.com"))
    board.feed(e.PolicyChanged(policy={"mode": "publish", **ADOPT}))
    board.see(PoolConfig("config", models=()))
    board.write()
    assert {one.pool for one in withdrawn(board.decided)} == {"nvidia-a100-fabric0"}, "only our own went with its model"
