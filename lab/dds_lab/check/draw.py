"""Random numbers and choices from a seed. Only `random()` of Python's generator is used: it gives the same numbers in every
version of Python."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Random numbers and choices from a seed."""

    def __init__(self, seed: int | str) -> None:
        self._next = Random(seed).random

    def after(self, passed: int) -> Draw:
        """Itself, after so many numbers for which nothing is drawn any more: a seed goes on meaning the same."""
        for _ in range(passed):
            self._next()
        return self

    def chance(self, likely: float) -> bool:
        return self._next() < likely

    def between(self, low: float, high: float) -> float:
        return round(low + (high - low) * self._next(), 3)

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int((high - low + 1) * self._next())

    def one(self, of: Sequence[T]) -> T:
        return of[int(len(of) * self._next())]

    def some(self, of: Sequence[T], most: int) -> list[T]:
        """One to `most` different elements, in their order."""
        left = list(range(len(of)))
        chosen = [left.pop(int(len(left) * self._next())) for _ in range(min(len(left), self.whole(1, most)))]
        return [of[place] for place in sorted(chosen)]
