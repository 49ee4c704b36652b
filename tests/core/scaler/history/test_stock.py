"""The stock of a pool agrees, instant by instant, with what the state says is free in it."""

from __future__ import annotations

import pytest

from dds_core.model import Device, Slice, Taint
from dds_core.scaler.history.stock import Stock, Stocked
from dds_core.scaler.model import is_tainted
from tests.core.scaler.history.told import LOGS, RECORDINGS, side_by_side, told

POOL = ("gpu.nvidia.com", "nvidia-a100-40-fabric1")


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_at_each_instant_it_is_what_the_state_says(name: str) -> None:
    seen = 0
    for state, history in side_by_side(told(name)):
        found = {one.pool: one.free for one in history.stock.changes}
        for key, pool in state.inventory.pools.items():
            if not pool.node and pool.usable:
                open_ = [device for device, row in pool.devices.items() if not is_tainted(row)]
                free = sum((*key, device) not in state.demand.having for device in open_)
                assert found[key] == free, history.pool_name(key)
                seen += bool(history.pool_name(key))
    assert seen or name not in RECORDINGS


def part(uid: str, *devices: str, generation: int = 1, slices: int = 1, closed: str = "") -> Slice:
    taint = (Taint("broken", "", "NoSchedule"),)
    listed = {name: Device(taints=taint if name == closed else ()) for name in devices}
    return Slice(uid, uid, *POOL, generation, slices, devices=listed)


def test_a_pool_that_is_incomplete_keeps_its_number() -> None:
    stock = Stock()
    first, second = part("s1", "a", "b", slices=2), part("s2", "c", slices=2, closed="c")
    stock.listed(None, first, 1)
    assert stock.changes == [], "a slice of two says nothing yet"
    stock.listed(None, second, 2)
    stock.held((*POOL, "a"), taken=True, at=3)
    newer = part("s1", "a", "b", "d", generation=2, slices=2)
    stock.listed(first, newer, 4)
    stock.held((*POOL, "d"), taken=True, at=5)
    stock.listed(second, part("s2", generation=2, slices=2), 6)
    stock.held((*POOL, "a"), taken=False, at=7)
    stock.listed(newer, None, 8)
    assert stock.changes == [Stocked(2, POOL, 2), Stocked(3, POOL, 1), Stocked(7, POOL, 2)]
    stock.cut(7)
    assert stock.changes == [Stocked(3, POOL, 1), Stocked(7, POOL, 2)], "what is in force then stays"


def test_a_pool_without_slices_has_nothing_and_nodes_are_no_pools() -> None:
    stock, one = Stock(), part("s1", "a")
    stock.listed(None, one, 1)
    stock.listed(one, None, 2)
    stock.listed(None, Slice("n", "n", "gpu.nvidia.com", "node0", node="node0", devices={"gpu-0": Device()}), 3)
    assert [change.free for change in stock.changes] == [1, 0]
