"""What the folds of all components have in common: `apply`, facts about objects, and facts about ourselves.

A component has a table of folds by event type; the functions here stand in it, or are called by its own. A fold never decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from dds_core import events as e
from dds_core.events import KIND_OF, Event
from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.kit.state import Key, Refusal, Remembered

P = TypeVar("P", bound=Remembered[Any])
Fold = Callable[[Any, Any, int], None]
Picture = Remembered[Any]


def folding(folds: Mapping[type[Event], Fold]) -> Callable[[P, Event, int], P]:
    """The `apply` of a component with these folds."""

    def apply(picture: P, event: Event, at: int) -> P:
        """Fold `event`, which happened at the instant `at`, into `picture`; the same picture is returned. Facts, decisions and
        transitions alike: loading a log is this and nothing else. Decisions made in mode `observe` are folded only as "already
        shown".

        Raises IllegalTransition for a transition that its table does not have; the picture is then as before.
        """
        if picture.reissue and isinstance(event, e.Fact):
            picture.reissue.drop_where(lambda key: True)
        if isinstance(event, e.Decision) and getattr(event, "mode", "") == "observe":
            picture.shown.put(event.key, e.encode(event))
        else:
            folds[type(event)](picture, event, at)
        if at > picture.now:
            picture.now = at
        return picture

    return apply


def nothing(picture: Picture, event: Event, at: int) -> None:
    """Told for people; nothing rests on it."""


def alerted(picture: Picture, event: e.Alerted, at: int) -> None:
    picture.shown.put(event.key, e.encode(event))


# -- objects -----------------------------------------------------------------------------------------------------------


def observed(picture: Picture, event: Any, at: int) -> None:
    table = picture.table(KIND_OF[type(event)])
    table.put(event.uid, e.after(table.get(event.uid), event))


def gone(picture: Picture, event: Any, at: int) -> None:
    picture.table(KIND_OF[type(event)]).drop(event.uid)


def ending(fold: Fold = gone) -> Fold:
    """The fold of an object's end: what was rejected of it is forgotten, also when nothing else of it was ever taken in."""

    def folded(picture: Picture, event: Any, at: int) -> None:
        fold(picture, event, at)
        forget_rejections(picture, event.uid)

    return folded


def rejected(picture: Picture, event: e.Rejected, at: int) -> None:
    picture.rejections.put((event.uid, event.field, event.reason), True)


def forget_rejections(picture: Picture, uid: str) -> None:
    for key in list(picture.rejections_of[uid]):
        picture.rejections.drop(key)


def forget_words(picture: Picture, of: str) -> None:
    """What was told of something that is gone: if it comes again, it is told again."""
    forget_rejections(picture, of)
    for alert in list(picture.alerts_of[of]):
        picture.shown.drop(alert)


def gone_with(events: Iterable[type[Event]], kind: str) -> list[str]:
    """The types of decisions of which it is forgotten with an object of that kind that they were shown."""
    return [one.__name__ for one in events if issubclass(one, e.Decision) and one.gone_with == kind]


# -- ourselves ---------------------------------------------------------------------------------------------------------


def started(picture: Picture, event: e.Started, at: int) -> None:
    picture.epoch = event.epoch
    picture.synced = False
    picture.restarted = True


def synced(picture: P, at: int, void_unseen: Callable[[P, int], Iterable[Key]]) -> None:
    """The whole cluster was seen. After a restart a decision whose outcome it does not show is void, so that the level pass that
    follows decides it again; `void_unseen` gives the keys of those."""
    picture.synced = True
    picture.stale.clear()
    picture.synced_at = picture.synced_at or at
    picture.level_at = at
    if picture.restarted:
        picture.restarted = False
        for key in sorted(void_unseen(picture, at)):
            picture.reissue.put(key, True)


def stale(picture: Picture, event: e.Stale, at: int) -> None:
    picture.stale.add(event.resource)


def write_done(picture: Picture, event: e.WriteDone) -> None:
    picture.refusals.drop((event.action, event.target))
    picture.passed.drop(("retry", f"{event.action}/{event.target}"))


_FIRST_PAUSE = {e.WriteRefused: 30 * MICROSECONDS, e.WriteObsolete: 2 * MICROSECONDS}
"""Pauses double from here to 10 minutes. What made a write obsolete is observed sooner than the pause is over."""


def try_later(picture: Picture, event: e.WriteRefused | e.WriteObsolete, at: int, node: str = "") -> None:
    """The write came to nothing; the same is not decided again before a pause. `node` is where an order was for."""
    key = (event.action, event.target)
    before = picture.refusals.get(key)
    forget_old_refusals(picture, at)
    count = before.count + 1 if before is not None else 1
    pause = min(_FIRST_PAUSE[type(event)] << min(count - 1, 10), 600 * MICROSECONDS)
    picture.refusals.put(key, Refusal(count, at + pause, node))


def forget_old_refusals(picture: Picture, at: int) -> None:
    """What was refused so long ago and not tried again is wanted no more: its object may be gone."""
    for key, refusal in list(picture.refusals.rows.items()):
        if refusal.until <= at - HOUR:
            picture.refusals.drop(key)
            picture.passed.drop(("retry", "/".join(key)))


FOLDS: dict[type[Event], Fold] = {
    e.Rejected: rejected,
    e.Started: started,
    e.Stale: stale,
    e.Superseded: nothing,
    e.Checkpoint: nothing,
    e.Alerted: alerted,
}
"""Those that are the same in every component, unless it has its own."""
