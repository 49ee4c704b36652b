"""B16: for each device of each model of each node of each claim, all claims were listed and copied.

Here the rows that one change reads do not grow with the fleet: they are counted, not timed.
"""

from collections.abc import Callable, Iterator
from typing import Any

from dds_core.kit.state import Table
from dds_core.model import Claim, Node
from tests.support.world import A100, World


class Counted(Table[Any, Any]):
    """A table that counts how often one of its rows is read."""

    __slots__ = ()
    reads = 0

    def __getitem__(self, key: Any) -> Any:
        Counted.reads += 1
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        Counted.reads += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            Counted.reads += 1
            yield key

    def keys(self) -> Any:
        return dict.fromkeys(list(self)).keys()

    def values(self) -> Any:
        return [super(Counted, self).__getitem__(key) for key in self]

    def items(self) -> Any:
        return [(key, super(Counted, self).__getitem__(key)) for key in self]


def reads(world: World, change: Callable[[], None]) -> int:
    for table in world.state.tables.values():
        table.__class__ = Counted
    Counted.reads = 0
    change()
    return Counted.reads


def fleet(nodes: int) -> World:
    """On each node one claim that waits and one that was handed its device, with what was decided for them."""
    world = World("attach", scan_interval_seconds=0)
    world.pool(A100, 2 * nodes + 10)
    for i in range(nodes):
        world.node(f"node{i}")
        world.waits(f"held{i}", f"node{i}")
    world.settle()
    for i in range(nodes):
        world.waits(f"waits{i}", f"node{i}")
    return world


def changes(world: World) -> dict[str, Callable[[], None]]:
    def lost() -> None:
        world.unreserve("waits1")

    def allocated() -> None:
        world.allocate("new", "node0")

    def online() -> None:
        world.online("res", "node0", request="other")

    def cordoned() -> None:
        world.update(world.get(Node, "node1"), unschedulable=True)

    def deleted() -> None:
        world.gone(world.get(Claim, "waits0"))

    world.claim("new")
    return {"allocated": allocated, "lost": lost, "online": online, "cordoned": cordoned, "deleted": deleted}


def test_b16_the_rows_read_for_one_change_do_not_grow_with_the_fleet() -> None:
    small, large = fleet(20), fleet(60)  # in both all wait for longer than five seconds
    few = {name: reads(small, change) for name, change in changes(small).items()}
    many = {name: reads(large, change) for name, change in changes(large).items()}
    assert many == few
