"""Records a real cluster into one file: each resource is listed and then watched, one after the other begins.

Only the fields that `allowed` lets through are written, unless `raw` is set. It never reads Secrets, changes nothing in the
cluster, and leaves a complete file behind, however it ends.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dds_adapters.kubernetes.cluster import Cluster, Refused
from dds_adapters.kubernetes.watch.reflector import Reflector, stop_all
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS, watched_by_autoscaler
from dds_core.errors import DdsError, FileError, InputError
from dds_lab.record.allowed import Allowed
from dds_lab.record.first_list import FirstList
from dds_lab.record.recording_file import RecordingFile

RESOURCES = tuple(VERSIONS)
_FLUSH_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0


@dataclass
class Recorded:
    """The result: events by resource, resources that are not served, and resources that may not be read."""

    events: Counter[str] = field(default_factory=Counter)
    not_served: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def record(
    cluster: Cluster,
    file: RecordingFile,
    *,
    resources: Sequence[str] = RESOURCES,
    raw: bool = False,
    seconds: float | None = None,
    stop: threading.Event,
    note: Callable[[str], None],
    begun: Callable[[], None] = lambda: None,
) -> Recorded:
    """Record until `stop` is set or `seconds` have passed. `begun` is called when all existing objects are written: nothing that
    happens after that is missed. `note` gets messages about problems on the way.

    Raises InputError if nothing can be read, Unreachable if the server does not answer at the start, FileError.
    """
    until = time.monotonic() + seconds if seconds is not None else None
    recorder = _Recorder(cluster, file, raw, stop, note)
    try:
        recorder.start(resources)
        begun()
        while not stop.is_set() and (until is None or time.monotonic() < until):
            stop.wait(_FLUSH_SECONDS if until is None else max(0.0, min(_FLUSH_SECONDS, until - time.monotonic())))
            recorder.flush()
    finally:
        recorder.end()
    return recorder.recorded


class _Recorder:
    """Writes what the reflectors pass on (as their `Sink`), each from its own thread."""

    def __init__(
        self, cluster: Cluster, file: RecordingFile, raw: bool, stop: threading.Event, note: Callable[[str], None]
    ) -> None:
        self.recorded = Recorded()
        self._cluster = cluster
        self._file = file
        self._allowed = {} if raw else {resource: Allowed(resource) for resource in RESOURCES}
        self._stop = stop
        self._note = note
        self._reflectors: list[Reflector] = []
        self._beginning = ""
        self._first = FirstList()
        """That of the resource `_beginning`."""
        self._writing = threading.Lock()  # also for the order of instants in the file
        self._last = 0
        self._broken: FileError | None = None

    def start(self, resources: Sequence[str]) -> None:
        """List one resource after the other, in the order in which others refer to them; each is watched from then on."""
        for watched in watched_by_autoscaler():
            if watched.resource not in resources or self._stop.is_set():
                continue
            first = self._first = FirstList()
            self._beginning = watched.resource
            one = Reflector(watched, self._cluster, self, self._failed)
            one.start()
            while not first.wait(0.1) and not self._stop.is_set():
                pass
            self._beginning = ""
            self._reflectors.append(one)
            if first.error is None:
                continue
            one.end()
            if isinstance(first.error, Refused) and first.error.code == 403:
                self.recorded.refused.append(one.resource)
            elif first.lost:
                self.recorded.not_served.append(one.resource)
            else:
                raise first.error
        left_out = len(self.recorded.refused) + len(self.recorded.not_served)
        if left_out == len(self._reflectors) and not self._stop.is_set():
            fix = "let this user get, list and watch the resources"
            raise InputError("nothing can be read", where=self._cluster.where, fix=fix)

    def flush(self) -> None:
        with self._writing:
            self._file.flush()

    def end(self) -> None:
        """Stop watching. Raises FileError if an event could not be written."""
        stop_all(self._reflectors, _PATIENCE_SECONDS)
        with self._writing:
            broken, self._broken = self._broken, FileError("the recording has ended", where=self._file.path)
        if broken is not None:
            raise broken

    def _failed(self, resource: str, error: DdsError) -> None:
        if resource != self._beginning or not self._first.failed(error):
            self._note(str(error))

    # -- as a `Sink`

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        kept = self._allowed[resource].kept(type, raw) if self._allowed else raw
        with self._writing:
            if kept is None or self._broken is not None:
                return
            self._last = max(self._last, self.instant())
            try:
                self._file.write(self._last, resource, type, kept)
            except FileError as error:
                self._broken = error
                self._stop.set()
            self.recorded.events[resource] += 1

    def mark(self, resource: str, marker: str, since: int = 0, *, anew: bool = False) -> None:
        if resource == self._beginning:
            self._first.marked(marker)

    def instant(self) -> int:
        return time.time_ns() // 1000

    def heard(self, resource: str, within: float) -> bool:
        return False
