"""The instants that the autoscaler's picture waits for, and what each of them means."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.autoscaler.indexes import Dirty
from dds_core.autoscaler.state import Fleet
from dds_core.kit import deadlines as kit
from dds_core.kit.deadlines import Deadline

KINDS = kit.KINDS | {"compose": "a server that was ordered should be there by now"}


class Agenda(kit.Agenda[Fleet]):
    """The deadlines of a picture in order; `refresh` after each group."""

    @classmethod
    def found(cls, picture: Fleet) -> Iterator[Deadline]:
        for order in picture.orders:
            yield from _of(picture, order)

    def look(self, touched: Dirty) -> None:
        for order in touched.orders:
            self._replace((("compose", order),), _of(self._picture, order))


def _of(picture: Fleet, order: str) -> Iterator[Deadline]:
    row = picture.orders.get(order)
    if row is not None and not row.over and not row.code:
        yield Deadline(picture.compose_due(order), "compose", order)


deadlines = Agenda.deadlines
