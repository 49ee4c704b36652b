"""`apply`: the fold of one event into the autoscaler's state."""

from __future__ import annotations

from collections.abc import Callable

from dds_core.autoscaler.fold import asks, control, decisions
from dds_core.autoscaler.state import Fleet
from dds_core.events import Event
from dds_core.kit import work as kit

FOLDS = {**kit.FOLDS, **asks.FOLDS, **control.FOLDS, **decisions.FOLDS}

apply: Callable[[Fleet, Event, int], Fleet] = kit.folding(FOLDS)
