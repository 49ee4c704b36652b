"""B2: every object ever seen re-queued a scan of the whole cluster for ever, deleted objects too.

Here one deadline covers the fleet, and what is deleted leaves no deadline and no row behind.
"""

from dds_core import events as e
from dds_core.kit.state import Table
from dds_core.model import AttachRequest
from dds_core.scaler.deadlines import deadlines
from tests.support.world import one_node


def scans_in_ten_minutes(claims: int) -> int:
    world = one_node("attach", 50, no_removal_seconds=3600)
    for i in range(claims):
        world.claim(f"train{i}")
    for i in range(claims):
        world.allocate(f"train{i}", "node0")
    world.settle()
    for i in range(claims):
        world.bind(f"train{i}")
    before = len(world.steps)
    world.tick(600)
    return sum(isinstance(step.fact, e.DeadlinePassed) for step in world.steps[before:])


def test_b02_the_number_of_scans_does_not_grow_with_the_claims() -> None:
    assert scans_in_ten_minutes(40) == scans_in_ten_minutes(2) == 10


def test_b02_what_is_deleted_leaves_no_deadline_and_no_row() -> None:
    world = one_node("detach", 8, scan_interval_seconds=0)
    kept = {name: len(table) for name, table in vars(world.state).items() if isinstance(table, Table)}
    for i in range(8):
        world.waits(f"train{i}", "node0")
    world.settle()
    for i in range(8):
        world.bind(f"train{i}")
        world.finish(f"train{i}")
    for name in list(world.state.resources):
        world.take_away(name)
    for request in list(world.state.requests.rows.values()):
        world.gone(world.get(AttachRequest, request.name))
    left = {name: len(table) for name, table in vars(world.state).items() if isinstance(table, Table)}
    for name in ("slices", "counters", "rates", "spending"):
        del kept[name], left[name]
    assert left == kept
    assert deadlines(world.state) == set()
