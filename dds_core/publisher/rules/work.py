"""One run of the publisher's rules: what was emitted so far, and the gate that every decision passes."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Alerted, Decision, Event, encode
from dds_core.publisher.fold import apply, shown_key
from dds_core.publisher.state import Dirty, PoolPicture


class Work:
    """`emitted` holds (event, index in the group of what caused it); the fact that started the run has index 0.
    `touched` is all that was looked at."""

    def __init__(self, picture: PoolPicture, at: int) -> None:
        self.picture = picture
        self.at = at
        self.emitted: list[tuple[Event, int]] = []
        self.touched = Dirty()

    def emit(self, event: Event) -> None:
        """Record and fold."""
        apply(self.picture, event, self.at)
        self.emitted.append((event, 0))

    def want(self, decision: Decision) -> bool:
        """Emit a decision unless it was already shown (mode observe) or its write was refused lately."""
        picture, key = self.picture, shown_key(decision)
        if not picture.live:
            if picture.shown.get(key) == encode(decision):
                return False
        else:
            if picture.reissue and key in picture.reissue:
                picture.reissue.drop(key)
                decision = replace(decision, reissued=True)
            refusal = picture.refusals.get((type(decision).__name__, decision.subject))
            if refusal is not None and self.at < refusal.until:
                return False
        self.emit(decision)
        return True

    def alert(self, of: str, reason: str, text: str) -> None:
        """Tell a person, once for each thing and reason."""
        alert = Alerted(of=of, reason=reason, text=text, mode=self.picture.mode)
        if shown_key(alert) not in self.picture.shown:
            self.want(alert)
