"""The rooms of the components' states, and the order of the scaler's tables in a checkpoint."""

from typing import Any

import pytest

from dds_core.autoscaler.state import Fleet
from dds_core.kit.state import Table, rooms_of
from dds_core.publisher.state import PoolState
from dds_core.scaler.state import ORDER, State, dump
from tests.support.world import one_node

MOST = 20
"""Attributes of one object that a reader can still hold in mind."""


@pytest.mark.parametrize("kind", [State, PoolState, Fleet])
def test_no_room_has_too_many_attributes(kind: type[Any]) -> None:
    state = kind()
    sizes = {room: len(vars(getattr(state, room) if room else state)) for room in rooms_of(kind)}
    assert {room: size for room, size in sizes.items() if size > MOST} == {}


def test_each_table_is_in_one_room_and_has_one_place_in_a_checkpoint() -> None:
    state = State()
    parts: list[Any] = [getattr(state, room) if room else state for room in rooms_of(State)]
    found = [name for part in parts for name, value in vars(part).items() if isinstance(value, Table)]
    assert sorted(found) == sorted(ORDER) == sorted(state.tables)


def test_a_checkpoint_has_the_tables_in_that_order() -> None:
    """The bytes of every checkpoint hang on it."""
    world = one_node("detach")
    world.waits("train", "node0")
    world.settle()
    rows = [name for name in dump(world.state) if name in ORDER and name not in ("rejections", "last_emitted")]
    assert rows == [name for name in ORDER if name in rows]
    assert len(rows) > 10
