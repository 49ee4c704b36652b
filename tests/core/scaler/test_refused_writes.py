"""A write that was refused for good: its intent is void, it is decided again only after a growing pause, and all else goes on."""

from typing import Any

import pytest

from dds_core.model import AttachRequest, Node
from dds_core.replay import of_steps
from dds_core.scaler import deciding
from dds_core.scaler import events as e
from dds_core.scaler.blame import PAUSE
from dds_core.scaler.history import History
from dds_core.scaler.state import Work
from dds_core.scaler.waiting import waiting_rows
from tests.support.world import A100, World, one_node


def ordered(**policy: Any) -> World:
    world = one_node("attach", 8, scan_interval_seconds=0, **policy)
    world.waits("train", "node0")
    return world


def marked() -> World:
    """A device has idled for as long as it may, and is to be marked."""
    world = World("detach", no_removal_seconds=60, scan_interval_seconds=0)
    world.node("node0")
    world.request("ours", "node0", labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1)
    world.online("res", "node0", request="ours")
    world.tick(61)
    return world


def order_the_detach(world: World) -> None:
    world.carry_out()
    world.tick(31)
    world.carry_out(e.ClaimsListWanted)
    assert len(world.events(e.DetachOrdered)) == 1


def decided_after(world: World, pause: int, kind: type[e.Decision]) -> None:
    """It is decided once more when the pause is over, and not before."""
    before = len(world.events(kind))
    world.tick(pause - 1)
    assert len(world.events(kind)) == before
    world.tick(1)
    assert len(world.events(kind)) == before + 1


def refused(world: World, action: str, target: str, code: int = 403) -> None:
    world.feed(e.WriteRefused("id", action, target, code, "Forbidden", "no permission"))


def test_an_order_that_was_refused_is_decided_again_after_a_pause_that_doubles() -> None:
    world = ordered(scheduler={"binding_timeout_seconds": 86_400})
    request = world.only(e.AttachOrdered).request
    for pause in (30, 60, 120, 240, 480, 600, 600):
        refused(world, "AttachOrdered", request)
        decided_after(world, pause, e.AttachOrdered)


def test_a_refused_order_does_not_stop_others() -> None:
    world = ordered()
    refused(world, "AttachOrdered", world.only(e.AttachOrdered).request)
    world.node("node1")
    world.waits("other", "node1")
    assert world.events(e.AttachOrdered)[-1].node == "node1"


def test_a_write_that_went_through_ends_the_pause() -> None:
    world = ordered()
    request = world.only(e.AttachOrdered).request
    refused(world, "AttachOrdered", request)
    world.feed(e.WriteDone("id", "AttachOrdered", request))
    assert not world.state.notes.refusals.rows
    refused(world, "AttachOrdered", request)
    assert world.state.notes.refusals.rows["AttachOrdered", request].count == 1


def test_a_refused_hand_over_is_tried_again() -> None:
    world = ordered()
    world.carry_out()
    world.operate()
    assert len(world.events(e.HandOver)) == 1
    refused(world, "HandOver", world.uid("train"), 422)
    assert world.uid("train") not in world.state.hand_over.hand_overs
    assert len(world.events(e.HandOver)) == 1
    world.tick(31)
    assert len(world.events(e.HandOver)) == 2


def test_a_refused_label_is_tried_again_and_the_failure_waits_for_it() -> None:
    world = ordered()
    world.tick(541)
    refused(world, "NodeLabelled", "node0")
    assert not world.events(e.FailureSignalled)
    world.tick(31)
    assert [x.labels for x in world.events(e.NodeLabelled)] == [{"cohdi.io/nvidia-a100-40": None}] * 2
    world.carry_out(e.NodeLabelled)
    assert world.only(e.FailureSignalled).claim == world.uid("train")


def test_a_refused_failure_is_tried_again() -> None:
    world = ordered()
    world.tick(541)
    world.relabel("node0", {"cohdi.io/nvidia-a100-40": None})
    assert len(world.events(e.FailureSignalled)) == 1
    refused(world, "FailureSignalled", world.uid("train"))
    (row,) = waiting_rows(world.state)
    assert (
        row.stage == PAUSE
        and "the API server refused to let dds tell the scheduler, which is tried again at" in row.why
    )
    assert row.why.endswith("403 Forbidden no permission")
    (told,) = History().read(of_steps(world.steps)).claims.values()
    assert told.stage == PAUSE, "the scheduler knows nothing yet"
    world.tick(31)
    assert len(world.events(e.FailureSignalled)) == 2


@pytest.mark.parametrize("action", ["VictimMarked", "DetachOrdered"])
def test_a_refused_step_of_a_detach_starts_it_over(action: str) -> None:
    world = marked()
    if action == "DetachOrdered":
        order_the_detach(world)
    refused(world, action, "res" if action == "VictimMarked" else "ours")
    world.tick(60)
    assert len(world.events(getattr(e, action))) == 2


