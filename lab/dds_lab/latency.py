"""How long something takes: a distribution to draw from, in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Latency(Protocol):
    """A distribution of durations."""

    def draw(self, random: Random) -> float:
        """One duration in seconds, never negative."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Always the same."""

    seconds: float = 0.0

    def draw(self, random: Random) -> float:
        return self.seconds


@dataclass(frozen=True)
class Uniform:
    """Anything between two bounds, each as likely as the other."""

    low: float
    high: float

    def draw(self, random: Random) -> float:
        return self.low + (self.high - self.low) * random.random()


@dataclass(frozen=True)
class LogNormal:
    """Around a median with a long upper tail (log-normal); `spread` is the standard deviation of the logarithm."""

    median: float
    spread: float
    high: float = float("inf")

    def draw(self, random: Random) -> float:
        return min(self.high, self.median * random.lognormvariate(0.0, self.spread))


@dataclass(frozen=True)
class Measured:
    """Drawn from durations that were measured; between two neighbours of the sorted list each is as likely as the other."""

    seconds: Sequence[float]

    def draw(self, random: Random) -> float:
        ordered = self.seconds
        place = random.random() * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


NONE = Fixed(0.0)
