"""Steps as a scaler commits them: in a log in memory, each group with its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dds_core.engine import Step
from dds_core.log import Envelope, MemoryLog


class Committed(NamedTuple):
    """A step and its rows, the fact's first."""

    step: Step
    envelopes: list[Envelope]


def commits(steps: Iterable[Step], delay: int = 0) -> Iterator[Committed]:
    """Each step appended by itself, so many microseconds after its instant."""
    log = MemoryLog("test/scaler", cluster="11111111-1111-1111-1111-111111111111", recorded_at=0)
    epoch = log.take_epoch(0)
    for ordinal, step in enumerate(steps):
        yield Committed(step, log.append([step.group(ordinal)], epoch=epoch, recorded_at=step.at + delay))
