"""Every row of a protocol's table is taken by an event, and what the table lacks changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.errors import IllegalTransition
from dds_core.events import Event, Started, Synced, WriteDone, WriteRefused
from dds_core.events.base import difference
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.stages import NONE, Stages
from dds_core.model import Allocation, AttachRequest, Claim, DeviceKey, Result
from dds_core.scaler import deadlines, exchange, fence, hold
from dds_core.scaler import events as e
from dds_core.scaler.folds import apply
from dds_core.scaler.invariants import INVARIANTS
from dds_core.scaler.model import Fence, Guarded, Hold
from dds_core.scaler.protocols import PROTOCOLS
from dds_core.scaler.state import Work, dump
from tests.core.scaler.test_exchange import up_to
from tests.support.world import GPU, World, one_node

UID, FACE = "res0", (GPU, "node0", "gpu-GPU-res0")
LATER = 60_000_000


def observed(thing: Any) -> Event:
    fact = difference(None, thing)
    assert fact is not None
    return fact


def done(action: type[Event], target: str, **fields: str) -> Event:
    return WriteDone(decision="d", action=action.__name__, target=target, **fields)


def refused(action: type[Event], target: str) -> Event:
    return WriteRefused(decision="d", action=action.__name__, target=target, code=500, reason="InternalError")


def begun_anew(world: World) -> Event:
    """Another process has begun; returns that it has seen everything."""
    apply(world.state, Started("code", "fingerprint", 1, 2, "detach"), world.now)
    return Synced()


# -- hold --------------------------------------------------------------------------------------------------------------

WITH_CLAIM = ("missed", "gone", "found", "removed")
"""Triggers that come while the claim is there."""


def with_hold(stage: str, trigger: str) -> World:
    """A device whose hold is at this stage."""
    world = one_node("detach", 4, scan_interval_seconds=0, exchange=True)
    world.online(UID, "node0")
    if trigger in WITH_CLAIM or (trigger, stage) == ("restarted", hold.ENDED):
        allocation = Allocation((Result("device", *FACE),), "node0")
        world.observe(Claim("hold-res0", "dds", "dds-hold-res0", allocation=allocation, hold=UID))
    world.state.give_back.holds.drop(UID)
    if stage != NONE:
        row = Hold("node0", (FACE,), world.now + LATER, world.now, "idle", stage=stage)  # type: ignore[arg-type]
        world.state.give_back.holds.put(UID, replace(row, wanted=trigger == "listed"))
    return world


def stage_of_hold(world: World) -> str:
    row = world.state.give_back.holds.get(UID)
    return row.stage if row is not None else NONE


OF_HOLD: dict[str, Any] = {"resource": UID, "mode": "detach", "node": "node0", "devices": (FACE,)}
HOLD_EVENTS: dict[str, Callable[[World], Event]] = {
    "begun": lambda world: e.HoldBegun(
        **OF_HOLD, name=UID, model="A100 40G", uuid="GPU-res0", until=world.now + LATER, reason="idle"
    ),
    "guarded": lambda world: done(e.HoldBegun, UID),
    "list_wanted": lambda world: e.ClaimsListWanted(resource=UID, mode="detach", fenced=world.now),
    "listed": lambda world: e.ClaimsListed(resource=UID, started=world.now + 10_000_000),
    "taken": lambda world: e.DeviceHeld(**OF_HOLD, hold="dds-hold-res0", name=UID),
    "seen": lambda world: observed(
        Claim("hold-res0", "dds", "h", allocation=Allocation((Result("device", *FACE),), "node0"), hold=UID)
    ),
    "missed": lambda world: e.ClaimGone(uid="hold-res0"),
    "guard_refused": lambda world: refused(e.HoldBegun, UID),
    "take_refused": lambda world: refused(e.DeviceHeld, UID),
    "removal_refused": lambda world: refused(e.HoldEnded, UID),
    "given_up": lambda world: e.VictimUnmarked(resource=UID, mode="detach", name=UID, reason="wanted"),
    "ended": lambda world: e.HoldEnded(**OF_HOLD, hold="dds-hold-res0", reason="wanted"),
    "removed": lambda world: done(e.HoldEnded, UID),
    "gone": lambda world: e.ClaimGone(uid="hold-res0"),
    "found": begun_anew,
    "restarted": begun_anew,
}  # fmt: skip


# -- exchange and guard ------------------------------------------------------------------------------------------------

CLAIM = "uid-default-train0"


def begun(world: World) -> e.ExchangeBegun:
    return world.events(e.ExchangeBegun)[0]


def with_exchange(stage: str, trigger: str) -> World:
    """A claim whose exchange is at this stage; it has an allocation unless a new process finds none."""
    world = up_to(e.ExchangeBegun)
    row = world.state.hand_over.exchanges.rows[CLAIM]
    cleared = stage not in (NONE, exchange.GUARDING, exchange.LISTING, exchange.LISTED, exchange.CLEARING)
    if trigger == "went_on":
        world.clear("train0")
    world.state.hand_over.exchanges.drop(CLAIM)
    if stage != NONE:
        stored: Any = stage.removeprefix("again_")
        row = replace(row, stage=stored, version="7" if cleared else "", wanted=trigger == "listed")
        world.state.hand_over.exchanges.put(CLAIM, row)
    return world


def stage_of_exchange(world: World) -> str:
    return exchange.stage_of(world.state.hand_over.exchanges.get(CLAIM))


OF_CLAIM: dict[str, Any] = {"claim": CLAIM, "mode": "attach"}
EXCHANGE_EVENTS: dict[str, Callable[[World], Event]] = {
    "begun": begun,
    "guarded": lambda world: done(e.ExchangeBegun, CLAIM),
    "list_wanted": lambda world: e.ClaimsListWanted(resource=CLAIM, mode="attach", fenced=world.now),
    "listed": lambda world: e.ClaimsListed(resource=CLAIM, started=world.now + 10_000_000),
    "clear": lambda world: e.AllocationCleared(**OF_CLAIM, node="node0", attempt=1),
    "cleared": lambda world: done(e.AllocationCleared, CLAIM, version="7"),
    "give": lambda world: e.DevicesGiven(
        **OF_CLAIM, node="node0", attempt=1, swap=begun(world).swaps[0], version="7"
    ),
    "given": lambda world: done(e.DevicesGiven, CLAIM),
    "done": lambda world: moved(world, "released"),
    "ended": lambda world: e.ExchangeEnded(**OF_CLAIM, reason="mode is observe"),
    "guard_refused": lambda world: refused(e.ExchangeBegun, CLAIM),
    "clear_refused": lambda world: refused(e.AllocationCleared, CLAIM),
    "give_refused": lambda world: refused(e.DevicesGiven, CLAIM),
    "went_on": begun_anew,
    "restarted": begun_anew,
}  # fmt: skip


def moved(world: World, trigger: str) -> Event:
    step = e.ClaimMoved.of(CLAIM, world.state.lifecycle.lives.rows[CLAIM], trigger, "its pod is gone")
    assert step is not None
    return step


def with_guard(stage: str, trigger: str) -> World:
    """A device whose guard is at this stage; its time is over where its end is asked for."""
    world = up_to(e.ExchangeBegun)
    until = world.now if trigger == "over" else world.now + LATER
    world.state.hand_over.guarded.drop(FACE)
    if trigger == "begun":
        world.state.hand_over.exchanges.drop(CLAIM)
    if stage != NONE:
        world.state.hand_over.guarded.put(FACE, Guarded(CLAIM, until, "node0", lifting=stage == exchange.LIFTING))
    return world


def stage_of_guard(world: World) -> str:
    row = world.state.hand_over.guarded.get(FACE)
    return NONE if row is None else exchange.LIFTING if row.lifting else exchange.STANDING


GUARD_EVENTS: dict[str, Callable[[World], Event]] = {
    "begun": begun,
    "lifted": lambda world: e.GuardLifted(**OF_CLAIM, devices=(FACE,)),
    "off": lambda world: done(e.GuardLifted, CLAIM),
    "refused": lambda world: refused(e.GuardLifted, CLAIM),
    "over": lambda world: refused(e.GuardLifted, CLAIM),
    "restarted": begun_anew,
}  # fmt: skip


# -- fence -------------------------------------------------------------------------------------------------------------

REQUEST = "composability-x"


def with_fence(stage: str, trigger: str) -> World:
    """A device whose fence is at this stage. Its request asks for less than it has where that is what is found."""
    world = one_node("detach", 4, scan_interval_seconds=0)
    world.request(REQUEST, "node0", size=0 if trigger == "found_lowered" else 1)
    world.online(UID, "node0", request=REQUEST)
    world.state.give_back.fences.drop(UID)
    if stage != NONE:
        world.state.give_back.fences.put(UID, fence_at(stage, trigger, world.now))
    return world


def fence_at(stage: str, trigger: str, at: int) -> Fence:
    unlisted = trigger in ("voided_listing", "voided_unlisted")
    confirmed = stage in (fence.CONFIRMED, fence.ORDERED) and not unlisted
    wanted = confirmed or stage == fence.LISTING or trigger == "voided_listing"
    key: DeviceKey = FACE
    return Fence(at, key, REQUEST, wanted=wanted, confirmed=at if confirmed else 0, ordered=stage == fence.ORDERED)


def stage_of_fence(world: World) -> str:
    return fence.stage_of(world.state.give_back.fences.get(UID))


def gone(world: World) -> Event:
    life = world.state.lifecycle.devices.rows[UID]
    return e.DeviceMoved(resource=UID, trigger="gone", source=life.state, target="Gone")


def passed_over(world: World) -> Event:
    fact = difference(world.get(AttachRequest, REQUEST), replace(world.get(AttachRequest, REQUEST), planned=()))
    assert fact is not None
    return fact


FENCE_EVENTS: dict[str, Callable[[World], Event]] = {
    "marked": lambda world: e.VictimMarked(
        resource=UID, mode="detach", name=UID, node="node0", model="A100 40G", uuid="GPU-res0",
        driver=FACE[0], pool=FACE[1], device=FACE[2], reason="idle",
    ),
    "list_wanted": lambda world: e.ClaimsListWanted(resource=UID, mode="detach", fenced=world.now),
    "listed": lambda world: e.ClaimsListed(resource=UID, started=world.now + 600_000_000),
    "ordered": lambda world: e.DetachOrdered(
        node="node0", model="A100 40G", mode="detach", request=REQUEST, uid="u", size=0, previous=1, victims=(UID,),
        unattached=True,
    ),
    **dict.fromkeys(("voided", "voided_listing", "voided_unlisted"), lambda world: refused(e.DetachOrdered, REQUEST)),
    "unmarked": lambda world: e.VictimUnmarked(resource=UID, mode="detach", name=UID, reason="wanted"),
    "mark_refused": lambda world: refused(e.VictimMarked, UID),
    "gone": gone,
    "passed_over": passed_over,
    "found_lowered": begun_anew,
    "restarted": begun_anew,
}  # fmt: skip

# -- all ---------------------------------------------------------------------------------------------------------------

SCENES: dict[
    str,
    tuple[Callable[[str, str], World], Callable[[World], str], dict[str, Callable[[World], Event]]],
] = {
    "hold": (with_hold, stage_of_hold, HOLD_EVENTS),
    "exchange": (with_exchange, stage_of_exchange, EXCHANGE_EVENTS),
    "guard": (with_guard, stage_of_guard, GUARD_EVENTS),
    "fence": (with_fence, stage_of_fence, FENCE_EVENTS),
}
LATE = {
    "hold": ("guarded", "listed", "removed", "guard_refused", "take_refused", "removal_refused"),
    "exchange": ("guarded", "listed", "cleared", "given", "guard_refused", "clear_refused", "give_refused"),
    "guard": ("off", "refused"),
    "fence": ("listed", "voided", "mark_refused"),
}
"""Outcomes, which may come when they are waited for no longer."""
ROWS = [(protocol, *row[:3]) for protocol in PROTOCOLS for row in protocol.table]
DECIDED = [(protocol, trigger) for protocol in PROTOCOLS for trigger in sorted(protocol.decided)]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Stages) else str(value) or "none"


def stages_of(protocol: Stages) -> set[str]:
    return {stage for edge in protocol.table for stage in (edge.source, edge.target)}


def stage_after(protocol: Stages, trigger: str, stage: str) -> str:
    at, stage_of, events = SCENES[protocol.name]
    world = at(stage, trigger)
    assert stage_of(world) == stage
    apply(world.state, events[trigger](world), world.now)
    return stage_of(world)


@pytest.mark.parametrize(("protocol", "trigger", "source", "target"), ROWS, ids=name_of)
def test_every_row_is_taken(protocol: Stages, trigger: str, source: str, target: str) -> None:
    assert stage_after(protocol, trigger, source) == target


@pytest.mark.parametrize(("protocol", "trigger"), DECIDED, ids=name_of)
def test_a_decision_that_the_table_lacks_is_refused_and_changes_nothing(protocol: Stages, trigger: str) -> None:
    at, _, events = SCENES[protocol.name]
    known = {edge.source for edge in protocol.table if edge.trigger == trigger}
    for stage in stages_of(protocol) - known:
        world = at(stage, trigger)
        state, decision = world.state, events[trigger](world)
        before = dump(state)
        state.journal.start()
        with pytest.raises(IllegalTransition, match=trigger):
            Work(state, world.now, apply, INVARIANTS).emit(decision)
        state.journal.stop()
        assert dump(state) == before, "not half of its fold either"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name_of)
def test_an_outcome_that_comes_late_changes_nothing(protocol: Stages) -> None:
    known = {(edge.trigger, edge.source) for edge in protocol.table}
    for trigger, stage in product(LATE[protocol.name], stages_of(protocol)):
        if (trigger, stage) not in known:
            assert stage_after(protocol, trigger, stage) == stage, (trigger, stage)


WAITS = [(protocol, stage) for protocol in PROTOCOLS for stage in sorted(stages_of(protocol) - {NONE})]
KINDS = {DeadlineKind.HOLD, DeadlineKind.GUARD, DeadlineKind.SETTLE, DeadlineKind.FENCE, DeadlineKind.STUCK}
AT_ONCE: dict[tuple[str, str], type[Event]] = {
    ("hold", hold.HELD): e.VictimMarked,
    ("hold", hold.LOST): e.HoldEnded,
}
"""The stages that end with a decision of the next look at the device."""
SHOWN = {("hold", hold.ENDED): "gone"}
"""The stage that ends when the watch shows that what was deleted is gone."""


@pytest.mark.parametrize(("protocol", "stage"), WAITS, ids=name_of)
def test_no_stage_lasts_for_ever(protocol: Stages, stage: str) -> None:
    """It ends with the outcome of a write or a list under way, with a decision at once, with what the watch shows, or a deadline
    of the protocol is due."""
    triggers = {edge.trigger for edge in protocol.table if edge.source == stage}
    shown = SHOWN.get((protocol.name, stage))
    if triggers & {*LATE[protocol.name]} or shown in triggers:
        return
    world = SCENES[protocol.name][0](stage, "missed")
    decided = AT_ONCE.get((protocol.name, stage))
    if decided is not None:
        world.state.dirty.devices.add(UID)
        world.node("node9")
        assert world.events(decided)
    else:
        due = [*deadlines.of_claim(world.state, CLAIM), *deadlines.of_device(world.state, UID)]
        assert KINDS & {one.kind for one in due}
