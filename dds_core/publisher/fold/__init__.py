"""`apply`: the fold of one event into the publisher's picture. Facts and decisions alike; it never decides.

Decisions made in mode `observe` are folded only as "already shown". Loading a log is `apply` and nothing else.
"""

from __future__ import annotations

from dds_core import events as e
from dds_core.events import Event
from dds_core.publisher.fold import decisions, fabric, objects, ourselves
from dds_core.publisher.fold.common import (
    BEYOND_BELIEF,
    DROPPED,
    FABRIC_,
    NOT_AS_WRITTEN,
    SECOND,
    Fold,
    pause_after,
    pool_of,
    shown_key,
    shows,
)
from dds_core.publisher.state import PoolPicture

__all__ = [
    "BEYOND_BELIEF",
    "DROPPED",
    "FABRIC_",
    "NOT_AS_WRITTEN",
    "SECOND",
    "apply",
    "pause_after",
    "pool_of",
    "shown_key",
    "shows",
]

_FOLDS: dict[type[Event], Fold] = {**objects.FOLDS, **fabric.FOLDS, **ourselves.FOLDS, **decisions.FOLDS}


def apply(picture: PoolPicture, event: Event, at: int) -> PoolPicture:
    """Fold `event`, which happened at the instant `at`, into `picture`; the same picture is returned."""
    if picture.reissue and isinstance(event, e.Fact):
        for key in list(picture.reissue):
            picture.reissue.drop(key)
    if isinstance(event, e.Decision) and getattr(event, "mode", "") == "observe":
        picture.shown.put(shown_key(event), e.encode(event))
    else:
        _FOLDS[type(event)](picture, event, at)
    if at > picture.now:
        picture.now = at
    return picture
