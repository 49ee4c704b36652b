"""What every event log does, whatever stores it: the contract that memory, SQLite and PostgreSQL are held to by one
test suite.

Positions are contiguous from 1 and become visible in order, so a reader that remembers the last position it saw
misses nothing. Nothing here does anything; implementations share the steps of `dds_core.log.appending`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

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

    def head(self) -> Head:
        """Where the log stands now."""

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
