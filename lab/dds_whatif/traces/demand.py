"""The common form of all traces: who held how many devices from when until when. Times are seconds on the trace's own clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

Window = tuple[float, float]
"""Start (included) and end (excluded)."""


@dataclass(frozen=True, slots=True)
class Held:
    """A row that asked for devices and held them in [start, end)."""

    name: str
    """Valid as a pod's name, and unique in the trace."""
    owner: str
    """A service or tenant; "" if the trace has none."""
    created: float | None
    """None: before the trace begins."""
    start: float | None
    """None: it never ran, it only waited."""
    end: float | None
    """None: after the trace ends."""
    devices: int
    model: str
    """The model of all its devices."""
    thousandths: int
    """Thousandths of a device that it asked for; less than `devices` × 1000 if it can share one."""
    cpu: int = 0
    """Thousandths of a core; 0 if the trace does not say."""
    memory: int = 0
    """MiB; 0 if the trace does not say."""

    def arrived(self, otherwise: float) -> float:
        """When it was created; `otherwise` if that was before the trace."""
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
    """The window to use by default."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Rows that hold no device, by reason."""
    waits: bool = True
    """Whether `start` is the real start, so that start − created is a wait."""
    calendar: bool = False
    """Whether times are seconds since 1970-01-01."""
    gangs: bool = False
    """Whether a row may hold devices of several nodes."""
    hosts: tuple[Host, ...] | None = None
    """The trace's nodes without devices of their own; None if the trace names no nodes."""

    @property
    def rows(self) -> int:
        """Number of rows in the file, without blank lines."""
        return len(self.held) + self.left_out.total()
