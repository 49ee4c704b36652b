"""Sums the time of devices by state. The sums are part of the state, so that they go on over restarts; the history has spans."""

from __future__ import annotations

from typing import Any

from dds_core import lifecycle
from dds_core.kit.work import Fold
from dds_core.scaler.model import Spending
from dds_core.scaler.state import State

ATTACHING = "attaching"
IDLE = "idle"
USED = "used"
DETACHING = "detaching"
ERROR = "error"

STATES = (USED, IDLE, ATTACHING, DETACHING, ERROR)
"""States of a device on a node; `error`: it reports an error and no claim has it."""

_STATE_OF = {
    lifecycle.REQUESTED: ATTACHING,
    lifecycle.IDLE: IDLE,
    lifecycle.MARKED: IDLE,
    lifecycle.USED: USED,
    lifecycle.DEVICE_DETACHING: DETACHING,
}


def state_of(life: str, error: str) -> str:
    """The state to which a device's time counts, "" once it is gone; by the state of its life and its resource's error."""
    state = _STATE_OF.get(life, "")
    return ERROR if error and state not in ("", USED) else state


def counting(fold: Fold, field: str = "uid") -> Fold:
    """The fold of an event that may change to which state a device's time counts; `field` of the event names the resource."""

    def folded(state: State, event: Any, at: int) -> None:
        uid = getattr(event, field)
        before = _spends(state, uid)
        fold(state, event, at)
        after = _spends(state, uid)
        if before != after:
            _change(state, before, -1, at)
            _change(state, after, 1, at)

    return folded


def _spends(state: State, uid: str) -> tuple[str, str] | None:
    """(state, model); None for an unknown device."""
    device, resource = state.lifecycle.devices.get(uid), state.fleet.resources.get(uid)
    if device is None:
        return None
    return state_of(device.state, resource.error if resource is not None else ""), device.model


def _change(state: State, key: tuple[str, str] | None, devices: int, at: int) -> None:
    if key is not None:
        old = state.lifecycle.spending.get(key) or Spending()
        state.lifecycle.spending.put(key, Spending(old.devices + devices, old.offset - devices * at))
