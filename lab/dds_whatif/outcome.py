"""The outcome of a run or of a recorded source: waits, pods that were never bound, attaches, detaches, and device-time by state.
Both are computed from a `History`, so that they can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, sqrt

from dds_core.kit.policy import MICROSECONDS
from dds_core.scaler.blame import STAGES
from dds_core.scaler.history import BOUND, History
from dds_core.scaler.history.usage import most_at_once, usage
from dds_core.scaler.spending import IDLE, STATES
from dds_core.timeline import Moment

FEW = 20
"""With fewer waits than this, a quantile has no interval."""
HOUR = 3_600 * MICROSECONDS


@dataclass(frozen=True)
class Outcome:
    """`waits`: seconds that each claim's pod waited in total, ascending. `never`: claims that were neither served nor withdrawn.
    `spent`: device-time by model and state in microseconds. `span`: seconds from the first moment to the last. `fixed`: by model,
    the devices of all nodes together if each node owned as many as it ever used at once. `stages`: seconds that claims waited in
    each stage, together. `marked`: seconds for which devices were marked to leave, together."""

    waits: tuple[float, ...]
    claims: int
    never: int
    withdrawn: int
    attaches: int
    detaches: int
    attempts: int
    failed: int
    spent: dict[str, dict[str, int]]
    span: float
    fixed: dict[str, int]
    stages: dict[str, float] = field(default_factory=dict)
    marked: float = 0.0

    def wait(self, share: float) -> float:
        """The nearest-rank quantile of the waits in seconds; 0 without waits."""
        return self._ranked(ceil(round(share * len(self.waits), 6)))

    def between(self, share: float) -> tuple[float, float] | None:
        """The 95 % confidence interval of that quantile, by ranks (Conover, Practical Nonparametric Statistics, 3.2). None with
        fewer than `FEW` waits, whose interval would cover all of them."""
        if len(self.waits) < FEW:
            return None
        middle, wide = share * len(self.waits), 1.96 * sqrt(share * (1 - share) * len(self.waits))
        return self._ranked(int(middle - wide)), self._ranked(ceil(middle + wide))

    def _ranked(self, rank: int) -> float:
        """The wait with a rank from 1; a rank out of range gives the first or the last one."""
        return self.waits[min(len(self.waits), max(1, rank)) - 1] if self.waits else 0.0

    def measures(self) -> dict[str, float]:
        """All measures by which runs are compared, in the order of the output."""
        days = self.span / 86_400 or 1.0
        hours = {state: sum(one[state] for one in self.spent.values()) / HOUR for state in STATES}
        return {
            "wait mean": sum(self.waits) / len(self.waits) if self.waits else 0.0,
            "wait p50": self.wait(0.5),
            "wait p95": self.wait(0.95),
            "wait max": self.wait(1.0),
            "never bound": float(self.never),
            "attaches": float(self.attaches),
            "detaches": float(self.detaches),
            "attaches a day": self.attaches / days,
            "detaches a day": self.detaches / days,
            "failed attempts": float(self.failed),
            **{f"{state} hours": hours[state] for state in STATES},
        }

    def aspects(self) -> dict[str, float]:
        """What a model assumes, as one can measure it: the seconds of a claim in each stage of its wait, the attempts of a claim,
        and how long an attached device idles before and after it is marked to leave."""
        claims, devices = self.claims or 1, self.attaches or 1
        idle = sum(one[IDLE] for one in self.spent.values()) / MICROSECONDS - self.marked
        return {
            **{f"{stage} seconds of a claim": found / claims for stage, found in self.stages.items()},
            "attempts of a claim": self.attempts / claims,
            "idle seconds of a device": idle / devices,
            "marked seconds of a device": self.marked / devices,
        }


def outcome(moments: Iterable[Moment], until: int = 0) -> Outcome:
    """The outcome of these moments, up to an instant in microseconds if one is given."""
    history = History()
    for moment in moments:
        if until and moment.at > until:
            break
        history.take(moment)
    if until:
        history.now = until
    return counted(history)


def counted(history: History) -> Outcome:
    waited = [one for one in history.claims.values() if one.spans and not one.early]
    spent = usage(history, ("model",), lambda day: "")
    attempts = [attempt for claim in waited for attempt in claim.attempts]
    stages = dict.fromkeys(STAGES, 0.0)
    for span in (span for claim in waited for span in claim.spans if span.stage != BOUND):
        stages[span.stage] += span.length(history.now) / MICROSECONDS
    return Outcome(
        waits=tuple(sorted(one.waited(history.now) / MICROSECONDS for one in waited)),
        claims=len(waited),
        never=sum(one.outcome in ("waiting", "failed") for one in waited),
        withdrawn=sum(one.outcome == "withdrawn" for one in waited),
        attaches=sum(one.named > history.first for one in history.devices.values()),
        detaches=sum(bool(one.gone) for one in history.devices.values() if one.named),
        attempts=len(attempts),
        failed=sum(one.outcome in ("failed", "diverted") for one in attempts),
        spent={key[0]: dict(row) for key, row in sorted(spent.items())},
        span=(history.now - history.first) / MICROSECONDS,
        fixed={model: nodes for model, (_, nodes) in sorted(most_at_once(history).items())},
        stages=stages,
        marked=sum(one.marked for one in history.devices.values()) / MICROSECONDS,
    )
