"""The file format of a recording: JSON lines {"ts", "resource", "type", "object"}, gzipped if the name ends in .gz.

The same events give the same bytes. A file is readable at any time up to the last flush.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
from collections.abc import Callable
from types import TracebackType
from typing import IO, Protocol

import msgspec

from dds_core.errors import FileError
from dds_core.timeline.clock import rfc3339
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.requests import MASTERS, Call, Reading, User
from dds_lab.api.server import ApiServer
from dds_lab.api.watches import Watch
from dds_lab.record import RESOURCES
from dds_lab.time import MICROSECONDS, Time, Timers

_BUFFER = 1 << 16


class Line(msgspec.Struct):
    """One event; `object` is the object's JSON, which is written unchanged."""

    ts: str
    resource: str
    type: str
    object: msgspec.Raw


class RecordingFile:
    """Writes a recording; a context manager. Only the owner can read the file, since it describes a cluster."""

    def __init__(self, path: str, *, replace: bool = False) -> None:
        """Raises FileError, also if the file exists and `replace` is not set."""
        self.path = path
        self.events = 0
        try:
            flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
            self._raw: IO[bytes] = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_BUFFER)
        except FileExistsError:
            raise FileError("it is there already", where=path, fix="choose another name or remove it") from None
        except OSError as error:
            raise _file_error(error, path) from None
        self._packed = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if path.endswith(".gz") else None
        self._lines = io.BufferedWriter(self._packed, _BUFFER) if self._packed is not None else self._raw
        self._encode = msgspec.json.Encoder().encode

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


# -- recording a lab: the watch events of every resource that dds reads, in order
#
# It uses ordinary watches and changes nothing. On virtual time the same scenario and seed give the same bytes.

_WATCHER = User("recorder", (MASTERS,))
_FOR_EVER = 100 * 366 * 86_400.0


class Sink(Protocol):
    """Receives the events of a recording."""

    def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
        """Take one event; `at` in microseconds since 1970-01-01 UTC, `obj` the object's JSON."""
        ...


class Recorder:
    """Records a server until it is stopped, beginning with the objects that exist."""

    def __init__(self, server: ApiServer, time: Time, sink: Sink) -> None:
        self._time = time
        self._sink = sink
        self._encode = msgspec.json.Encoder().encode
        self._watches: list[Watch] = []
        self._timers = Timers(time)  # by resource
        served = {one.plural: one for one in reversed(server.registry.resources())}
        for resource in RESOURCES:
            if resource in served:
                self._follow(server, served[resource])

    def stop(self) -> None:
        self._timers.clear()
        for watch in self._watches:
            watch.on_ready(None)
            watch.close()

    def _follow(self, server: ApiServer, resource: Resource) -> None:
        shown = server.registry.strategy(resource).from_storage
        reading = Reading(bookmarks=True, timeout=_FOR_EVER)
        watch = server.watch(Call(verb="watch", resource=resource, user=_WATCHER, reading=reading), endless=False)
        self._watches.append(watch)
        watch.on_ready(lambda: self._take(resource.plural, watch, shown))
        self._await_bookmark(resource.plural, watch)

    def _take(self, resource: str, watch: Watch, shown: Callable[[Object], Object]) -> None:
        now = self._time.now()
        for type, record in watch.take():
            self._sink.write(now, resource, type, self._encode(shown(record.object)))

    def _await_bookmark(self, name: str, watch: Watch) -> None:
        due = watch.due
        if due is not None:
            self._timers.after(name, (due - self._time.now()) / MICROSECONDS, lambda: self._tick(name, watch))

    def _tick(self, name: str, watch: Watch) -> None:
        watch.tick()
        self._await_bookmark(name, watch)
