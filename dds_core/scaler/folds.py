"""`apply`: the fold of one event into the scaler's state."""

from __future__ import annotations

from collections.abc import Callable

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.scaler import exchange, hold
from dds_core.scaler.fold import control, decisions, lives, objects
from dds_core.scaler.state import State

FOLDS = {
    **kit.FOLDS,
    **objects.FOLDS,
    **control.FOLDS,
    **decisions.FOLDS,
    **exchange.FOLDS,
    **hold.FOLDS,
    **lives.FOLDS,
}

apply: Callable[[State, Event, int], State] = kit.folding(FOLDS)
