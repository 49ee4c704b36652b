"""What the steps of a device tell of how soon devices are wanted again, while the policy is to learn from it."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.lifecycle import IDLE, MARKED, REQUESTED, USED
from dds_core.scaler import idleness
from dds_core.scaler.model import DeviceLife, Reuse
from dds_core.scaler.state import Picture


def chosen(picture: Picture, uid: str, at: int) -> None:
    """The device is to go, unless something comes in between. One that goes sooner than it would by itself teaches nothing."""
    life = picture.devices.get(uid)
    if not picture.policy.learns_idle or life is None or life.state != IDLE:
        return
    worth, idled = picture.policy.longest_idle, at - life.idle_since
    row = _without_stake(picture, life)
    by_itself = idled >= row.keep
    _put(picture, life, idleness.staked(row, worth, life.idle_since, idled) if by_itself else row)
    picture.devices.put(uid, replace(life, chosen=at if by_itself else 0))


def moved(picture: Picture, old: DeviceLife | None, new: DeviceLife, at: int) -> DeviceLife:
    """A device has taken a step of its life; gives that life with what is remembered for the next one."""
    if not picture.policy.learns_idle:
        return new
    worth = picture.policy.longest_idle
    if old is None:
        if new.state == REQUESTED:
            _put(picture, new, idleness.wanted(_row(picture, new), worth, at))
        return new
    if new.state != USED or old.state not in (IDLE, MARKED):
        return replace(new, used=old.used or new.state == USED, chosen=old.chosen)
    row = _without_stake(picture, old)
    if old.used:  # before that it waits for the claim that it was attached for
        row = idleness.used_again(row, worth, old.idle_since, at)
    _put(picture, old, row)
    return replace(new, used=True)


def forget(picture: Picture) -> None:
    """What was learned and staked when an attach was worth another time."""
    picture.reuse.drop_where(lambda place: True)
    for uid, life in list(picture.devices.rows.items()):
        if life.chosen:
            picture.devices.put(uid, replace(life, chosen=0))


def _row(picture: Picture, life: DeviceLife) -> Reuse:
    return picture.reuse.get(picture.place(life.node, life.model)) or idleness.begun(picture.policy.longest_idle)


def _without_stake(picture: Picture, life: DeviceLife) -> Reuse:
    """The device was chosen to go, if it was, and has not gone."""
    row = _row(picture, life)
    if not life.chosen:
        return row
    return idleness.taken_back(row, picture.policy.longest_idle, life.idle_since, life.chosen - life.idle_since)


def _put(picture: Picture, life: DeviceLife, row: Reuse) -> None:
    before = picture.idle_time(life.node, life.model)
    place = picture.place(life.node, life.model)
    picture.reuse.put(place, row)
    if row.keep != before:
        for uid in picture.idle_of_model[life.model]:
            if picture.place(picture.devices.rows[uid].node, life.model) == place:
                picture.touch_device(uid)
