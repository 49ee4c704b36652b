"""B29: all claims were alike; a pod that may preempt others waited behind them for its device.

Here the claims that wait on a node are served by their pods' priority, then by age.
"""

from dds_core.model import Pod
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import World, one_node


def waiting(*priorities: int) -> World:
    """A claim by each on one node, the first the oldest; the pool has one device, and all is seen at once."""
    world = one_node("attach", 1, scan_interval_seconds=0, synced=False)
    for number, priority in enumerate(priorities):
        world.waits(f"train{number}", "node0", *pool_results(number))
        world.update(world.get(Pod, f"train{number}"), priority=priority)
    world.feed(e.Synced())
    return world


def test_b29_a_pod_of_a_higher_priority_gets_the_device_first() -> None:
    assert waiting(0, 1000).only(e.AttachOrdered).claims == ("uid-default-train1",)


def test_b29_among_equals_the_oldest_does() -> None:
    assert waiting(5, 5).only(e.AttachOrdered).claims == ("uid-default-train0",)
