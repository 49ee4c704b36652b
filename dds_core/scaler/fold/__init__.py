"""`apply`: the fold of one event into the picture. Facts, decisions and transitions alike; it never decides.

Decisions made in mode `observe` are folded only as "already shown". Loading a log is `apply` and nothing else.
"""

from __future__ import annotations

from dds_core import events as e
from dds_core.events import Event
from dds_core.scaler.fold import intents, lives, objects, ourselves
from dds_core.scaler.fold.common import DEPARTED, HOUR, SECOND, Fold, shown_key
from dds_core.scaler.state import Picture

__all__ = ["DEPARTED", "HOUR", "SECOND", "apply", "shown_key"]

_FOLDS: dict[type[Event], Fold] = {**objects.FOLDS, **ourselves.FOLDS, **intents.FOLDS, **lives.FOLDS}


def apply(picture: Picture, event: Event, at: int) -> Picture:
    """Fold `event`, which happened at the instant `at`, into `picture`; the same picture is returned.

    Raises IllegalTransition for a transition that its table does not have; the picture is then as before.
    """
    if picture.reissue and isinstance(event, e.Fact):
        for key in list(picture.reissue):
            picture.reissue.drop(key)
    mode = getattr(event, "mode", "")
    if isinstance(event, e.Decision) and mode == "observe":
        picture.shown.put(shown_key(event), e.encode(event))
    else:
        _FOLDS[type(event)](picture, event, at)
    if at > picture.now:
        picture.now = at
    return picture
