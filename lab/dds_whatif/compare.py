"""Compares runs of the model with reality, and runs of other policies with those of the first one, over the same seeds.

The model fits if each measure under the recorded policy is close enough to the recorded value. Reality is a random sample too, so
a measure also fits if one more seed could have given the recorded value. A quantile of waits also fits if the model is within the
confidence interval of the recorded quantile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Literal, NamedTuple

Measures = Mapping[str, float]

FIT = ("wait mean", "wait p50", "wait p95", "never bound", "attaches", "used hours", "idle hours")
"""Measures in which a model must fit."""
SLACK = {
    **dict.fromkeys(("wait mean", "wait p50", "wait p95"), 0.25),
    **dict.fromkeys(("used hours", "idle hours"), 0.01),
    **dict.fromkeys(("never bound", "attaches"), 0.0),
}
"""Absolute differences (seconds, device-hours, numbers) that are small enough to fit, however large their relative part."""
PART_OF_BOUND = {"wait p95": 5 / 3, "attaches": 1 / 3}
"""Of these measures another part of the bound is allowed: with 15 %, a quarter of a quantile at the edge, and 5 % of attaches."""
ENOUGH = 5
"""With fewer seeds than this there is no prediction of what one more seed could give."""
UNFELT, UNFELT_PART = 0.001, 0.005
"""Differences up to this value, or up to this relative part, count as none."""
NEUTRAL = ("used hours",)
"""Measures in which neither less nor more is better."""

_T = (
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
    2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t, for 1 and more degrees of freedom."""
_NORMAL = 1.96

Verdict = Literal["fits", "within the spread", "off"]
Word = Literal["better", "worse", "cannot tell", "the same", "other"]


class Fit(NamedTuple):
    """A measure in reality, with its confidence interval if it has one, and the median, lowest and highest value over the seeds.
    `off` is the median's relative difference from reality, None if reality is 0. `why`: which assumption of the model fails, and
    by how much, unless the verdict is `fits`."""

    measure: str
    real: float
    interval: tuple[float, float] | None
    model: float
    low: float
    high: float
    off: float | None
    verdict: Verdict
    why: str = ""


class Difference(NamedTuple):
    """A policy's measure minus the first policy's, over the same seeds: the mean, and half the width of its 95 % interval (None
    with a single seed)."""

    measure: str
    mean: float
    first: float
    difference: float
    half: float | None
    word: Word


def fits(
    real: Measures, runs: Sequence[Measures], bound: float, intervals: Mapping[str, tuple[float, float]]
) -> list[Fit]:
    """Compare each measure of the runs with reality. `bound` is the allowed relative difference, such as 0.15; `intervals` are
    confidence intervals of reality's measures."""
    return [_fit(name, real[name], [run[name] for run in runs], bound, intervals.get(name)) for name in FIT]


def _fit(name: str, real: float, values: Sequence[float], bound: float, interval: tuple[float, float] | None) -> Fit:
    middle, low, high = median(values), min(values), max(values)
    off = (middle - real) / real if real else None
    verdict: Verdict = "off"
    if abs(middle - real) <= max(SLACK[name], bound * PART_OF_BOUND.get(name, 1.0) * abs(real)):
        verdict = "fits"
    elif _foreseen(values, real) or (interval is not None and interval[0] <= middle <= interval[1]):
        verdict = "within the spread"
    return Fit(name, real, interval, middle, low, high, off, verdict)


def failing(measure: str, real: Measures, runs: Sequence[Measures]) -> str:
    """What a claim or a device did most differently from the model, by `Outcome.aspects` of reality and of the runs. Waits are
    sums of seconds, so for them the largest difference counts; else the largest part of the attempts or of a device's seconds."""
    model = {name: fmean(run[name] for run in runs) for name in real}
    waits = measure.startswith("wait")
    names = [name for name in real if name.endswith("seconds of a claim") == waits]
    devices = [name for name in names if name.endswith(" of a device")]

    def size(name: str) -> float:
        whole = devices if name in devices else [name]
        most = max(sum(told[one] for one in whole) for told in (real, model))
        return abs(model[name] - real[name]) / (1.0 if waits else most or 1.0)

    name = max(names, key=size)
    return f"{name}: {real[name]:.3g}, in the model {model[name]:.3g}"


def _foreseen(values: Sequence[float], real: float) -> bool:
    """Whether reality is within the runs' 95 % prediction interval: the values that one more run may have."""
    half = half_width(values) if len(values) >= ENOUGH else None
    return half is not None and abs(real - fmean(values)) <= half * float((len(values) + 1) ** 0.5)


def differences(first: Sequence[Measures], other: Sequence[Measures]) -> list[Difference]:
    """The difference of each measure, paired by seed."""
    return [
        _difference(name, [run[name] for run in first], [run[name] for run in other])
        for name in first[0]
        if name in other[0] and not name.endswith(" a day")  # tells the same as the total
    ]


def _difference(name: str, first: Sequence[float], other: Sequence[float]) -> Difference:
    each = [b - a for a, b in zip(first, other, strict=True)]
    mean, half = fmean(each), half_width(each)
    return Difference(name, fmean(other), fmean(first), mean, half, _word(name, fmean(first), mean, half))


def half_width(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the mean; None for a single value."""
    if len(values) < 2:
        return None
    free = len(values) - 1
    t: float = _T[free - 1] if free <= len(_T) else _NORMAL
    return t * stdev(values) / float(len(values) ** 0.5)


def _word(name: str, first: float, mean: float, half: float | None) -> Word:
    if abs(mean) <= max(UNFELT, UNFELT_PART * abs(first)):
        return "the same"
    if half is None or abs(mean) <= half:
        return "cannot tell"
    if name in NEUTRAL:
        return "other"
    return "better" if mean < 0 else "worse"