def test_a_mark_that_could_not_be_taken_off_is_taken_off_later() -> None:
    """It would make the device of a claim the operator's first choice, and keep every other device of the request here."""
    world = marked()
    world.carry_out()
    world.holds("train", "node0", "gpu-GPU-res")
    assert len(world.events(e.VictimUnmarked)) == 1
    for pause in (30, 60):
        refused(world, "VictimUnmarked", "res")
        decided_after(world, pause, e.VictimUnmarked)
    world.tick(3600)
    assert len(world.events(e.VictimUnmarked)) == 3, "its outcome is waited for"
    world.carry_out()
    assert not world.state.fleet.resources.rows["res"].marked and not world.state.give_back.unmarked


def obsolete(world: World, action: str, target: str) -> None:
    world.feed(e.WriteObsolete("id", action, target, "it is another one by now"))


def test_an_order_that_the_live_object_overtook_is_decided_again_soon() -> None:
    world = ordered(scheduler={"binding_timeout_seconds": 86_400})
    request = world.only(e.AttachOrdered).request
    for pause in (2, 4, 8, 16):
        obsolete(world, "AttachOrdered", request)
        decided_after(world, pause, e.AttachOrdered)


@pytest.mark.parametrize("outcome", ["refused", "obsolete"])
def test_a_hand_over_that_nobody_was_told_of_is_void_for_the_whole_group(outcome: str) -> None:
    world = one_node("attach", 8, synced=False, scan_interval_seconds=0)
    for name in ("train", "eval"):
        world.claim(name, pod="both")
        world.allocate(name, "node0")
    world.sync()
    world.carry_out()
    world.operate()
    told = world.only(e.HandOver)
    assert len(told.signals) == 2
    (refused if outcome == "refused" else obsolete)(world, "HandOver", told.subject)
    assert not world.state.hand_over.hand_overs.rows
    assert len(world.events(e.HandOver)) == 1, "the pause is the group's"
    world.tick(31)
    assert len(world.events(e.HandOver)) == 2


def test_a_detach_that_was_not_carried_out_is_ordered_again() -> None:
    world = marked()
    order_the_detach(world)
    world.feed(e.WriteObsolete("id", "DetachOrdered", "ours"))
    assert not any(fence.ordered for fence in world.state.give_back.fences.rows.values())
    world.tick(3)
    assert len(world.events(e.DetachOrdered)) == 2


def test_a_detach_that_a_raise_superseded_is_not_under_way() -> None:
    world = marked()
    order_the_detach(world)
    world.pool(A100, 4)
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).size > world.only(e.DetachOrdered).size
    world.feed(e.Superseded("id", "DetachOrdered", "ours"))
    assert not any(fence.ordered for fence in world.state.give_back.fences.rows.values())


def test_what_was_superseded_keeps_the_newer_intent() -> None:
    """A claim goes before its order is written: the size without it replaces the size with it."""
    world = one_node("attach", 8, synced=False, scan_interval_seconds=0)
    for name in ("train", "second"):
        world.waits(name, "node0")
    world.sync()
    world.carry_out(e.NodeLabelled)
    request = world.only(e.AttachOrdered).request
    world.finish("second")
    world.feed(e.Superseded("id", "AttachOrdered", request))
    assert [o.size for o in world.events(e.AttachOrdered)] == [2, 1]
    assert [order.size for order in world.state.fleet.orders.rows.values()] == [1]
    world.carry_out()
    assert world.get(AttachRequest, request).size == 1
    assert not world.state.fleet.orders.rows
    assert world.get(Node, "node0").labels["cohdi.io/nvidia-a100-40"] == "true"


def test_what_was_refused_of_objects_long_gone_is_forgotten() -> None:
    world = ordered()
    for number in range(20):
        refused(world, "UsedStamped", f"res-{number}", 404)
        world.tick(3700)
    refused(world, "UsedStamped", "last", 404)
    assert len(world.state.notes.refusals) <= 2
    assert sum(kind == "retry" for kind, _ in world.state.notes.fired_deadlines.rows) <= 2


def test_what_may_be_tried_again_is_looked_at_and_nothing_else() -> None:
    world = ordered()
    for number in range(1, 6):
        world.node(f"node{number}")
    refused(world, "AttachOrdered", world.only(e.AttachOrdered).request)
    before = len(world.steps)
    looked: list[str] = []
    healthy = deciding.for_node

    def watched(work: Work, name: str) -> None:
        looked.append(name)
        healthy(work, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "for_node", watched)
        world.tick(30)
    fact = world.steps[before].fact
    assert isinstance(fact, e.DeadlinePassed) and fact.kind == "retry"
    assert set(looked) == {"node0"}
