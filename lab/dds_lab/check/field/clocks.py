"""Clocks that step: a host that was suspended, or whose time was corrected."""

from __future__ import annotations

from dds_lab.check.draw import Draw
from dds_lab.check.field.ground import Ground


def clock(maker: Ground, draw: Draw) -> None:
    """The clock of the scaler's process steps a few times, by seconds or minutes, mostly back."""
    for _ in range(draw.whole(2, 6)):
        seconds = draw.whole(1, 20) if draw.chance(0.3) else -draw.whole(1, draw.one((5, 60, 180)))
        maker.blow(draw.between(20, maker.trouble), "clock", "scaler", which=seconds)
