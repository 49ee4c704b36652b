"""What the time of devices is spent on: counted here so that it goes on over restarts, told by the history span by span."""

from __future__ import annotations

from typing import Any

from dds_core import lifecycle
from dds_core.kit.work import Fold
from dds_core.scaler.indexes import Tables
from dds_core.scaler.model import Spending

ATTACHING = "attaching"
IDLE = "idle"
USED = "used"
DETACHING = "detaching"
ERROR = "error"

STATES = (USED, IDLE, ATTACHING, DETACHING, ERROR)
"""What a device on a node can be; in error is one that reports an error and that no claim has."""

_STATE_OF = {
    lifecycle.REQUESTED: ATTACHING,
    lifecycle.IDLE: IDLE,
    lifecycle.MARKED: IDLE,
    lifecycle.USED: USED,
    lifecycle.LEAVING: DETACHING,
}


def state_of(life: str, error: str) -> str:
    """What the time of a device in that state of its life goes to, "" once it is gone; `error` is what its resource reports."""
    state = _STATE_OF.get(life, "")
    return ERROR if error and state not in ("", USED) else state


def counting(fold: Fold, field: str = "uid") -> Fold:
    """The fold of an event that may change what a device's time is spent on; `field` of the event names the resource."""

    def folded(picture: Tables, event: Any, at: int) -> None:
        uid = getattr(event, field)
        before = _spends(picture, uid)
        fold(picture, event, at)
        after = _spends(picture, uid)
        if before != after:
            _change(picture, before, -1, at)
            _change(picture, after, 1, at)

    return folded


def count_from(picture: Tables, at: int) -> None:
    """Begin to count: the picture was kept by a version that did not."""
    for uid in picture.devices.rows:
        _change(picture, _spends(picture, uid), 1, at)


def _spends(picture: Tables, uid: str) -> tuple[str, str] | None:
    """State and model."""
    device, resource = picture.devices.get(uid), picture.resources.get(uid)
    if device is None:
        return None
    return state_of(device.state, resource.error if resource is not None else ""), device.model


def _change(picture: Tables, key: tuple[str, str] | None, devices: int, at: int) -> None:
    if key is not None:
        old = picture.spending.get(key) or Spending()
        picture.spending.put(key, Spending(old.devices + devices, old.offset - devices * at))
