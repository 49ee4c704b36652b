"""The log in memory, for tests, examples and replays. It fulfils the same contract as the durable logs.

Use it from one thread at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from dds_core.errors import BrokenChain
from dds_core.log.chain import (
    SaltSource,
    advanced,
    check_cluster,
    check_epoch,
    check_groups,
    check_not_archived,
    fixed_salts,
    prepare,
    seal,
    to_look_up,
    truncated,
    with_epoch,
)
from dds_core.log.envelope import LOG_OPENED, LOG_STREAM, Envelope, Group, Head, LeanEvent, lean, opening, unopened
from dds_core.log.interface import BATCH

_FIXED = fixed_salts(b"memory")


class MemoryLog:
    """An `EventLog` that ends with its object. Salts are fixed unless a random source is given."""

    def __init__(self, name: str, *, cluster: str, recorded_at: int, salts: SaltSource = _FIXED) -> None:
        self._salts = salts
        self._versions: dict[str, int] = {LOG_STREAM: 0}
        empty = unopened(name, cluster)
        self._events = seal(empty, 0, [opening(name, cluster, recorded_at)], self._versions, recorded_at, salts)
        self._ids = {e.event_id: e.position for e in self._events}
        self._head = advanced(empty, self._events)

    @property
    def name(self) -> str:
        return self._head.log

    def span(self) -> tuple[int, int]:
        return self._head.archived + 1, self._head.position

    def head(self) -> Head:
        return self._head

    def open_as(self, cluster: str) -> None:
        """Raise `ForeignLog` unless this is the log of `cluster`."""
        check_cluster(self._head, cluster)

    def take_epoch(self, recorded_at: int, above: int = 0) -> int:
        self._head = with_epoch(self._head, recorded_at, above)
        return self._head.epoch

    def append(
        self,
        groups: Sequence[Group],
        *,
        epoch: int,
        recorded_at: int,
        expected: Mapping[str, int] | None = None,
    ) -> list[Envelope]:
        check_groups(groups)
        check_epoch(self._head, epoch)
        found = [self._ids[name] for name in to_look_up(self._head, epoch, groups) if name in self._ids]
        stored = {e.event_id: e for e in map(self._at, found)}
        streams = {event.stream for group in groups for event in group.events} | set(expected or ())
        versions = {stream: self._versions.get(stream, 0) for stream in streams}
        prepared = prepare(self._head, epoch, groups, stored, versions, recorded_at, self._salts, expected)
        self._events += prepared.fresh
        self._ids.update((e.event_id, e.position) for e in prepared.fresh)
        self._versions.update(versions)
        self._head = prepared.head
        return prepared.answer

    def stream_version(self, stream: str) -> int:
        return self._versions.get(stream, 0)

    def read(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[Envelope]:
        check_not_archived(self._head, after)
        last = self._head.position if until is None else min(until, self._head.position)
        for position in range(after + 1, last + 1):
            check_not_archived(self._head, position - 1)  # the log may be truncated while it is read
            e = self._at(position)
            if (stream is None or e.stream == stream) and (types is None or e.type in types):
                yield e

    def read_lean(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[LeanEvent]:
        return map(lean, self.read(after, until, stream, types, batch))

    def redact(self, *, positions: Iterable[int] = (), stream: str | None = None) -> int:
        chosen = set(positions)
        count = 0
        for index, e in enumerate(self._events):
            if (e.position in chosen or e.stream == stream) and not e.redacted and e.type != LOG_OPENED:
                self._events[index] = msgspec.structs.replace(e, data=None, salt=None)
                count += 1
        return count

    def truncate(self, checkpoint: int, archived_hash: bytes) -> int:
        head = self._head
        there = self._at(checkpoint) if head.archived < checkpoint <= head.position else None
        removed = self._events[: max(checkpoint - 1 - head.archived, 0)]
        self._head = truncated(head, there, checkpoint, (e.group for e in removed if e.epoch == head.epoch))
        if there is not None and there.hash != archived_hash:
            self._head = head
            raise BrokenChain(head.log, checkpoint, "the archive ends with another hash")
        del self._events[: len(removed)]
        for e in removed:
            del self._ids[e.event_id]
        return len(removed)

    def _at(self, position: int) -> Envelope:
        return self._events[position - 1 - self._head.archived]
