"""B2: every object ever seen re-queued a scan of the whole cluster for ever, deleted objects too.

Here one deadline covers the fleet, and what is deleted leaves no deadline and no row behind.
"""

from dds_core import events as e
from dds_core.model import AttachRequest, Node
from dds_core.scaler.deadlines import deadlines
from tests.support.world import World, one_node


def scans_in_ten_minutes(claims: int) -> int:
    world = one_node("attach", 14, exchange=True, no_removal_seconds=3600)
    for i in range(claims):
        world.claim(f"train{i}")
    for i in range(claims):
        world.allocate(f"train{i}", "node0")
    world.settle()
    for i in range(claims):
        world.bind(f"train{i}")
    world.tick(120)  # until the guards have ended
    before = len(world.steps)
    world.tick(600)
    return sum(isinstance(step.fact, e.DeadlinePassed) for step in world.steps[before:])


def test_b02_the_number_of_scans_does_not_grow_with_the_claims() -> None:
    assert scans_in_ten_minutes(12) == scans_in_ten_minutes(2) == 10


def test_b02_what_is_deleted_leaves_no_deadline_and_no_row() -> None:
    world = one_node("detach", 8, scan_interval_seconds=0)
    kept = _rows(world)
    for i in range(8):
        world.waits(f"train{i}", "node0")
    world.settle()
    for i in range(8):
        world.bind(f"train{i}")
        world.finish(f"train{i}")
    for name in list(world.state.fleet.resources):
        world.take_away(name)
    for request in list(world.state.fleet.requests.rows.values()):
        world.gone(world.get(AttachRequest, request.name))
    assert _rows(world) == {**kept, "listings": 1, "fired_deadlines": kept["fired_deadlines"] + 1}, "of the node"
    assert deadlines(world.state) == set()
    world.gone(world.get(Node, "node0"))
    assert _rows(world) == {**kept, "nodes": 0}
    assert deadlines(world.state) == set()


def _rows(world: World) -> dict[str, int]:
    """How many rows each table has, but for counts of what was and what is measured of a fabric."""
    told = ("slices", "counters", "rates", "spending", "paces")
    tables = {name: len(table) for name, table in world.state.tables.items()}
    return {name: rows for name, rows in tables.items() if name not in told}
