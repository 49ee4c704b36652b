"""An error in a rule, which no test has found yet, stops the one object that it is about and nothing else."""

from __future__ import annotations

import pytest

from dds_core import MemoryLog, verify
from dds_core.kit.work import RULE_ERROR
from dds_core.scaler import events as e
from dds_core.scaler import rules
from dds_core.scaler.component import SCALER
from dds_core.scaler.rules import claims
from dds_core.scaler.state import Work
from tests.support.world import A100, World


def test_an_error_for_one_claim_is_told_once_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("attach")
    world.rules_may_fail = True
    world.node("node0")
    world.pool(A100, 4)
    healthy = claims.step

    def faulty(work: Work, uid: str) -> None:
        if uid == world.uid("broken"):
            raise ZeroDivisionError("a fault of ours")
        healthy(work, uid)

    monkeypatch.setattr(claims, "step", faulty)
    for name in ("broken", "fine"):
        world.waits(name, "node0")
    alerts = [alert for alert in world.events(e.Alerted) if alert.reason == RULE_ERROR]
    assert [alert.of for alert in alerts] == [world.uid("broken")]
    assert "ZeroDivisionError" in alerts[0].text and "a fault of ours" not in alerts[0].text
    assert world.state("fine") == "Attaching"
    assert world.only(e.AttachOrdered).claims == (world.uid("fine"),)

    log = MemoryLog("c/scaler", cluster="cluster", recorded_at=0)
    epoch = log.take_epoch(0)
    log.append([step.group(n) for n, step in enumerate(world.steps)], epoch=epoch, recorded_at=0)
    assert verify(log.read(), SCALER).ok

    monkeypatch.undo()
    world.unreserve("broken")
    assert world.state("broken") == "Attaching", "it goes on where it stopped"


def test_rules_that_keep_undoing_each_other_end_and_stop_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("attach")
    world.rules_may_fail = True
    healthy = rules.for_node

    def restless(work: Work, name: str) -> None:
        if name == "node1":
            work.picture.dirty.nodes.add(name)
        healthy(work, name)

    monkeypatch.setattr(rules, "for_node", restless)
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    world.waits("fine", "node0")
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == ("node1", RULE_ERROR) and "does not settle" in alert.text
    assert world.state("fine") == "Attaching"
