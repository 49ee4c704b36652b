"""The contract of every event log. One test suite checks it for memory, SQLite and PostgreSQL.

Positions are contiguous from 1 and become visible in order, so a reader that continues after its last position misses nothing.
Implementations share the steps in `dds_core.log.chain`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from dds_core.errors import InputError
from dds_core.log.envelope import Envelope, Group, Head, LeanEvent

BATCH = 2000
"""Number of events that a reader fetches at a time and holds in memory."""


class EventSource(Protocol):
    """A source of envelopes: a log, a file, or several of them joined.

    `after` is exclusive, `until` is inclusive, `stream` and `types` filter. Events come in the order of positions and are
    fetched `batch` at a time. A read ends at the event that was the newest when the read began. Raises `Archived` when the
    first positions asked for were moved to an archive.
    """

    @property
    def name(self) -> str:
        """The log's name, `<cluster>/<component>`."""

    def head(self) -> Head:
        """The current end of the log; of a file the end when it was written, as far as the file says."""

    def span(self) -> tuple[int, int]:
        """First and last position that can be read, inclusive."""

    def read(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[Envelope]:
        """The events as stored."""

    def read_lean(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[LeanEvent]:
        """The same events without the fields that only the chain and repeated appends need."""


class EventLog(EventSource, Protocol):
    """One log with many readers and one writer at a time. The epoch keeps out older writers."""

    def take_epoch(self, recorded_at: int, above: int = 0) -> int:
        """Take the next epoch, also the next after `above`. From then on the log refuses every append with an older one. Call it
        after winning the lease."""

    def append(
        self,
        groups: Sequence[Group],
        *,
        epoch: int,
        recorded_at: int,
        expected: Mapping[str, int] | None = None,
    ) -> list[Envelope]:
        """Append whole groups in one transaction and return their envelopes, in the order of the groups.

        After a failure of unknown outcome, call it again with the same groups, batched in any way: groups that are already in the
        log with the same content are returned as stored. `expected` has the version that a stream must have before the append.

        Raises `Fenced` (the epoch is not the newest), `LogWentBack` (what this object appended before is not there any more: the
        database went back), `EventConflict` (an event with this id has another content),
        `WrongVersion`, `InvalidEvent`, `Archived` (the group may have been archived and cannot be compared), and
        `LogUnavailable` (the storage failed). After any error, no group was written in part.
        """

    def stream_version(self, stream: str) -> int:
        """The number of events of the stream, including archived ones."""

    def redact(self, *, positions: Iterable[int] = (), stream: str | None = None) -> int:
        """Erase data and salt of the events at `positions` and of the whole `stream`. The chain stays valid. Returns how many.

        The first event, which names the log, is kept. A later checkpoint may contain the same data: erase it by its position.
        Archives and exports are not changed.
        """

    def truncate(self, checkpoint: int, archived_hash: bytes) -> int:
        """Remove the events before the checkpoint at this position, after they were archived. Returns the number of events
        removed.

        `archived_hash` is the hash of that checkpoint in the archive. The checkpoint itself stays: the log starts with it, the
        archive ends with it. Raises `NotACheckpoint`, and `BrokenChain` when the hashes differ.
        """


# -- joined ------------------------------------------------------------------------------------------------------------


class JoinedSource:
    """Several sources read as one log: its archives, oldest first, then the log itself. An `EventSource`.

    An archive ends with the checkpoint that the next source starts with. This overlap is read once, from the older source. Only
    names and positions are compared here; the chain, which runs across the parts, shows that they belong together. Raises
    `InputError` when the sources are not contiguous parts of one log.
    """

    def __init__(self, sources: Sequence[EventSource]) -> None:
        if not sources:
            raise InputError("no source was given", fix="name at least one archive, export or database")
        self._parts = [(source, *source.span()) for source in sources]
        for (before, begin, end), (behind, first, last) in zip(self._parts, self._parts[1:], strict=False):
            if before.name != behind.name:
                raise InputError(
                    f"log {behind.name} does not continue log {before.name}", fix="join parts of one log only"
                )
            if first < begin or first > end + 1 or last < end:
                raise InputError(
                    f"a part with positions {first} to {last} follows one with {begin} to {end}",
                    where=f"log {behind.name}",
                    fix="give every archive once, oldest first, and then the log",
                )

    @property
    def name(self) -> str:
        return self._parts[0][0].name

    def head(self) -> Head:
        """The head of the last part. The events of the first part count as not archived."""
        return msgspec.structs.replace(self._parts[-1][0].head(), archived=self._parts[0][1] - 1)

    def span(self) -> tuple[int, int]:
        return self._parts[0][1], self._parts[-1][2]

    def read(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[Envelope]:
        for source, begin, end in self._ranges(after, until):
            yield from source.read(begin, end, stream, types, batch)

    def read_lean(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[LeanEvent]:
        for source, begin, end in self._ranges(after, until):
            yield from source.read_lean(begin, end, stream, types, batch)

    def _ranges(self, after: int, until: int | None) -> Iterator[tuple[EventSource, int, int]]:
        """For each source that is read: its range, begin exclusive, end inclusive."""
        newest = self._parts[-1][2] if until is None else until
        for source, _, last in self._parts:
            end = min(last, newest)
            if after < end:
                yield source, after, end
                after = end
