"""An error in a rule, or a broken invariant, which no test has found yet, stops the one object that it is
about and nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dds_core import MemoryLog, verify
from dds_core.engine import Step
from dds_core.kit.work import INVARIANT_BROKEN, RULE_ERROR
from dds_core.scaler import deciding
from dds_core.scaler import events as e
from dds_core.scaler.component import SCALER
from dds_core.scaler.rules import claims, labels
from dds_core.scaler.rules.assignment import Assignment
from dds_core.scaler.state import Work
from tests.core.scaler.test_holds import up_to
from tests.support.world import A100, GPU, World


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
    assert world.state_of("fine") == "Attaching"
    assert world.only(e.AttachOrdered).claims == (world.uid("fine"),)

    log = MemoryLog("c/scaler", cluster="cluster", recorded_at=0)
    epoch = log.take_epoch(0)
    log.append([step.group(n) for n, step in enumerate(world.steps)], epoch=epoch, recorded_at=0)
    assert verify(log.read(), SCALER).ok

    monkeypatch.undo()
    world.unreserve("broken")
    assert world.state_of("broken") == "Attaching", "it goes on where it stopped"


def test_rules_that_keep_undoing_each_other_end_and_stop_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("attach")
    world.rules_may_fail = True
    healthy = labels.label

    def restless(work: Work, name: str, assignments: list[Assignment]) -> None:
        if name == "node1":
            work.state.dirty.nodes.add(name)
        healthy(work, name, assignments)

    monkeypatch.setattr(deciding, "label", restless)
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    world.waits("fine", "node0")
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == ("node1", RULE_ERROR) and "does not settle" in alert.text
    assert world.state_of("fine") == "Attaching"


# -- invariants --------------------------------------------------------------------------------------------------------


def _promises_twice(monkeypatch: pytest.MonkeyPatch) -> tuple[World, str]:
    """A world in which a fault of ours promises one device to every claim that waits; the claim for which it was refused."""
    world = World("attach", limit={"fixed": 1})
    world.rules_may_fail = True
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    world.online("r0", "node0", uuid="GPU-0")
    world.waits("first", "node0")
    promise = world.only(e.Reserved).promises

    def again(work: Work, uid: str) -> None:
        if uid == world.uid("second"):
            work.emit(e.Reserved(claim=uid, mode="attach", node="node0", cycle=1, attempt=1, promises=promise))

    monkeypatch.setattr(claims, "step", again)
    world.waits("second", "node0")
    return world, world.uid("second")


def test_what_would_break_an_invariant_is_refused_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, second = _promises_twice(monkeypatch)
    assert [one.claim for one in world.events(e.Reserved)] == [world.uid("first")]
    assert [*world.state.hand_over.reservations] == [world.uid("first")]
    world.unreserve("second")
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == (second, INVARIANT_BROKEN)
    assert "promised-once" in alert.text and "GPU-0" in alert.text
    assert ["promised-once" in step.broken for step in world.steps[-2:]] == [True, True], "it is counted each time"

    monkeypatch.undo()
    world.waits("third", "node1")
    assert world.state_of("third") == "Attaching", "everything else goes on"
    world.reserve("second")
    assert world.state_of("second") == "Attaching", "and so does the claim, once the fault is gone"


def test_another_broken_invariant_of_the_same_thing_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world, second = _promises_twice(monkeypatch)
    world.plug("node0", "fixed", "GPU-1")
    promise = e.ReservedDevice(0, "GPU-1", GPU, "node0", "fixed", "r0")
    world.holds("third", "node0", "fixed")

    def another(work: Work, uid: str) -> None:
        if uid == second:
            work.emit(e.Reserved(claim=uid, mode="attach", node="node0", cycle=1, attempt=1, promises=(promise,)))

    monkeypatch.setattr(claims, "step", another)
    world.unreserve("second")
    world.reserve("second")
    first, other = world.events(e.Alerted)
    assert (first.of, other.of) == (second, second)
    assert "promised-once" in first.text and "promised-free" in other.text


def test_what_is_refused_at_a_node_stops_nothing_else_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A victim that somebody has taken was not asked back while another decision for its node was refused: its pod lost it."""
    world = up_to(e.DetachOrdered)
    world.rules_may_fail = True

    def refused(work: Work, node: str, assignments: list[Assignment]) -> None:
        work.emit(
            e.AttachOrdered(
                node=node, model=A100.model, mode="detach", request="r", type="gpu", size=99, reason="demand"
            )
        )

    monkeypatch.setattr(deciding, "order", refused)
    world.waits("mine", "node0")
    world.holds("user", "node0", "gpu-GPU-res0")
    assert any("within-maximum" in one.text for one in world.events(e.Alerted))
    assert world.events(e.AttachOrdered)[-1].reason == "victim wanted after its detach was ordered"


def _logged(world: World, steps: list[Step]) -> MemoryLog:
    log = MemoryLog("c/scaler", cluster="cluster", recorded_at=0)
    epoch = log.take_epoch(0)
    log.append([step.group(n) for n, step in enumerate(steps)], epoch=epoch, recorded_at=0)
    return log


def test_the_first_broken_invariant_of_a_log_is_found_at_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    world, second = _promises_twice(monkeypatch)
    monkeypatch.undo()
    promise = world.only(e.Reserved).promises
    twice = e.Reserved(claim=second, mode="attach", node="node0", cycle=1, attempt=1, promises=promise)
    world.steps[-1] = world.steps[-1]._replace(caused=[(twice, 0)])
    log = _logged(world, world.steps)
    broken = [one for one in verify(log.read(), SCALER).differences if "promised-once" in one.expected]
    assert [one.position for one in broken] == [log.head().position]
    assert "GPU-0 is promised to" in broken[0].found


def promised_to_mine() -> World:
    """The claim `mine` is promised the only device; what breaks is told, not raised."""
    world = World("attach")
    world.rules_may_fail = True
    world.node("node0")
    world.pool(A100, 4)
    world.online("r0", "node0", uuid="GPU-0")
    world.waits("mine", "node0")
    return world


def test_what_is_broken_already_is_told_and_everything_goes_on() -> None:
    world = promised_to_mine()
    row = world.state.hand_over.reservations.rows[world.uid("mine")]
    for other in ("one", "two"):  # as a fault in a fold would leave them
        promises = tuple(replace(promise, uuid="GPU-X") for promise in row.promises)
        world.state.hand_over.reservations.put(other, replace(row, claim=other, promises=promises))
    world.feed(e.Synced())
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == ("GPU-X", INVARIANT_BROKEN) and "everything goes on" in alert.text
    world.feed(e.Synced())
    assert world.only(e.Alerted) == alert, "it is told once"


def test_a_step_that_finds_something_broken_is_taken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = promised_to_mine()
    mine = world.uid("mine")
    row = world.state.hand_over.reservations.rows[mine]
    world.state.hand_over.reservations.put("ghost", replace(row, claim="ghost"))
    healthy = claims.step

    def again(work: Work, uid: str) -> None:
        if not work.emitted or isinstance(work.emitted[-1][0], e.Alerted):
            work.emit(e.Reserved(claim=mine, mode="attach", node="node0", cycle=1, attempt=1, promises=row.promises))
        healthy(work, uid)

    monkeypatch.setattr(claims, "step", again)
    world.unreserve("mine")
    alert = world.only(e.Alerted)
    assert (alert.of, alert.reason) == ("GPU-0", INVARIANT_BROKEN)
    assert len(world.events(e.Reserved)) == 2 and world.events(e.ClaimMoved)[-1].trigger == "reservation_lost"
