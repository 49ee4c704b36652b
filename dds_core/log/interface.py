"""What every event log does, whatever stores it: the contract that memory, SQLite and PostgreSQL are held to by one
test suite.

Positions are contiguous from 1 and become visible in order, so a reader that remembers the last position it saw
misses nothing. Nothing here does anything; implementations share the steps of `dds_core.log.chain`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from dds_core.errors import InputError
from dds_core.log.envelope import Envelope, Group, Head, LeanEvent

BATCH = 2000
"""Events that a reader fetches at a time; it holds no more than these in memory."""


class EventSource(Protocol):
    """Where envelopes are read from: a log, a file, or several of them joined.

    `after` is exclusive and `until` inclusive; `stream` and `types` leave out what is not asked for. Events come
    in the order of positions, `batch` at a time. A read ends at the newest event there was when it began. Raises
    `Archived` when the first positions asked for are not here any more.
    """

    @property
    def name(self) -> str:
        """The log's name, `<cluster>/<component>`."""

    def head(self) -> Head:
        """Where the log stands now; of a file where it stood, as far as the file says."""

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
        """The events as they are stored."""

    def read_lean(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[LeanEvent]:
        """The same events without what only the chain and the idempotence need."""


class EventLog(EventSource, Protocol):
    """One log: many readers, and one writer at a time, which the epoch makes sure of."""

    def take_epoch(self, recorded_at: int) -> int:
        """Give out the next epoch; from here on every append with an older one is refused. To be taken after
        winning the lease."""

    def append(
        self,
        groups: Sequence[Group],
        *,
        epoch: int,
        recorded_at: int,
        expected: Mapping[str, int] | None = None,
    ) -> list[Envelope]:
        """Append whole groups in one transaction and give back their envelopes, in the order of the groups.

        May be called again with the same groups, batched in any way, after a failure of unknown outcome:
        groups that are there already with the same content are given back as they are stored. `expected`
        names the version that a stream must have before.

        Raises `Fenced` (the epoch is not the newest), `EventConflict` (an id is taken by another content),
        `WrongVersion`, `InvalidEvent`, `Archived` (a group that may have been archived cannot be compared),
        and `LogUnavailable` when nothing is known to be wrong but the storage. Whatever is raised, no group
        was written in part.
        """

    def stream_version(self, stream: str) -> int:
        """The number of events of the stream, archived ones included; 0 when there is none."""

    def redact(self, *, positions: Iterable[int] = (), stream: str | None = None) -> int:
        """Erase data and salt of the events at `positions` and of the whole `stream`, for good; the chain
        holds. Gives how many.

        The first event names the log and is kept. A checkpoint may repeat what is erased elsewhere and has to
        be named by its own position; archives and exports are files of their own.
        """

    def truncate(self, checkpoint: int, archived_hash: bytes) -> int:
        """Remove what stands before the checkpoint at this position, after it was archived; gives how many events went.

        `archived_hash` is the hash of that checkpoint as found in the archive. The checkpoint itself stays:
        the log starts with it, the archive ends with it. Raises `NotACheckpoint`, and `BrokenChain` when the
        archive's hash is another.
        """


# -- joined ------------------------------------------------------------------------------------------------------------

# Several sources read as one log: its archives, oldest first, and the log itself.
#
# An archive ends with the checkpoint that the next source starts with, so neighbours overlap; the overlap is read once,
# from the older one. Nothing may be missing in between. That the parts belong together is shown by the chain, which
# runs across them.


class JoinedSource:
    """An `EventSource` over the given ones. Raises `InputError` when they are no contiguous parts of one log in
    the order of positions."""

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
        """`<cluster>/<component>`."""
        return self._parts[0][0].name

    def head(self) -> Head:
        """That of the last part; what the first one has is not archived."""
        return msgspec.structs.replace(self._parts[-1][0].head(), archived=self._parts[0][1] - 1)

    def span(self) -> tuple[int, int]:
        """First and last position, inclusive."""
        return self._parts[0][1], self._parts[-1][2]

    def read(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[Envelope]:
        """As in `EventSource`."""
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
        """As in `EventSource`."""
        for source, begin, end in self._ranges(after, until):
            yield from source.read_lean(begin, end, stream, types, batch)

    def _ranges(self, after: int, until: int | None) -> Iterator[tuple[EventSource, int, int]]:
        """Which source gives what: exclusive begin and inclusive end."""
        newest = self._parts[-1][2] if until is None else until
        for source, _, last in self._parts:
            end = min(last, newest)
            if after < end:
                yield source, after, end
                after = end
