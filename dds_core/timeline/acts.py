"""Who did it: tells what dds itself had decided, and so caused, from what somebody else did in its place.

Conditions, requests, marks and cleared allocations are what a scaler does. Where a live decision of ours asked for just
this, it is ours; everything else, and in mode observe all of it, is somebody else's.
"""

from __future__ import annotations

from dds_core import events as e
from dds_core.events import Decision, Event
from dds_core.model import AttachRequest, Claim, FabricResource
from dds_core.timeline.known import Known, Pair

_SCALERS = ("FabricDevice",)


class Acts:
    """Remembers our own live decisions as (what, of which object, value)."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._wanted: set[tuple[str, str, str]] = set()

    def decided(self, decision: Decision) -> None:
        """Keep what a decision will be seen by, once it is carried out."""
        if getattr(decision, "mode", "") == "observe":
            return
        match decision:
            case e.AttachOrdered() | e.DetachOrdered():
                self._wanted.add(("size", decision.request, str(decision.size)))
            case e.HandOver():
                self._wanted |= {
                    ("condition", s.claim, entry.condition) for s in decision.signals for entry in s.entries
                }
            case e.FailureSignalled():
                self._wanted |= {("condition", decision.claim, entry.condition) for entry in decision.signal.entries}
            case e.VictimMarked() | e.VictimUnmarked():
                self._wanted.add(("mark", decision.resource, str(isinstance(decision, e.VictimMarked))))

    def is_act(self, fact: Event, pair: Pair) -> bool:
        """Whether the fact shows that somebody else did a scaler's work."""
        before, after = pair
        match after:
            case AttachRequest():
                old = before.size if isinstance(before, AttachRequest) else None
                return after.size != old and ("size", after.name, str(after.size)) not in self._wanted
            case Claim():
                return any(("condition", after.uid, name) not in self._wanted for name in _set_anew(before, after))
            case FabricResource():
                marked = before.marked if isinstance(before, FabricResource) else False
                return after.marked != marked and ("mark", after.uid, str(after.marked)) not in self._wanted
            case _:
                return False


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
