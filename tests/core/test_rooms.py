"""The rooms of the components' states, and the order in which a load fills the scaler's tables."""

from typing import Any

import pytest

from dds_core.autoscaler.state import Fleet
from dds_core.kit.state import Table, rooms_of
from dds_core.publisher.state import PoolState
from dds_core.scaler.state import ORDER, State

MOST = 20
"""Attributes of one object that a reader can still hold in mind."""


@pytest.mark.parametrize("kind", [State, PoolState, Fleet])
def test_no_room_has_too_many_attributes(kind: type[Any]) -> None:
    state = kind()
    sizes = {room: len(vars(getattr(state, room) if room else state)) for room in rooms_of(kind)}
    assert {room: size for room, size in sizes.items() if size > MOST} == {}


def test_each_table_is_in_one_room_and_a_load_fills_it() -> None:
    state = State()
    parts: list[Any] = [getattr(state, room) if room else state for room in rooms_of(State)]
    found = [name for part in parts for name, value in vars(part).items() if isinstance(value, Table)]
    assert sorted(found) == sorted(ORDER) == sorted(state.tables)
