"""Reading a log file as an `EventSource`, line by line. A damaged line ends the read with an error; nothing is repaired. A read
of one stream or of some types skips other lines without decoding them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import IO, TypeVar

import msgspec
from msgspec.structs import replace

from dds_adapters.files import opened
from dds_core.errors import BrokenChain, CorruptFile, DdsError, NotALogFile, TruncatedFile
from dds_core.log.chain import advanced, check_part
from dds_core.log.codec import (
    CLOSING,
    FORMAT,
    HEADING,
    BadLine,
    Heading,
    decode_closing,
    decode_envelope,
    decode_heading,
    decode_lean,
)
from dds_core.log.envelope import Envelope, Head, LeanEvent, unopened
from dds_core.log.interface import BATCH

_E = TypeVar("_E", Envelope, LeanEvent)


def is_log_file(path: str) -> bool:
    """Whether the file begins as an export or archive. False when it cannot be read."""
    try:
        with opened(path) as lines:
            return lines.read(len(HEADING)) == HEADING
    except DdsError:
        return False


class JsonlLog:
    """An export or archive, plain or gzipped, as an `EventSource`.

    Raises `NotALogFile`, `TruncatedFile`, `CorruptFile` or `FileError`, and while reading `BrokenChain` for a missing or wrong
    position. Hashes are checked by `dds_core.log.verify_chain`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.heading = self._read_heading()

    @property
    def name(self) -> str:
        return self.heading.log

    def head(self) -> Head:
        """The head as far as the file shows it. The epoch is that of the last event. The checkpoint is the last event, if it is
        one, otherwise the first event of the rest of an archived log."""
        after, last = self.heading.after, self.heading.until
        newest = list(self.read(max(last - 1, after), last))
        head = advanced(unopened(self.name, self.heading.cluster), newest)
        return replace(head, position=last, checkpoint=head.checkpoint or (after + 1 if after else 0), archived=after)

    def span(self) -> tuple[int, int]:
        return self.heading.after + 1, self.heading.until

    def read(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[Envelope]:
        """As in `EventSource`, but `batch` has no effect: a file is read line by line."""
        return self._events(decode_envelope, after, until, stream, types)

    def read_lean(
        self,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        types: Collection[str] | None = None,
        batch: int = BATCH,
    ) -> Iterator[LeanEvent]:
        """As in `EventSource`."""
        return self._events(decode_lean, after, until, stream, types)

    def _read_heading(self) -> Heading:
        with opened(self.path) as lines:
            line = lines.readline(64 * 1024)
        if not line:
            raise NotALogFile("it is empty", where=self.path, fix="name an export or archive of a log")
        if not line.startswith(HEADING):
            raise NotALogFile("it is no export or archive of a log", where=self.path, fix="name one, or a database URL")
        if not line.endswith(b"\n"):
            raise self._truncated(1)
        try:
            heading = decode_heading(line)
        except BadLine as error:
            raise self._corrupt(1, error) from None
        if heading.dds_log != FORMAT:
            what = f"its format is {heading.dds_log}, this version of dds reads {FORMAT}"
            raise NotALogFile(what, where=self.path, fix="use the version of dds that wrote it, or a newer one")
        return heading

    def _events(
        self,
        decode: Callable[[bytes], _E],
        after: int,
        until: int | None,
        stream: str | None,
        types: Collection[str] | None,
    ) -> Iterator[_E]:
        check_part(self.name, self.heading.after, after)
        last = self.heading.until if until is None else min(until, self.heading.until)
        wanted = None if types is None else frozenset(types)
        with opened(self.path) as lines:
            lines.readline()
            asked = _asked(stream, types)
            for event in self._decoded(lines, decode, max(after, self.heading.after), last, asked):
                if (stream is None or event.stream == stream) and (wanted is None or event.type in wanted):
                    yield event

    def _decoded(
        self,
        lines: IO[bytes],
        decode: Callable[[bytes], _E],
        after: int,
        last: int,
        asked: Callable[[bytes], object] | None,
    ) -> Iterator[_E]:
        """The events after `after`, up to and including `last`. A read to the end of the file checks the closing line too. A
        complete line in which `asked` finds nothing is skipped without decoding."""
        position, event = self.heading.after, None
        for line in lines:
            if line.startswith(CLOSING):
                self._check_closing(line, position, event, lines)
                return
            position += 1
            if position <= after:
                continue
            if position > last and last < self.heading.until:
                return
            if asked is not None and not asked(line) and line.endswith(_WHOLE):
                event = None
                continue
            event = self._decode(decode, line, position)
            if event.position != position:
                raise BrokenChain(self.name, position, f"position {event.position} stands here")
            yield event
        raise self._truncated(position - self.heading.after + 2)

    def _decode(self, decode: Callable[[bytes], _E], line: bytes, position: int) -> _E:
        number = position - self.heading.after + 1
        try:
            return decode(line)
        except BadLine as error:
            if not line.endswith(b"\n"):
                raise self._truncated(number) from None
            raise self._corrupt(number, error) from None

    def _check_closing(self, line: bytes, position: int, event: Envelope | LeanEvent | None, rest: IO[bytes]) -> None:
        number = position - self.heading.after + 2
        try:
            closing = decode_closing(line)
        except BadLine as error:
            raise (self._corrupt(number, error) if line.endswith(b"\n") else self._truncated(number)) from None
        if rest.read(1):
            raise self._corrupt(number + 1, ValueError("it goes on after the closing line"))
        if position != self.heading.until or closing.end != position:
            raise BrokenChain(self.name, position + 1, f"it is missing, the file should end at {self.heading.until}")
        if isinstance(event, Envelope) and event.hash.hex() != closing.hash:
            raise BrokenChain(self.name, position, "the closing line has another hash")

    def _truncated(self, number: int) -> TruncatedFile:
        return TruncatedFile(f"it ends early, in line {number}", where=self.path, fix="get the whole file again")

    def _corrupt(self, number: int, error: Exception) -> CorruptFile:
        return CorruptFile(f"line {number} is damaged ({error})", where=self.path, fix="get the file again")


_WHOLE = b"}\n"


def _asked(stream: str | None, types: Collection[str] | None) -> Callable[[bytes], object] | None:
    """A search for the stream and one of the types in a line. It finds nothing inside of data, where quotation marks are
    escaped. None when all events are asked for."""
    if stream is None and types is None:
        return None
    wanted = []
    if stream is not None:
        wanted.append(b'"stream":' + re.escape(msgspec.json.encode(stream)))
    if types is not None:
        names = b"|".join(re.escape(msgspec.json.encode(name)) for name in sorted(types))
        wanted.append(b'"type":(?:' + names + b")")
    return re.compile(b".*?".join(wanted)).search
