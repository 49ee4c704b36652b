"""Several sources read as one log: its archives, oldest first, and the log itself.

An archive ends with the checkpoint that the next source starts with, so neighbours overlap; the overlap is read once,
from the older one. Nothing may be missing in between. That the parts belong together is shown by the chain, which
runs across them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dds_core.errors import InputError
from dds_core.log.envelope import Envelope, LeanEvent
from dds_core.log.interface import BATCH, EventSource


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
