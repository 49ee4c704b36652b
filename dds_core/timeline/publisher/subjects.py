"""Whom a timeline of the publisher is about: what a person typed, found among everything that its log tells of.

Takes a pool (its name), a node (name or uid) or a machine of the fabric (UUID or name); the beginning of a UUID will do when
nothing else begins so.
"""

from __future__ import annotations

from collections.abc import Iterable

from dds_core import events as e
from dds_core.events import Event, pool_stream
from dds_core.publishing.model import Host, Machine, PoolSlice
from dds_core.timeline.known import Row
from dds_core.timeline.moments import Moment
from dds_core.timeline.publisher.known import PublisherKnown
from dds_core.timeline.subjects import Directory

NAMING = frozenset(
    kind.__name__
    for kind in (
        e.Checkpoint,
        e.HostObserved,
        e.MachineObserved,
        e.PoolPublished,
        e.PoolSliceObserved,
        e.PoolWithdrawn,
    )
)
"""The types of events that names come from: all that has to be read to find a subject."""


class PublisherDirectory(Directory):
    """Every pool, node and machine that was ever seen, by all their names."""

    kinds = "pool, node or machine"
    advice = "give a pool, a node, or the UUID or name of a machine"

    def __init__(self) -> None:
        super().__init__()
        self._told = PublisherKnown()

    def read(self, told: Iterable[Moment]) -> PublisherDirectory:
        """Take in what is told; gives itself."""
        for moment in told:
            for event in (moment.fact, *moment.caused):
                if event is not None:
                    self._read(event)
        return self

    def _read(self, event: Event) -> None:
        if isinstance(event, e.OfPool):
            self._add(("pool", event.pool), event.subject, f"{event.driver}/{event.pool}")
            return
        _, row = self._told.learn(event)
        self._take(row)
        if isinstance(event, e.Checkpoint):
            for one in (*self._told.objects.values(), *self._told.machines.values()):
                self._take(one)

    def _take(self, row: Row | None) -> None:
        match row:
            case PoolSlice() if not row.node and row.pool:
                self._add(("pool", row.pool), pool_stream(row.driver, row.pool), f"{row.driver}/{row.pool}")
            case Host():
                self._add(("node", row.name), row.uid)
            case Machine():
                self._add(("machine", row.uuid), row.uuid, *filter(None, (row.name,)))

    def _things(self, text: str) -> set[tuple[str, str]]:
        """A machine is often called as its node is: then the node is meant."""
        found = super()._things(text)
        exact = {thing for thing in found if thing[1] == text}
        return exact if len(exact) == 1 else found
