"""Every row of the hold's table is taken by an event, and what the table lacks changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from dds_core.errors import IllegalTransition
from dds_core.events import Event, Started, Synced, WriteDone, WriteRefused
from dds_core.events.base import difference
from dds_core.kit.stages import NONE
from dds_core.model import Allocation, Claim, Result
from dds_core.scaler import events as e
from dds_core.scaler.folds import apply
from dds_core.scaler.hold import HOLD
from dds_core.scaler.model import Hold
from dds_core.scaler.state import State
from tests.support.world import GPU, World, one_node

UID, FACE = "res0", (GPU, "node0", "gpu-GPU-res0")
STAGES = ("guarding", "listing", "listed", "holding", "held", "lost", "ending", "ended")
ROWS = [(edge.trigger, edge.source, edge.target) for edge in HOLD.table]


def held(**changes: object) -> Claim:
    """The claim of dds that holds the device, whole."""
    allocation = Allocation((Result("device", *FACE),), "node0")
    return Claim("hold-res0", "dds", "dds-hold-res0", allocation=allocation, hold=UID, **changes)  # type: ignore[arg-type]


def at(stage: str, *, claim: Claim | None = None) -> World:
    """A device whose hold is at this stage."""
    world = one_node("detach", 4, scan_interval_seconds=0, exchange=True)
    world.online(UID, "node0")
    if claim is not None:
        world.observe(claim)
    state = world.state
    state.holds.drop(UID)
    if stage != NONE:
        state.holds.put(UID, Hold("node0", (FACE,), world.now + 60_000_000, world.now, "idle", stage=stage))  # type: ignore[arg-type]
    return world


def observed(claim: Claim) -> Event:
    fact = difference(None, claim)
    assert fact is not None
    return fact


def done(action: type[Event]) -> Event:
    return WriteDone(decision="d", action=action.__name__, target=UID)


def refused(action: type[Event]) -> Event:
    return WriteRefused(decision="d", action=action.__name__, target=UID, code=500, reason="InternalError")


def begun_anew(state: State) -> Event:
    """Another process has begun; returns that it has seen everything."""
    apply(state, Started("code", "fingerprint", 1, 2, "detach"), state.now)
    return Synced()


ENDED = e.HoldEnded(resource=UID, mode="detach", hold="dds-hold-res0", node="node0", devices=(FACE,), reason="wanted")
EVENTS: dict[str, Callable[[State], Event]] = {
    "begun": lambda state: e.HoldBegun(
        resource=UID, mode="detach", name=UID, node="node0", model="A100 40G", uuid="GPU-res0", devices=(FACE,),
        until=state.now + 60_000_000, reason="idle",
    ),
    "guarded": lambda state: done(e.HoldBegun),
    "list_wanted": lambda state: e.ClaimsListWanted(resource=UID, mode="detach", fenced=state.now),
    "listed": lambda state: e.ClaimsListed(resource=UID, started=state.now + 10_000_000),
    "taken": lambda state: e.DeviceHeld(
        resource=UID, mode="detach", hold="dds-hold-res0", name=UID, node="node0", devices=(FACE,)
    ),
    "seen": lambda state: observed(held()),
    "missed": lambda state: e.ClaimGone(uid="hold-res0"),
    "guard_refused": lambda state: refused(e.HoldBegun),
    "take_refused": lambda state: refused(e.DeviceHeld),
    "removal_refused": lambda state: refused(e.HoldEnded),
    "given_up": lambda state: e.VictimUnmarked(resource=UID, mode="detach", name=UID, reason="wanted"),
    "ended": lambda state: ENDED,
    "removed": lambda state: done(e.HoldEnded),
    "gone": lambda state: e.ClaimGone(uid="hold-res0"),
    "found": lambda state: begun_anew(state),
    "restarted": lambda state: begun_anew(state),
}  # fmt: skip
WITH_CLAIM = ("missed", "gone", "found", "removed")
"""Triggers that come while the claim is there."""


def stage_after(trigger: str, stage: str) -> str:
    there = trigger in WITH_CLAIM or (trigger, stage) == ("restarted", "ended")
    world = at(stage, claim=held() if there else None)
    state = world.state
    apply(state, EVENTS[trigger](state), world.now)
    row = state.holds.get(UID)
    return row.stage if row is not None else NONE


@pytest.mark.parametrize(("trigger", "source", "target"), ROWS)
def test_every_row_is_taken(trigger: str, source: str, target: str) -> None:
    assert stage_after(trigger, source) == target


@pytest.mark.parametrize("trigger", sorted(HOLD.decided))
def test_a_decision_that_the_table_lacks_is_refused_and_changes_nothing(trigger: str) -> None:
    known = {source for name, source, _ in ROWS if name == trigger}
    for stage in {NONE, *STAGES} - known:
        world = at(stage)
        before = world.state.holds.get(UID)
        with pytest.raises(IllegalTransition, match=trigger):
            apply(world.state, EVENTS[trigger](world.state), world.now)
        assert world.state.holds.get(UID) == before


def test_an_outcome_that_comes_late_changes_nothing() -> None:
    known = {(name, source) for name, source, _ in ROWS}
    late = ("guarded", "listed", "removed", "guard_refused", "take_refused", "removal_refused")
    for trigger, stage in product(late, STAGES):
        if (trigger, stage) not in known:
            assert stage_after(trigger, stage) == stage, (trigger, stage)
