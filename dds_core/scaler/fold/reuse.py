"""Learns from the steps of devices how soon idle devices are wanted again (`idleness`), while the policy is adaptive."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.kit.policy import HOUR
from dds_core.lifecycle import IDLE, MARKED, REQUESTED, USED
from dds_core.scaler import idleness
from dds_core.scaler.model import DeviceLife, Reuse
from dds_core.scaler.state import State


def chosen(state: State, uid: str, at: int) -> None:
    """The device was chosen for a detach. One that goes sooner than by its own idle time teaches nothing."""
    life = state.lifecycle.devices.get(uid)
    if not state.policy.learns_idle or life is None or life.state != IDLE:
        return
    worth, idled = state.policy.longest_idle, at - life.idle_since
    row = _without_stake(state, life)
    by_itself = idled >= row.keep
    _put(state, life, idleness.staked(row, worth, life.idle_since, idled) if by_itself else row)
    state.lifecycle.devices.put(uid, replace(life, chosen=at if by_itself else 0))


def moved(state: State, old: DeviceLife | None, new: DeviceLife, at: int) -> DeviceLife:
    """A device took a step of its life; returns that life with what must be remembered for the next step."""
    if not state.policy.learns_idle:
        return new
    worth = state.policy.longest_idle
    if old is None:
        if new.state == REQUESTED:
            _put(state, new, idleness.wanted(_row(state, new), worth, at))
        return new
    if new.state != USED or old.state not in (IDLE, MARKED):
        return replace(new, used=old.used or new.state == USED, chosen=old.chosen)
    row = _without_stake(state, old)
    if old.used:  # a first use ends no gap: the device waited for the claim that it was attached for
        row = idleness.used_again(row, worth, old.idle_since, at)
    _put(state, old, row)
    return replace(new, used=True)


def forget(state: State) -> None:
    """Forget what was learned and staked: an attach is worth another time now."""
    state.lifecycle.reuse.drop_where(lambda place: True)
    for uid, life in list(state.lifecycle.devices.rows.items()):
        if life.chosen:
            state.lifecycle.devices.put(uid, replace(life, chosen=0))


def _row(state: State, life: DeviceLife) -> Reuse:
    return state.lifecycle.reuse.get(state.failing.place(life.node, life.model)) or idleness.begun(
        state.policy.longest_idle
    )


def _without_stake(state: State, life: DeviceLife) -> Reuse:
    """The row as if the device had not been chosen to go."""
    row = _row(state, life)
    if not life.chosen:
        return row
    return idleness.taken_back(row, state.policy.longest_idle, life.idle_since, life.chosen - life.idle_since)


def _put(state: State, life: DeviceLife, row: Reuse) -> None:
    before = state.idle_time(life.node, life.model)
    place = state.failing.place(life.node, life.model)
    state.lifecycle.reuse.put(place, row)
    if row.keep != before:
        for uid in state.lifecycle.idle_of_model[life.model]:
            if state.failing.place(state.lifecycle.devices.rows[uid].node, life.model) == place:
                state.touch_device(uid)


def count_detach(state: State, resource: str, at: int) -> None:
    """A device was chosen for a detach: it counts for the policy's limit of detaches in an hour."""
    state.give_back.marks.drop_where(lambda uid: state.give_back.marks.rows[uid] <= at - HOUR)
    state.give_back.marks.put(resource, at)
    chosen(state, resource, at)
    state.touch_device(resource)
