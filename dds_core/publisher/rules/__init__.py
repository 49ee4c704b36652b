"""What follows from a fact that was just folded: which pools and which node labels are wanted now.

Whatever a rule emits is folded at once so that the next one sees it; `decide` takes all of it back, `settle` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dds_core.events import Event
from dds_core.publisher.rules import labels, pools
from dds_core.publisher.rules.work import Work
from dds_core.publisher.state import PoolPicture, stream_of

RULE_ERROR = "RuleError"
"""Reason of the alert that an error in a rule becomes."""

Caused = tuple[Event, int]
"""An event and the index in its group of the event that caused it; the fact has index 0."""

__all__ = ["RULE_ERROR", "Caused", "Work", "decide", "settle"]


def decide(picture: PoolPicture, at: int) -> list[Caused]:
    """What follows from the fact that was folded last, at the instant `at`; the picture is left as it was."""
    with picture.trial():
        return settle(picture, at).emitted


def settle(picture: PoolPicture, at: int) -> Work:
    """As `decide`, and what follows is folded. Before `Synced` nothing follows: the picture is not whole yet.

    Each pool and each node is looked at once: no rule touches what another has settled.
    """
    work = Work(picture, at)
    if picture.dirty.everything and picture.synced:
        picture.touch_everything()
        work.touched.everything = True
    dirty = picture.dirty.take()
    work.touched.add(dirty)
    if picture.synced:
        for key in sorted(dirty.pools):
            _guarded(work, pools.step, key, stream_of(key))
        for name in sorted(dirty.hosts):
            _guarded(work, labels.step, name, name)
        work.touched.add(picture.dirty.take())
    return work


def _guarded(work: Work, step: Callable[[Work, Any], None], of: Any, subject: str) -> None:
    """An error in a rule stops what is decided for its one pool or node, and is told; all else goes on."""
    try:
        step(work, of)
    except Exception as error:
        rule = f"{step.__module__.rpartition('.')[2]}.{step.__name__}"
        text = f"{rule} failed with {type(error).__name__} for {subject}; nothing else is affected; report this with the log"
        work.alert(subject, RULE_ERROR, text)
