"""Our own DeviceTaintRules go when the fence they belong to is gone, at a restart too: device names recur."""

from __future__ import annotations

from dds_core.model import OWNER, OWNER_LABEL, Taint, TaintRule
from dds_core.scaler import events as e
from tests.support.world import World, one_node

IDLE = 600


def world_with_a_victim() -> World:
    world = one_node("detach", 4, taint_rules="v1beta2", no_removal_seconds=IDLE, scan_interval_seconds=0)
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.online("res", "node0", request="composability-x")
    world.tick(IDLE + 1)
    assert world.only(e.VictimMarked).taint
    return world


def our_rule(world: World, uid: str = "rule") -> TaintRule:
    mark = world.only(e.VictimMarked)
    taint = Taint("dds/leaving", effect="NoSchedule")
    return TaintRule(uid, f"dds-{uid}", mark.driver, mark.pool, mark.device, taint, {OWNER_LABEL: OWNER})


def test_a_rule_stands_with_its_fence_and_goes_with_it() -> None:
    world = world_with_a_victim()
    world.observe(our_rule(world))
    world.tick(10)
    assert not world.events(e.TaintLifted)
    world.take_away("res")
    assert [(lifted.rule, lifted.name) for lifted in world.events(e.TaintLifted)] == [("rule", "dds-rule")]
    world.tick(IDLE)
    assert len(world.events(e.TaintLifted)) == 1, "once"


def test_a_refused_deletion_is_decided_again() -> None:
    world = world_with_a_victim()
    world.observe(our_rule(world))
    world.take_away("res")
    world.feed(e.WriteRefused(decision="d", action="TaintLifted", target="rule", code=500, reason="InternalError"))
    world.tick(60)
    assert len(world.events(e.TaintLifted)) == 2


def test_what_an_earlier_process_left_behind_goes_at_the_start() -> None:
    world = world_with_a_victim()
    left = our_rule(world)
    world.take_away("res")
    world.observe(left)
    assert len(world.events(e.TaintLifted)) == 1
    world.feed(e.Started("code", "fingerprint", 1, 2, "detach"))
    again = world.feed(e.Synced())
    assert [d.reissued for d in again.decisions if isinstance(d, e.TaintLifted)] == [True]


def test_a_rule_of_somebody_else_is_left_alone() -> None:
    world = world_with_a_victim()
    rule = our_rule(world)
    world.observe(TaintRule("other", "other", rule.driver, rule.pool, rule.device, rule.taint))
    world.take_away("res")
    assert not world.events(e.TaintLifted)
