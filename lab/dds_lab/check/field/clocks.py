"""Clocks that step: a host that was suspended, or whose time was corrected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dds_lab.check.draw import Draw

if TYPE_CHECKING:
    from dds_lab.check.fleets import Maker


def clock(maker: Maker, draw: Draw) -> None:
    """The clock of the scaler's process steps a few times, by seconds or minutes, mostly back."""
    for _ in range(draw.whole(2, 6)):
        seconds = draw.whole(1, 20) if draw.chance(0.3) else -draw.whole(1, draw.one((5, 60, 180)))
        maker.blow(draw.between(20, maker.trouble), "clock", "scaler", which=seconds)
