"""`apply`: the fold of one event into the publisher's picture."""

from __future__ import annotations

from collections.abc import Callable

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.publisher.fold import decisions, fabric, objects, ourselves
from dds_core.publisher.state import PoolPicture

FOLDS = {**kit.FOLDS, **objects.FOLDS, **fabric.FOLDS, **ourselves.FOLDS, **decisions.FOLDS}

apply: Callable[[PoolPicture, Event, int], PoolPicture] = kit.folding(FOLDS)
