"""observe, attach, detach: what is folded, what is shown, and who may raise or lower the mode."""

import pytest

from dds_core.model import Config
from dds_core.scaler import events as e
from tests.support.world import A100, World, one_node


def busy(mode: str, kill_switch: str = "") -> World:
    """A claim that waits and a device that idles."""
    world = World(mode, kill_switch=kill_switch, no_removal_seconds=60, scan_interval_seconds=30)
    world.node("node0")
    world.node("node1")
    world.pool(A100, 8)
    world.request(
        "ours", "node1", size=1, labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1
    )
    world.online("res", "node1", request="ours")
    world.waits("train", "node0")
    world.tick(200)
    return world


def test_observe_folds_nothing_and_shows_each_decision_once() -> None:
    world = busy("observe")
    world.tick(3000)
    assert len(world.events(e.AttachOrdered)) == 1
    assert len(world.events(e.VictimMarked)) == 1
    assert len(world.events(e.ClaimFailed)) == 1
    assert {d.mode for d in world.decisions()} == {"observe"}
    state = world.state
    for table in (
        state.fleet.orders,
        state.hand_over.reservations,
        state.give_back.fences,
        state.failing.cooling,
        state.failing.failures,
        state.give_back.marks,
    ):
        assert not table.rows
    assert world.state_of("train") == "Pending"


def test_observe_shows_a_decision_again_when_it_has_changed() -> None:
    world = busy("observe")
    world.waits("second", "node0")
    assert [o.size for o in world.events(e.AttachOrdered)] == [1, 2]


def test_observe_follows_what_others_do() -> None:
    world = busy("observe")
    world.request("theirs", "node0")
    world.online("theirs-0", "node0", request="theirs")
    assert world.state_of("train") == "Attached"


def test_attach_does_everything_but_detach() -> None:
    world = busy("attach")
    assert len(world.events(e.AttachOrdered)) == 1
    assert not world.decisions(e.VictimMarked, e.DetachOrdered)


def test_detach_does_everything() -> None:
    world = busy("detach")
    assert len(world.events(e.AttachOrdered)) == 1
    assert world.only(e.VictimMarked).resource == "res"


@pytest.mark.parametrize(
    ("policy", "switch", "mode"),
    [
        ("detach", "", "detach"),
        ("detach", "attach", "attach"),
        ("detach", "observe", "observe"),
        ("attach", "detach", "attach"),
        ("observe", "detach", "observe"),
    ],
)
def test_the_kill_switch_can_only_lower(policy: str, switch: str, mode: str) -> None:
    world = busy(policy, switch)
    assert world.state.mode == mode
    assert {d.mode for d in world.decisions()} == {mode}


def test_lifting_the_kill_switch_decides_at_once() -> None:
    world = busy("attach", "observe")
    assert not world.state.fleet.orders.rows
    world.update(world.get(Config, ""), mode="")
    assert world.events(e.AttachOrdered)[-1].mode == "attach"
    assert world.state_of("train") == "Attaching"


def test_nothing_is_decided_before_everything_was_listed() -> None:
    world = one_node("detach", 8, synced=False)
    world.waits("train", "node0")
    world.tick(3600)
    assert not world.events(e.Event)
    world.feed(e.Synced())
    assert world.only(e.AttachOrdered).claims == (world.uid("train"),)


def test_a_level_pass_decides_nothing_new_where_nothing_changed() -> None:
    world = busy("attach")
    before = len(world.decisions())
    world.tick(300)
    assert len(world.decisions()) == before
    assert sum(isinstance(s.fact, e.DeadlinePassed) and s.fact.kind == "level" for s in world.steps) > 10
