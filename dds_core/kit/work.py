"""One run of the rules: what was emitted so far, the gate that every decision passes, and the guard around each step.

Whatever is emitted is folded at once, so that the next rule sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from dds_core.events import Alerted, Decision, Event, encode
from dds_core.kit.state import Remembered

RULE_ERROR = "RuleError"
"""Reason of the alert that an error in a rule becomes."""

_STEPS = 50
"""Steps of one rule for one object in one group; a handful is what it takes."""

Caused = tuple[Event, int]
"""An event and the index in its group of the event that caused it; the fact has index 0."""

P = TypeVar("P", bound=Remembered[Any])
Of = TypeVar("Of")


class Work(Generic[P]):
    """`emitted` holds what follows from the fact that started the run; `touched` is all that was looked at. With `chained` the
    cause of an event is the newest one of its stream in the group, else it is always the fact."""

    def __init__(self, picture: P, at: int, apply: Callable[[P, Event, int], object], *, chained: bool = True) -> None:
        self.picture = picture
        self.at = at
        self.emitted: list[Caused] = []
        self.touched: Any = type(picture.dirty)()
        self._apply = apply
        self._chained = chained
        self._steps: dict[tuple[str, object], int] = {}
        self._newest: dict[str, int] = {}

    def decide(self, run: Callable[[Work[P]], None], keep: bool) -> Work[P]:
        """Let the rules run; without `keep` the picture is afterwards as it was."""
        if keep:
            run(self)
        else:
            with self.picture.trial():
                run(self)
        return self

    def emit(self, event: Event) -> None:
        """Record and fold."""
        stream = event.subject
        self._apply(self.picture, event, self.at)
        self.emitted.append((event, self._newest.get(stream, 0)))
        if self._chained:
            self._newest[stream] = len(self.emitted)

    def want(self, decision: Decision, target: str = "") -> bool:
        """Emit a decision unless it was already shown (mode observe) or its write was refused lately.

        target: what the adapter will name in the outcome of the write; the decision's subject when left out.
        """
        picture = self.picture
        if not picture.live:
            if picture.shown.get(decision.key) == encode(decision):
                return False
        else:
            if picture.reissue and decision.key in picture.reissue:
                picture.reissue.drop(decision.key)
                decision = replace(decision, reissued=True)
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
        if alert.key not in self.picture.shown:
            self.want(alert)

    def guarded(self, rule: str, step: Callable[[Work[P], Of], None], of: Of, subject: str = "") -> None:
        """An error in a rule stops what is decided for its one object, and is told; all else goes on. What the step had
        emitted stands: each event is folded whole, and what is left is decided when the object changes or at the next level
        pass. One that keeps undoing what another does for the object is left alone too, so that a run always ends."""
        taken = self._steps[rule, of] = self._steps.get((rule, of), 0) + 1
        if taken > _STEPS:
            fault = f"does not settle after {_STEPS} steps"
        else:
            try:
                step(self, of)
                return
            except Exception as error:
                fault = f"failed with {type(error).__name__}"
        whose = subject or str(of)
        text = f"{rule} {fault} for {whose}; nothing else is affected; report this with the log"
        self.alert(whose, RULE_ERROR, text)
