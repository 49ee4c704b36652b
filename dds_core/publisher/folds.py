"""`apply`: the fold of one event into the publisher's state."""

from __future__ import annotations

from collections.abc import Callable

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.publisher.fold import control, decisions, fabric, objects
from dds_core.publisher.state import PoolState

FOLDS = {**kit.FOLDS, **objects.FOLDS, **fabric.FOLDS, **control.FOLDS, **decisions.FOLDS}

apply: Callable[[PoolState, Event, int], PoolState] = kit.folding(FOLDS)
