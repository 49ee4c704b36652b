"""What the publisher itself remembers: folded from its decisions and from what became of them.

Each row is frozen; instants are microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from dds_core.model import Record
from dds_core.publisher.model import PoolModel, SliceLayout

PoolKey = tuple[str, str]
"""(driver, pool)."""


class PoolRow(Record, frozen=True):
    """A pool as it was decided last: the names that it has, in which slices, how described.

    `digests` belong to `slices`. `since` is the instant of the decision, `done` that of its write, 0 before. `settled`: the
    cluster showed it so. `void`: the write is not under way any more and did not come about. `misses` counts how often it had
    come about and had to be written again though nothing else was wanted. `open`: so many of its devices were offered, and
    nobody has taken them.
    """

    fabric: str
    prefix: str
    model: PoolModel
    generation: int
    slices: tuple[SliceLayout, ...]
    digests: tuple[str, ...]
    taint: str = ""
    since: int = 0
    done: int = 0
    settled: bool = False
    void: bool = False
    misses: int = 0
    open: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Every device of the pool."""
        return tuple(name for one in self.slices for name in one.devices)

    @property
    def came_about(self) -> bool:
        """Whether it was written, or seen so: then it is missed when it does not show."""
        return self.settled or self.done > 0

    def place(self, name: str) -> int | None:
        """Where among the slices the one of this name is."""
        return next((place for place, one in enumerate(self.slices) if one.name == name), None)


class Absent(Record, frozen=True):
    """A machine that whole answers no longer have, and the fabric it was in."""

    fabric: str
    since: int
