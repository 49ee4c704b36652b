"""Admission policies that deny what dds writes, and clients that undo it: told at once in the policy's words, tried again later
each time, and blamed on no node and no fabric. A denial has the status 400, 403 or 422, as the policy or webhook says."""

from __future__ import annotations

import pytest

from dds_core.scaler import events as e
from tests.support.world import World, one_node

WORDS = "ValidatingAdmissionPolicy 'require-cost-centre' denied request: every request needs the label cost-centre"
LABEL = "cohdi.io/nvidia-a100-40"


def denied(world: World, decision: e.Decision, target: str, code: int) -> None:
    world.feed(e.WriteRefused("id", type(decision).__name__, target, code, "Invalid", WORDS))


def alerts(world: World, reason: str) -> list[e.Alerted]:
    return [one for one in world.events(e.Alerted) if one.reason == reason]


@pytest.mark.parametrize("code", [400, 403, 422])
def test_an_order_that_is_denied_is_told_at_once_and_fails_in_the_policys_words(code: int) -> None:
    world = one_node("attach", 8, scan_interval_seconds=0, scheduler={"attach_budget_seconds": 100})
    world.waits("train", "node0")
    order = world.only(e.AttachOrdered)
    denied(world, order, order.request, code)
    (told,) = alerts(world, "OrderRefused")
    assert told.of == world.uid("train") and WORDS in told.text and "node0" in told.text
    world.tick(31)
    denied(world, order, order.request, code)
    assert len(alerts(world, "OrderRefused")) == 1, "once an attempt"
    world.tick(70)
    failed = world.only(e.ClaimFailed)
    assert failed.reason == "OrderRefused" and WORDS in failed.message
    assert not world.events(e.CoolDown), "the node is not to blame"


def test_once_it_is_taken_nothing_is_said_of_it() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0, scheduler={"attach_budget_seconds": 100})
    world.waits("train", "node0")
    order = world.only(e.AttachOrdered)
    denied(world, order, order.request, 422)
    world.tick(31)
    world.feed(e.WriteDone("id", "AttachOrdered", order.request))
    world.tick(70)
    assert world.only(e.ClaimFailed).reason == "AttachTimeout"


@pytest.mark.parametrize("idle", [60, 600])
@pytest.mark.parametrize("code", [400, 403, 422])
def test_a_device_whose_hold_is_denied_goes_without_one(code: int, idle: int) -> None:
    """Half a minute later: if it had to idle anew, holds would be tried again by then, and denied again, for ever."""
    world = World("detach", exchange=True, no_removal_seconds=idle, scan_interval_seconds=0)
    world.node("node0")
    world.request("ours", "node0", labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1)
    world.online("res", "node0", request="ours")
    world.tick(idle + 1)
    hold = world.only(e.HoldBegun)
    denied(world, hold, hold.resource, code)
    (told,) = alerts(world, "HoldRefused")
    assert told.of == hold.resource and WORDS in told.text
    assert WORDS in world.only(e.HoldEnded).reason
    world.carry_out(e.HoldEnded)
    world.tick(32)
    assert world.only(e.VictimMarked).resource == hold.resource


def test_once_a_hold_is_taken_its_denial_is_told_no_more() -> None:
    world = World("detach", exchange=True, detach_without_fence="never", no_removal_seconds=60)
    world.node("node0")
    world.request("ours", "node0", labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1)
    world.online("res", "node0", request="ours")
    world.tick(61)
    denied(world, world.only(e.HoldBegun), "res", 422)
    world.carry_out(e.HoldEnded)
    assert world.state.notes.is_alerted("res", "HoldRefused")
    world.tick(700)
    for _ in range(6):
        world.carry_out()
    assert world.device("res") == "Marked"
    assert not world.state.notes.is_alerted("res", "HoldRefused")


def labelled() -> World:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.carry_out()
    assert LABEL in next(iter(world.state.fleet.nodes.rows.values())).labels
    return world


def test_a_label_that_is_taken_off_again_and_again_is_written_later_each_time() -> None:
    world = labelled()
    before = len(world.events(e.NodeLabelled))
    for _ in range(240):  # every five seconds for twenty minutes
        world.tick(5)
        world.carry_out(e.NodeLabelled)
        if LABEL in next(iter(world.state.fleet.nodes.rows.values())).labels:
            world.relabel("node0", {LABEL: None})
    assert 8 <= len(world.events(e.NodeLabelled)) - before <= 12
    (told,) = alerts(world, "LabelFight")
    assert told.of == "node0" and LABEL in told.text


def test_who_does_it_is_named() -> None:
    world = labelled()
    for _ in range(4):
        world.relabel("node0", {LABEL: None})
        world.tick(9)
        again = world.events(e.NodeLabelled)[-1]
        world.feed(e.WriteDone("id", "NodeLabelled", again.node, rivals="node-labeller"))
        world.relabel("node0", {LABEL: "true"})
    (told,) = alerts(world, "LabelFight")
    assert "last written by node-labeller" in told.text


def test_a_label_that_is_taken_off_once_is_back_at_once() -> None:
    world = labelled()
    before = len(world.events(e.NodeLabelled))
    world.relabel("node0", {LABEL: None})
    assert len(world.events(e.NodeLabelled)) == before + 1
    assert not alerts(world, "LabelFight")
