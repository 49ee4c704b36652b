"""Who did it: tells what dds itself had decided, and so caused, from what somebody else did in its place.

Conditions, requests and marks are what a scaler writes. Where a live decision of ours asked for just
this, it is ours; everything else, and in mode observe all of it, is somebody else's.
"""

from __future__ import annotations

from dds_core.events import Decision, Event
from dds_core.model import AttachRequest, Claim, FabricResource
from dds_core.scaler import events as e
from dds_core.timeline.known import Pair

_SCALERS = ("FabricDevice",)


class Acts:
    """Remembers our own live decisions by the object that they are about, until it is gone."""

    def __init__(self) -> None:
        self._wanted: dict[str, set[tuple[str, str]]] = {}

    def decided(self, decision: Decision) -> None:
        """Keep what a decision will be seen by, once it is carried out."""
        if getattr(decision, "mode", "") == "observe":
            return
        match decision:
            case e.AttachOrdered() | e.DetachOrdered():
                self._want(decision.request, "size", str(decision.size))
            case e.HandOver():
                for signal in decision.signals:
                    self._want_conditions(signal)
            case e.FailureSignalled():
                self._want_conditions(decision.signal)
            case e.VictimMarked() | e.VictimUnmarked():
                self._want(decision.resource, "mark", str(isinstance(decision, e.VictimMarked)))

    def _want(self, of: str, what: str, value: str) -> None:
        self._wanted.setdefault(of, set()).add((what, value))

    def _want_conditions(self, signal: e.Signal) -> None:
        for entry in signal.entries:
            self._want(signal.claim, "condition", entry.condition)

    def is_act(self, fact: Event, pair: Pair) -> bool:
        """Whether the fact shows that somebody else did a scaler's work."""
        before, after = pair
        match after:
            case AttachRequest():
                old = before.size if isinstance(before, AttachRequest) else None
                return after.size != old and not self._ours(after.name, "size", str(after.size))
            case Claim():
                return any(not self._ours(after.uid, "condition", name) for name in _set_anew(before, after))
            case FabricResource():
                marked = before.marked if isinstance(before, FabricResource) else False
                return after.marked != marked and not self._ours(after.uid, "mark", str(after.marked))
            case None if before is not None:
                self._wanted.pop(before.name if isinstance(before, AttachRequest) else getattr(before, "uid", ""), None)
        return False

    def _ours(self, of: str, what: str, value: str) -> bool:
        return (what, value) in self._wanted.get(of, ())


def _set_anew(before: object, after: Claim) -> set[str]:
    """The conditions of a scaler that are True now and were not before."""
    old = before.conditions if isinstance(before, Claim) else ()
    was = {(c.driver, c.pool, c.device, c.share, c.type) for c in old if c.status == "True"}
    return {
        c.type
        for c in after.conditions
        if c.status == "True"
        and c.type.startswith(_SCALERS)
        and (c.driver, c.pool, c.device, c.share, c.type) not in was
    }
