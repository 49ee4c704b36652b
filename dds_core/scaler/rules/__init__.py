"""`decide`: which transitions and decisions follow from a fact that was just folded.

Order of the rules: devices, then claims, then nodes, again until nothing is left to look at. Whatever they emit is folded at
once so that the next rule sees it; `decide` takes all of it back, `settle` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable

from dds_core.events import Event
from dds_core.scaler.rules import claims, devices, nodes, release
from dds_core.scaler.rules.orders import held_back
from dds_core.scaler.rules.work import Work
from dds_core.scaler.state import Picture

RULE_ERROR = "RuleError"
"""Reason of the alert that an error in a rule becomes."""

_STEPS = 50
"""Steps of one rule for one object in one group; a handful is what it takes."""

Caused = tuple[Event, int]
"""An event and the index in its group of the event that caused it; the fact has index 0."""


def decide(picture: Picture, at: int) -> list[Caused]:
    """What follows from the fact that was folded last, at the instant `at`; the picture is left as it was."""
    with picture.trial():
        return settle(picture, at).emitted


def settle(picture: Picture, at: int) -> Work:
    """As `decide`, and what follows is folded. Before `Synced` nothing follows: the picture is not whole yet.

    Always ends: an object whose rules keep undoing each other is left alone, as one whose rule fails.
    """
    work = Work(picture, at)
    if not picture.synced:
        work.touched.add(picture.dirty.take())
        return work
    while picture.dirty:
        _round(work)
    return work


def _round(work: Work) -> None:
    """Devices until they are quiet, then claims, then each node once: a node is only looked at when all that it rests on
    has settled."""
    picture = work.picture
    dirty, touched = picture.dirty, work.touched
    if dirty.everything:
        picture.touch_everything()
        dirty.everything = False
        touched.everything = True
    if dirty.devices:
        uids, dirty.devices = dirty.devices, set()
        touched.devices |= uids
        for uid in sorted(uids):
            _guarded(work, devices.step, uid)
            _guarded(work, release.check_departures, uid)
    elif dirty.claims:
        uids, dirty.claims = dirty.claims, set()
        touched.claims |= uids
        for uid in sorted(uids):
            _guarded(work, claims.step, uid)
    elif dirty.rules:
        uids, dirty.rules = dirty.rules, set()
        for uid in sorted(uids):
            _guarded(work, release.lift, uid)
    else:
        if dirty.freed:
            freed, dirty.freed = dirty.freed, 0
            if held_back(picture, freed):
                dirty.nodes |= picture.waiting_at.sets.keys()
        names, dirty.nodes = dirty.nodes, set()
        touched.nodes |= names
        for name in sorted(names):
            _guarded(work, nodes.step, name)


def _guarded(work: Work, step: Callable[[Work, str], None], subject: str) -> None:
    """An error in a rule stops what is decided for its one object, and is told; all else goes on. What the step had emitted
    stands: each event is folded whole, and what is left is decided when the object changes or at the next level pass."""
    taken = work.steps[step, subject] = work.steps.get((step, subject), 0) + 1
    if taken > _STEPS:
        fault = f"does not settle after {_STEPS} steps"
    else:
        try:
            step(work, subject)
            return
        except Exception as error:
            fault = f"failed with {type(error).__name__}"
    rule = f"{step.__module__.removeprefix('dds_core.scaler.')}.{step.__name__}"
    text = f"{rule} {fault} for {subject}; nothing else is affected; report this with the log"
    work.alert(subject, RULE_ERROR, text)
