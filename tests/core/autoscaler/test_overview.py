"""What a report says of servers."""

from __future__ import annotations

from dds_core.autoscaler.overview import overview
from dds_core.autoscaler.records import Server
from dds_core.replay.logged import of_steps
from tests.core.autoscaler.yard import Yard


def test_servers_and_closed_groups_in_sentences() -> None:
    yard = Yard(1)
    assert overview(of_steps(yard.steps)) == []
    yard.pool(1)
    yard.pod("one", claim=True)
    yard.refresh()
    yard.tick(60)
    yard.claim("one", "node0")
    yard.pod("one", claim=True, node="node0", waiting="")
    yard.pod("two", cpu=15_900)
    yard.refresh()
    began = yard.now
    yard.grow(2)
    yard.grow(9)
    yard.see(Server("s", "big", yard.order(), state="failed", code="NoPower", message="rack 7 is off"))
    yard.shrink(1)
    lines = overview(of_steps(yard.steps))
    assert lines[0] == "Servers: 2 ordered, 1 of them failed (1 NoPower), 1 given back."
    assert lines[1].startswith("Group big was closed for 1 min") and "a device would do" in lines[1]
    assert lines[2].startswith("Cluster Autoscaler was refused 1 times; most often (1): big takes no 9 more")
    assert len(overview(of_steps(yard.steps), began)) == 2, "the group was open by then"
