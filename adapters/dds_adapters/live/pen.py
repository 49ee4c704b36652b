"""The pen of a log: groups that are decided wait here, in order, until they are in the log, whole and unchanged, however often
that fails. It decides nothing and looks into no event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dds_core.engine import Step
from dds_core.errors import LogUnavailable
from dds_core.log import Envelope, EventLog, Group, Head

CHUNK = 500
"""Groups that are appended at a time."""


class Committed(NamedTuple):
    """One group that is in the log: the step, and its rows in the same order, the fact first."""

    step: Step
    envelopes: Sequence[Envelope]


class Pen:
    """For one writer of a log. `away` is True while the log cannot be written; `position` is that of the newest event known."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.epoch = 0
        self.position = 0
        self.away = False
        self._pending: deque[tuple[Step, Group]] = deque()
        self._ordinal = 0

    def __len__(self) -> int:
        """Groups that wait."""
        return len(self._pending)

    @property
    def oldest(self) -> int | None:
        """The instant of the first of them."""
        return self._pending[0][0].at if self._pending else None

    def take(self, now: int) -> Head:
        """Become the one who writes; gives the log's head as it is from then on. Raises LogUnavailable."""
        self.epoch = self.log.take_epoch(now)
        self._ordinal = 0
        return self.log.head()

    def put(self, step: Step) -> None:
        """One more group, behind all others."""
        self._pending.append((step, step.group(self._ordinal)))
        self._ordinal += 1

    def append(self, now: int) -> Iterator[list[Committed]]:
        """Write what waits, and give it batch by batch. Raises LogUnavailable: what was not given waits on; and Fenced."""
        while self._pending:
            batch = [self._pending[i] for i in range(min(CHUNK, len(self._pending)))]
            try:
                rows = self.log.append([group for _, group in batch], epoch=self.epoch, recorded_at=now)
            except LogUnavailable:
                self.away = True
                raise
            self.away = False
            for _ in batch:
                self._pending.popleft()
            if rows:
                self.position = rows[-1].position
            yield _with_rows(batch, rows)


def _with_rows(batch: Sequence[tuple[Step, Group]], rows: Sequence[Envelope]) -> list[Committed]:
    committed, start = [], 0
    for step, group in batch:
        committed.append(Committed(step, rows[start : start + len(group.events)]))
        start += len(group.events)
    return committed
