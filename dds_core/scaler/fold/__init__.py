"""`apply`: the fold of one event into the scaler's picture."""

from __future__ import annotations

from collections.abc import Callable

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.scaler.fold import decisions, lives, objects, ourselves
from dds_core.scaler.state import Picture

FOLDS = {**kit.FOLDS, **objects.FOLDS, **ourselves.FOLDS, **decisions.FOLDS, **lives.FOLDS}

apply: Callable[[Picture, Event, int], Picture] = kit.folding(FOLDS)
