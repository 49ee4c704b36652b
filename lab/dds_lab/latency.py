"""How long something takes: distributions of durations, in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Latency(Protocol):
    def draw(self, random: Random) -> float:
        """A duration in seconds, never negative."""


@dataclass(frozen=True)
class Fixed:
    seconds: float = 0.0

    def draw(self, random: Random) -> float:
        return self.seconds


@dataclass(frozen=True)
class Uniform:
    low: float
    high: float

    def draw(self, random: Random) -> float:
        return self.low + (self.high - self.low) * random.random()


@dataclass(frozen=True)
class LogNormal:
    """Log-normal: around a median, with a long upper tail; `spread` is the standard deviation of the logarithm."""

    median: float
    spread: float
    high: float = float("inf")

    def draw(self, random: Random) -> float:
        return min(self.high, self.median * random.lognormvariate(0.0, self.spread))


@dataclass(frozen=True)
class Measured:
    """Measured durations, sorted. A draw interpolates linearly between two neighbours."""

    seconds: Sequence[float]

    def draw(self, random: Random) -> float:
        ordered = self.seconds
        place = random.random() * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


NONE = Fixed(0.0)
