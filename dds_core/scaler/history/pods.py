"""What became of the newest pod of a name."""

from __future__ import annotations

from dds_core.model import FINISHED, Pod
from dds_core.scaler.timeline.words import Known
from dds_core.timeline.clock import duration, time_of_day
from dds_core.timeline.telling import UNCHANGED, Moment


class PodHistory:
    """A pod by namespace/name; `known` is updated by `take`. `first`: when it was seen first; `bound`: when it got its node;
    `gone`: when it ended; 0 for not yet. `early`: it existed when the log begins."""

    def __init__(self, name: str, known: Known) -> None:
        self._name, self._known = name, known
        self._begun, self._uid = False, ""
        self._last = Pod(uid="")
        self.first = self.bound = self.gone = 0
        self.early = False

    def take(self, moment: Moment) -> None:
        if moment.fact is None:
            return
        pair = self._known.learn(moment.fact)
        begins, self._begun = not self._begun and pair == UNCHANGED, True  # from a checkpoint
        for before, now in [(None, row) for row in self._known.objects.values()] if begins else [pair]:
            row = now if now is not None else before
            if isinstance(row, Pod) and self._known.name_of(row) == self._name:
                self._seen(row, moment.at, early=begins, gone=now is None)

    def _seen(self, pod: Pod, at: int, *, early: bool, gone: bool) -> None:
        if pod.uid != self._uid:
            self._uid, self.first, self.bound, self.early = pod.uid, at, 0, early
        self._last, self.bound, self.gone = pod, self.bound or (at if pod.node else 0), at if gone else 0

    def words(self, now: int) -> str:
        """One sentence; "" for a pod that was never seen."""
        took = duration((self.bound or self.gone or now) - self.first) + " or more" * self.early
        if not self.first:
            return ""
        if self.bound:
            when = "before the log begins" if self.early and self.bound == self.first else f"after {took}"
            told = [f"bound to {self._last.node} {when}", self._last.phase if self._last.phase in FINISHED else ""]
            told.append(f"deleted at {time_of_day(self.gone)[:8]}" if self.gone else "")
            return f"pod {self._name}: {', '.join(filter(None, told))}"
        if self.gone:
            return f"pod {self._name}: deleted after {took}, before it had a node"
        return f"pod {self._name}: waiting for {took} so far" + (
            f", {self._last.waiting}" if self._last.waiting else ""
        )
