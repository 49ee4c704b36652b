"""Recordings of raw watch streams: JSON lines {"ts", "resource", "type", "object"}, plain or gzipped.

A recording is untrusted input: each error is one line that names the line of the file. Events are yielded one at a time, as
read.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import IO, cast

import msgspec
from msgspec import Struct

from dds_adapters.kubernetes.decode.decoding import instant
from dds_adapters.kubernetes.decode.raw_objects import Instant
from dds_adapters.kubernetes.decode.translate import Translator
from dds_core.engine import Step
from dds_core.errors import CorruptFile, FileError, TruncatedFile
from dds_core.events import PolicyChanged, Started, Synced
from dds_core.fingerprint import FINGERPRINT
from dds_core.scaler.component import Engine
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import PROJECTION

MAX_LINE = 16 * 1024 * 1024
"""Longest line in bytes. The API server accepts no object of that size."""

_GZIP = b"\x1f\x8b"

EVALUATOR = f"cel-expr-python {version('cel-expr-python')}"
"""The CEL package that evaluates selectors. A log records it, since another package may give other results."""


class NotARecording(FileError):
    """The file is empty or of another format."""


class RecordedEvent(Struct, frozen=True):
    """One watch event: `at` is the instant of its arrival in microseconds, `raw` the object's JSON as received."""

    at: int
    resource: str
    type: str
    raw: bytes


class _Line(Struct, frozen=True):
    ts: Instant
    resource: str
    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)


def read_recording(path: str | Path) -> Iterator[RecordedEvent]:
    """Yield the events of a recording in order, one line in memory at a time.

    Raises FileError (cannot be opened), NotARecording (empty or of another format), TruncatedFile and CorruptFile, all of them
    possibly after events were yielded.
    """
    path = Path(path)
    number = 0
    with ExitStack() as stack:
        try:
            file = _opened(path, stack)
            for number, line in enumerate(_lines(file, path), start=1):
                yield _decoded(line, path, number)
        except OSError as e:
            if isinstance(e, gzip.BadGzipFile):
                raise _corrupt(path, number + 1) from None
            raise FileError(
                f"cannot be read: {e.strerror or e}", where=str(path), fix="give the path of a recording"
            ) from None
        except EOFError:
            raise _truncated(path, number + 1) from None
        except zlib.error:
            raise _corrupt(path, number + 1) from None
    if number == 0:
        raise NotARecording("the file is empty", where=str(path), fix="give a recording of watch events")


def _opened(path: Path, stack: ExitStack) -> IO[bytes]:
    """Open the file; unpack it if it begins like gzip, whatever its name is."""
    file = stack.enter_context(path.open("rb"))
    start = file.read(len(_GZIP))
    file.seek(0)
    return stack.enter_context(cast(IO[bytes], gzip.open(file))) if start == _GZIP else file


def _lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise _foreign(path) if number == 1 else _corrupt(path, number)
        yield line


def _decoded(line: bytes, path: Path, number: int) -> RecordedEvent:
    try:
        found = _line.decode(line)
    except (ValueError, RecursionError):
        if number == 1:
            raise _foreign(path) from None
        if not line.endswith(b"\n"):
            raise _truncated(path, number) from None
        raise _corrupt(path, number) from None
    return RecordedEvent(instant(found.ts), found.resource, found.type, bytes(found.object))


def _foreign(path: Path) -> NotARecording:
    return NotARecording(
        "the first line is not a recorded watch event",
        where=str(path),
        fix='give JSON lines with "ts", "resource", "type" and "object", plain or gzipped',
    )


def _truncated(path: Path, number: int) -> TruncatedFile:
    return TruncatedFile(f"line {number}: the file ends in the middle", where=str(path), fix="copy or record it again")


def _corrupt(path: Path, number: int) -> CorruptFile:
    return CorruptFile(
        f"line {number}: is damaged", where=str(path), fix="copy or record it again, or cut it before that line"
    )


# -- a recording through the engine ------------------------------------------------------------------------------------


def replay_recording(
    path: Path, policy: Policy, *, code: str = "replay", engine: Engine | None = None
) -> Iterator[Step]:
    """Every step of the recording at `path` under `policy`, the engine's own first facts included.

    Raises the errors of `read_recording`; steps that were yielded before remain valid.
    """
    return replay_events(read_recording(path), policy, code=code, engine=engine)


def replay_events(
    recorded: Iterable[RecordedEvent], policy: Policy, *, code: str = "replay", engine: Engine | None = None
) -> Iterator[Step]:
    """As `replay_recording`, from recorded events in the order of arrival. The replay starts synced, with an empty state; a
    deadline passes when a later fact comes. `engine` (default: a new one) is left in its state at the end of the recording."""
    engine = engine if engine is not None else Engine()
    translator = Translator(engine.state, namespace="")  # a recording does not say where dds was installed
    started = False
    for event in recorded:
        if not started:
            started = True
            yield from begin(engine, policy, event.at, code)
        for fact in translator.translate(event.resource, event.type, event.raw):
            yield from engine.run([(event.at, fact)])


def begin(engine: Engine, policy: Policy, at: int, code: str) -> Iterator[Step]:
    """The first facts of a replay: who decides, under which policy, and that the state is complete."""
    yield engine.feed(Started(code=code, fingerprint=FINGERPRINT, projection=PROJECTION, epoch=1, mode=policy.mode), at)
    yield engine.feed(PolicyChanged(policy=policy.model_dump(mode="json")), at)
    yield engine.feed(Synced(), at)
