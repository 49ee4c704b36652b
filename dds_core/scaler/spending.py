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
    lifecycle.DEVICE_DETACHING: DETACHING,
}


def state_of(life: str, error: str) -> str:
    """What the time of a device in that state of its life goes to, "" once it is gone; `error` is what its resource reports."""
    state = _STATE_OF.get(life, "")
    return ERROR if error and state not in ("", USED) else state


def counting(fold: Fold, field: str = "uid") -> Fold:
    """The fold of an event that may change what a device's time is spent on; `field` of the event names the resource."""

    def folded(state: Tables, event: Any, at: int) -> None:
        uid = getattr(event, field)
        before = _spends(state, uid)
        fold(state, event, at)
        after = _spends(state, uid)
        if before != after:
            _change(state, before, -1, at)
            _change(state, after, 1, at)

    return folded


def count_from(state: Tables, at: int) -> None:
    """Begin to count: the state was kept by a version that did not."""
    for uid in state.devices.rows:
        _change(state, _spends(state, uid), 1, at)


def _spends(state: Tables, uid: str) -> tuple[str, str] | None:
    """State and model."""
    device, resource = state.devices.get(uid), state.resources.get(uid)
    if device is None:
        return None
    return state_of(device.state, resource.error if resource is not None else ""), device.model


def _change(state: Tables, key: tuple[str, str] | None, devices: int, at: int) -> None:
    if key is not None:
        old = state.spending.get(key) or Spending()
        state.spending.put(key, Spending(old.devices + devices, old.offset - devices * at))
