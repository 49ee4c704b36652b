"""One run of the rules: what was emitted so far, and the gate that every decision passes.

Whatever is emitted is folded at once, so that the next rule sees it.
"""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Alerted, Decision, Event, encode
from dds_core.scaler.fold import apply, shown_key
from dds_core.scaler.indexes import Dirty
from dds_core.scaler.state import Picture


class Work:
    """`emitted` holds (event, index in the group of what caused it); the fact that started the run has index 0.
    `touched` is all that was looked at."""

    def __init__(self, picture: Picture, at: int) -> None:
        self.picture = picture
        self.at = at
        self.emitted: list[tuple[Event, int]] = []
        self.touched = Dirty()
        self.steps: dict[tuple[object, str], int] = {}
        self._newest: dict[str, int] = {}

    def emit(self, event: Event) -> None:
        """Record and fold. The cause is the newest event of the same stream in this group, else the fact."""
        stream = event.subject
        cause = self._newest.get(stream, 0)
        apply(self.picture, event, self.at)
        self.emitted.append((event, cause))
        self._newest[stream] = len(self.emitted)

    def want(self, decision: Decision, target: str = "") -> bool:
        """Emit a decision unless it was already shown (mode observe) or its write was refused lately.

        target: what the adapter will name in the outcome of the write; the decision's subject when left out.
        """
        picture = self.picture
        if picture.live and picture.reissue and shown_key(decision) in picture.reissue:
            picture.reissue.drop(shown_key(decision))
            decision = replace(decision, reissued=True)
        if not picture.live:
            if picture.shown.get(shown_key(decision)) == encode(decision):
                return False
        else:
            refusal = picture.refusals.get((type(decision).__name__, target or decision.subject))
            if refusal is not None and self.at < refusal.until:
                return False
        self.emit(decision)
        return True

    def has_come(self, due: int) -> bool:
        """Whether an instant has come. While a view is stale none has: what would keep the step from being taken may not be
        seen."""
        return self.at >= due and not self.picture.stale

    def alert(self, of: str, reason: str, text: str) -> None:
        """Tell a person, once for each thing and reason."""
        alert = Alerted(of=of, reason=reason, text=text, mode=self.picture.mode)
        if shown_key(alert) not in self.picture.shown:
            self.want(alert)
