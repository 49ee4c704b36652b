"""What every trace says, whatever its form: who held how many devices from when until when.

Times are seconds, on the trace's own clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

Window = tuple[float, float]
"""From (in it) until (not in it)."""


@dataclass(frozen=True, slots=True)
class Held:
    """Who asked for devices, and held them in [start, end)."""

    name: str
    """Fit for a pod, and there once in a trace."""
    owner: str
    """A service or tenant; "" where the trace has none."""
    created: float | None
    """None: before the trace begins."""
    start: float | None
    """None: never, it only waited."""
    end: float | None
    """None: after the trace ends."""
    devices: int
    model: str
    """The model of all of them."""
    thousandths: int
    """Of devices that it asked for; less than `devices` × 1000 where it can share one."""
    cpu: int = 0
    """Thousandths of a core, 0 where the trace does not say."""
    memory: int = 0
    """MiB, 0 where the trace does not say."""

    def arrived(self, otherwise: float) -> float:
        """When it was created; `otherwise` for what was there before the trace."""
        return otherwise if self.created is None else self.created


class Host(NamedTuple):
    """A node without devices of its own."""

    cpu: int
    """Thousandths of a core."""
    memory: int
    """MiB."""


@dataclass(frozen=True)
class Trace:
    """A trace that has been read."""

    kind: str
    held: list[Held]
    """In the order of the file."""
    window: Window
    """What is looked at where nobody says otherwise."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Rows that hold no device, by reason."""
    waits: bool = True
    """Whether `start` is when it really began, so that start − created is a wait."""
    calendar: bool = False
    """Whether times are seconds since 1970-01-01."""
    gangs: bool = False
    """Whether a row may hold devices of several nodes."""
    hosts: tuple[Host, ...] | None = None
    """The nodes of the trace that have no devices of their own; None: it names no nodes."""

    @property
    def rows(self) -> int:
        """Rows in its file, without blank lines."""
        return len(self.held) + self.left_out.total()
