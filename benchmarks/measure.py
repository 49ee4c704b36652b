"""Measure contenders side by side: every round runs each of them once, in turning order; ratios are taken per round.

A shared machine drifts by tens of per cent within minutes. Two programs that run alternately drift together, so the
ratio of one round is worth more than the two rates, and the median over rounds more than any single one. Nothing here
judges or fails.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

TimedCall = Callable[[], int]
"""Does what is timed, and returns how many operations that was."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work. `prepare` makes ready, hands over the work to be timed, and clears up, all untimed."""

    name: str
    prepare: Callable[[], AbstractContextManager[TimedCall]]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per operation, one number a round."""

    name: str
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Median of operations per second."""
        return 1 / statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast one contender was as another: median, and the range over the rounds."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `target` is a lower bound of the ratio (None: told for information)."""

    what: str
    ours: str
    against: str = ""
    ratio: Ratio | None = None
    target: str = ""
    met: bool | None = None


@contextmanager
def ready(work: TimedCall) -> Iterator[TimedCall]:
    """Wrap work that needs no preparation."""
    yield work


def contender(name: str, work: TimedCall) -> Contender:
    """Make a contender of work that can be repeated as it is."""
    return Contender(name, lambda: ready(work))


def side_by_side(contenders: Sequence[Contender], rounds: int) -> dict[str, Timing]:
    """Run every contender once a round, starting with another one each time."""
    seconds: dict[str, list[float]] = {each.name: [] for each in contenders}
    for number in range(rounds):
        first = number % len(contenders)
        for each in (*contenders[first:], *contenders[:first]):
            with each.prepare() as work:
                gc.collect()
                start = time.perf_counter()
                operations = work()
                seconds[each.name].append((time.perf_counter() - start) / operations)
    return {name: Timing(name, tuple(taken)) for name, taken in seconds.items()}


def ratio(ours: Timing, other: Timing) -> Ratio:
    """Compare two timings of the same rounds."""
    by_round = [theirs / mine for mine, theirs in zip(ours.seconds, other.seconds, strict=True)]
    return Ratio(statistics.median(by_round), min(by_round), max(by_round))


def compare(what: str, ours: Timing, other: Timing, *, unit: str, at_least: float | None = None) -> Row:
    """Make the table's line that says how `ours` stands to `other`."""
    found = ratio(ours, other)
    return Row(
        what,
        f"{short(ours.rate)} {unit}/s",
        f"{other.name}: {short(other.rate)}/s",
        found,
        "" if at_least is None else f"≥ {at_least:g}",
        None if at_least is None else found.median >= at_least,
    )


def compare_best(what: str, ours: Timing, other: Timing, *, unit: str, at_least: float) -> Row:
    """Compare the best round of each, where a contender has speeds that differ by more than the others do."""
    mine, theirs = min(ours.seconds), min(other.seconds)
    found = Ratio(theirs / mine, theirs / mine, theirs / mine)
    against = f"{other.name}: {short(1 / theirs)}/s"
    return Row(what, f"{short(1 / mine)} {unit}/s", against, found, f"≥ {at_least:g}", found.median >= at_least)


def short(number: float) -> str:
    """Write a number with three digits: 1234567 as 1.23M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}" if number < 1000 * size else f"{number / size:.0f}{letter}"
    return f"{number:.3g}"
