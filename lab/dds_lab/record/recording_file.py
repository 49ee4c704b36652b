"""The file format of a recording: JSON lines {"ts", "resource", "type", "object"}, gzipped if the name ends in .gz.

The same events give the same bytes. A file is readable at any time up to the last flush.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
from types import TracebackType
from typing import IO

import msgspec

from dds_core.errors import FileError
from dds_core.timeline.instants import rfc3339

_BUFFER = 1 << 16


class Line(msgspec.Struct):
    """One event; `object` is the object's JSON, which is written unchanged."""

    ts: str
    resource: str
    type: str
    object: msgspec.Raw


class RecordingFile:
    """Writes a recording; a context manager. Only the owner can read the file, since it describes a cluster."""

    _raw: IO[bytes]
    _lines: IO[bytes]
    _packed: gzip.GzipFile | None

    def __init__(self, path: str, *, replace: bool = False, into: IO[bytes] | None = None) -> None:
        """`into`, if given, takes the lines, and is closed by whoever opened it. Raises FileError, also if the file exists and
        `replace` is not set."""
        self.path = path
        self.events = 0
        self._encode = msgspec.json.Encoder().encode
        self._owned = into is None
        if into is not None:
            self._raw = self._lines = into
            self._packed = None
            return
        try:
            flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
            self._raw = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_BUFFER)
        except FileExistsError:
            raise FileError("it is there already", where=path, fix="choose another name or remove it") from None
        except OSError as error:
            raise _file_error(error, path) from None
        self._packed = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if path.endswith(".gz") else None
        self._lines = io.BufferedWriter(self._packed, _BUFFER) if self._packed is not None else self._raw

    def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
        """Add an event; `at` in microseconds since 1970-01-01 UTC. Raises FileError."""
        try:
            self._lines.write(self._encode(Line(rfc3339(at), resource, type, msgspec.Raw(obj))) + b"\n")
        except OSError as error:
            raise _file_error(error, self.path) from None
        self.events += 1

    def flush(self) -> None:
        """Make all events so far readable for other programs. Raises FileError."""
        try:
            self._lines.flush()
            if self._packed is not None:
                self._packed.flush()
            self._raw.flush()
        except OSError as error:
            raise _file_error(error, self.path) from None

    def close(self) -> None:
        """Finish the file. Raises FileError."""
        if not self._owned:
            return
        try:
            try:
                self._lines.close()
                if self._packed is not None:
                    self._packed.close()
            finally:
                self._raw.close()
        except OSError as error:
            raise _file_error(error, self.path) from None

    def __enter__(self) -> RecordingFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _file_error(error: OSError, path: str) -> FileError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    fix = "make room, then run the command again" if full else "check path and permissions"
    return FileError(error.strerror or str(error), where=path, fix=fix)
