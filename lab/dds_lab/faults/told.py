"""Faults that were told in advance and wait for what they befall."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, Protocol, TypeVar


class Counted(Protocol):
    """`times` is how often it strikes, 0 for until it is lifted; `chance` how likely it strikes what it may befall."""

    @property
    def times(self) -> int: ...
    @property
    def chance(self) -> float: ...


F = TypeVar("F", bound=Counted)


class Told(Generic[F]):
    """The faults that wait, the earliest told first."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._left: list[tuple[F, int]] = []

    def add(self, fault: F) -> None:
        self._left.append((fault, fault.times))

    def lift(self, fault: F) -> None:
        """End a fault early; one that is not there is none."""
        self._left = [(one, left) for one, left in self._left if one != fault]

    def waiting(self) -> tuple[F, ...]:
        return tuple(fault for fault, _ in self._left)

    def struck(self, befalls: Callable[[F], bool], most: int | None = None) -> tuple[F, ...]:
        """Those that strike now, `most` at the most; one that has struck `times` times is gone."""
        struck: list[F] = []
        kept: list[tuple[F, int]] = []
        for fault, left in self._left:
            hit = (most is None or len(struck) < most) and befalls(fault) and self._drawn(fault)
            if hit:
                struck.append(fault)
            if not hit or left != 1:
                kept.append((fault, left - 1 if hit and left else left))
        self._left = kept
        return tuple(struck)

    def _drawn(self, fault: F) -> bool:
        return fault.chance >= 1.0 or self._random.random() < fault.chance
