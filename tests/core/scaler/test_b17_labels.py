"""B17: every node was patched at every scan, control-plane nodes and nodes outside any fabric too, and old labels stayed.

Here a label is written on change only, on nodes of a fabric only, and what is no longer configured is removed.
"""

from dds_core import events as e
from dds_core.model import Node
from tests.support.world import A100, H100, World


def test_b17_a_label_that_stands_is_not_written_again() -> None:
    world = World("attach", scan_interval_seconds=10)
    world.node("node0")
    world.tick(3600)
    assert not world.events(e.NodeLabelled)


def test_b17_a_node_outside_any_fabric_is_left_alone() -> None:
    world = World("attach", scan_interval_seconds=10)
    world.observe(Node("n", "control-plane", labels={"node-role.kubernetes.io/control-plane": ""}))
    world.tick(60)
    assert not world.events(e.NodeLabelled)


def test_b17_what_is_missing_is_written_in_one_go_and_once() -> None:
    world = World("attach", scan_interval_seconds=10)
    world.observe(
        Node("n", "node0", labels={"cohdi.io/fabric": "1", "cohdi.io/old-model": "true", "cohdi.io/note": "x"})
    )
    label = world.only(e.NodeLabelled)
    assert label.labels == {
        f"cohdi.io/{A100.device}": "true",
        f"cohdi.io/{H100.device}": "true",
        "cohdi.io/old-model": None,
    }
    world.tick(600)
    assert len(world.events(e.NodeLabelled)) == 1
    world.carry_out()
    assert world.get(Node, "node0").labels["cohdi.io/note"] == "x"
    assert not world.state.notes.labelled.rows


def test_b17_what_is_told_does_not_hang_on_the_order_of_the_labels() -> None:
    """A log keeps mappings by key, so a replay sees another order than the cluster gave."""
    told = []
    for old in (["zeta", "alpha"], ["alpha", "zeta"]):
        world = World("attach")
        world.node("node0", labels={f"cohdi.io/{name}": "true" for name in old})
        told.append(e.encode(world.only(e.NodeLabelled)))
    assert told[0] == told[1]
