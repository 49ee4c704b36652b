"""The deadlines of the publisher, and what each of them means."""

from __future__ import annotations

from collections.abc import Iterator

from dds_core.kit import deadlines as kit
from dds_core.kit.deadlines import Deadline, DeadlineKind
from dds_core.publisher.events import pool_of
from dds_core.publisher.model import FOREVER
from dds_core.publisher.rooms import Dirty
from dds_core.publisher.rules.pools import again_due
from dds_core.publisher.state import PoolState, stream_of

KINDS = kit.KINDS | {
    DeadlineKind.GONE: "what the fabric has not named any more for long enough is taken for gone",
    DeadlineKind.READBACK: "what was published should be seen by now",
    DeadlineKind.COOLING: "the cool-down that a node's label asks for is over",
}

_UNKNOWN = "unknown"
"""Stands for all fabrics that no answer since the start has named."""


def _of(state: PoolState, kind: str, of: str) -> Iterator[Deadline]:
    """The deadline of that name, if anything waits for it."""
    if kind == DeadlineKind.READBACK:
        key = pool_of(of)
        row = state.pools.get(key) if key is not None else None
        due = again_due(state, key, row) if key is not None and row is not None else None
        if due is not None:
            yield Deadline(due, kind, of)
    elif kind == DeadlineKind.GONE and (of == _UNKNOWN or of in state.fabric.absent) and (due := state.gone_due(of)):
        yield Deadline(due, kind, of)
    elif kind == DeadlineKind.COOLING and (host := state.host(of)) is not None:
        passed = state.notes.fired_deadlines.get((kind, of)) or 0
        ends = [state.cooling_until(host.labels, model) for model in state.models]
        left = [end for end in ends if passed < end < FOREVER]
        if left:
            yield Deadline(min(left), kind, of)


class DeadlineQueue(kit.DeadlineQueue[PoolState]):
    @classmethod
    def found(cls, state: PoolState) -> Iterator[Deadline]:
        for name in (_UNKNOWN, *state.fabric.absent):
            yield from _of(state, DeadlineKind.GONE, name)
        for key in state.pools:
            yield from _of(state, DeadlineKind.READBACK, stream_of(key))
        for host in state.cluster.hosts.rows.values():
            yield from _of(state, DeadlineKind.COOLING, host.name)

    def look(self, touched: Dirty) -> None:
        pools = ((DeadlineKind.READBACK, stream_of(key)) for key in touched.pools)
        hosts = ((DeadlineKind.COOLING, name) for name in touched.hosts)
        for name in {(DeadlineKind.GONE, _UNKNOWN), *touched.due, *pools, *hosts}:
            if name[0] in (DeadlineKind.GONE, DeadlineKind.READBACK, DeadlineKind.COOLING):
                self._replace_of(name[1], name[:1], _of(self._state, *name))


deadlines = DeadlineQueue.deadlines
