"""The deadlines of the autoscaler, and what each of them means."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.autoscaler.rooms import Dirty
from dds_core.autoscaler.state import Fleet
from dds_core.kit import deadlines as kit
from dds_core.kit.deadlines import Deadline, DeadlineKind

KINDS = kit.KINDS | {DeadlineKind.COMPOSE: "a server that was ordered should be there by now"}


class DeadlineQueue(kit.DeadlineQueue[Fleet]):
    @classmethod
    def found(cls, state: Fleet) -> Iterator[Deadline]:
        for order in state.orders:
            yield from _of(state, order)

    def look(self, touched: Dirty) -> None:
        for order in touched.orders:
            self._replace_of(order, (DeadlineKind.COMPOSE,), _of(self._state, order))


def _of(state: Fleet, order: str) -> Iterator[Deadline]:
    row = state.orders.get(order)
    if row is not None and not row.over and not row.code:
        yield Deadline(state.compose_due(order), DeadlineKind.COMPOSE, order)


deadlines = DeadlineQueue.deadlines
