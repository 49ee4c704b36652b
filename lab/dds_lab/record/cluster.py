"""Records a real cluster into one file: lists every resource once, in order, then watches all of them in parallel.

Only the fields that `allowed` lets through are written, unless `raw` is set. It never reads Secrets, changes nothing in the
cluster, and leaves a complete file behind, however it ends.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import msgspec

from dds_adapters.kubernetes.cluster import EVERYTHING, Cluster, Refused, Scope, Unreachable, Watch
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS, scope_of_config
from dds_core.errors import InputError
from dds_lab.record.allowed import Allowed
from dds_lab.record.recorded import RecordingFile

FIRST_WAIT, LONGEST_WAIT = 0.8, 30.0
_GONE = 410

Tell = Callable[[str, bytes], None]
"""Takes the type of a watch event and the object's JSON."""


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Status(msgspec.Struct):
    code: int = 0


_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(_Status)


class Followed:
    """Follows one resource: `first` lists it, `follow` watches it until `stop` and lists it again when the server's history is
    gone.

    Each change is reported once, as a watch event. What a broken watch missed is reported as the differences to the next list.
    Only identity and version of each object are kept in memory.
    """

    def __init__(
        self, cluster: Cluster, resource: str, tell: Tell, note: Callable[[str], None], random: Random,
        versions: Sequence[str] = (), scope: Scope | None = None,
    ) -> None:  # fmt: skip
        """`versions`, `scope`: by default what dds reads of the resource."""
        self.resource = resource
        self._versions = versions or VERSIONS[resource]
        usual = scope_of_config() if resource == "configmaps" else EVERYTHING
        self._scope = usual if scope is None else scope
        self._cluster = cluster
        self._tell = tell
        self._note = note
        self._random = random
        self._stopped = threading.Event()
        self._watching: Watch | None = None
        self._api_version = ""
        self._since = ""
        self._known: dict[str, _Meta] = {}

    def first(self) -> bool:
        """List the resource once; False if the server serves no supported version of it. Raises Refused and Unreachable."""
        for version in self._versions:
            self._api_version = version
            try:
                self._list()
                return True
            except Refused as error:
                if error.code != 404:
                    raise
        return False

    def follow(self) -> None:
        """Watch until `stop`; list again if necessary, and wait if the server has problems."""
        wait = FIRST_WAIT
        while not self._stopped.is_set():
            try:
                self._watch()
                wait = FIRST_WAIT
            except (Refused, Unreachable) as error:
                if self._stopped.is_set():
                    return
                gone = isinstance(error, Refused) and error.code == _GONE
                if gone:
                    self._since = ""
                else:
                    self._note(str(error))
                pause = self._random.uniform(0, wait) if not gone else 0.0
                self._stopped.wait(max(pause, error.wait if isinstance(error, Refused) else 0.0))
                wait = min(LONGEST_WAIT, wait * 2)

    def stop(self) -> None:
        """End `follow`, from any thread."""
        self._stopped.set()
        watch = self._watching
        if watch is not None:
            watch.end()

    def _watch(self) -> None:
        if not self._since:
            self._list()
        self._watching = self._cluster.watch(self.resource, self._api_version, self._since, scope=self._scope)
        if self._stopped.is_set():
            self._watching.end()
        for event in self._watching.events:
            raw = bytes(event.object)
            if event.type == "ERROR":
                raise Refused(self.resource, _status.decode(raw).code or _GONE, "the watch ended")
            meta = _object.decode(raw).metadata
            self._since = meta.resource_version or self._since
            if event.type == "BOOKMARK":
                self._tell(event.type, raw)
            elif event.type == "DELETED":
                self._known.pop(meta.uid, None)
                self._tell(event.type, raw)
            elif self._is_news(meta):
                self._tell(event.type, raw)

    def _is_news(self, meta: _Meta) -> bool:
        before = self._known.get(meta.uid)
        self._known[meta.uid] = meta
        return before is None or before.resource_version != meta.resource_version

    def _list(self) -> None:
        """Report new and changed objects of the list, then deleted ones."""
        seen: set[str] = set()
        for raw in self._items():
            meta = _object.decode(raw).metadata
            seen.add(meta.uid)
            known = meta.uid in self._known
            if self._is_news(meta):
                self._tell("MODIFIED" if known else "ADDED", raw)
        for uid in [uid for uid in self._known if uid not in seen]:
            self._tell("DELETED", msgspec.json.encode({"metadata": self._known.pop(uid)}))

    def _items(self) -> Iterator[bytes]:
        token = ""
        while True:
            page = self._cluster.page(self.resource, self._api_version, token, self._scope)
            for item in page.items or ():
                yield bytes(item)
            token = page.metadata.continue_
            if not token:
                self._since = page.metadata.resource_version
                return


# -- the whole cluster

RESOURCES = tuple(VERSIONS)
_QUEUE = 10_000
_FLUSH_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0


class _Came(NamedTuple):
    at: int
    resource: str
    type: str
    raw: bytes


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
    return _Recorder(cluster, file, raw, stop, note).run(resources, seconds, begun)


class _Recorder:
    def __init__(
        self, cluster: Cluster, file: RecordingFile, raw: bool, stop: threading.Event, note: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._file = file
        self._allowed = {} if raw else {resource: Allowed(resource) for resource in RESOURCES}
        self._stop = stop
        self._note = note
        self._came: queue.Queue[_Came] = queue.Queue(_QUEUE)
        self._order = threading.Lock()
        self._recorded = Recorded()
        self._writes = threading.current_thread()

    def run(self, resources: Sequence[str], seconds: float | None, begun: Callable[[], None]) -> Recorded:
        until = time.monotonic() + seconds if seconds is not None else None
        followed = [one for one in RESOURCES if one in resources]
        started = [one for one in (self._first(resource) for resource in followed) if one is not None]
        if not started:
            raise InputError(
                "nothing can be read", where=self._cluster.where, fix="let this user get, list and watch the resources"
            )
        begun()
        threads = [threading.Thread(target=one.follow, name=one.resource, daemon=True) for one in started]
        try:
            for thread in threads:
                thread.start()
            self._write(until)
        finally:
            for one in started:
                one.stop()
            self._await(threads)
        return self._recorded

    def _await(self, threads: list[threading.Thread]) -> None:
        """Wait until the threads end, and write the events that they still have."""
        patience = time.monotonic() + _PATIENCE_SECONDS
        while any(thread.is_alive() for thread in threads) and time.monotonic() < patience:
            self._drain()
            threads[0].join(0.02)
            threads = [thread for thread in threads if thread.is_alive()] or threads[:1]
        self._drain()

    def _first(self, resource: str) -> Followed | None:
        """List a resource into the file; None if it cannot be followed."""
        one = Followed(self._cluster, resource, self._teller(resource), self._note, Random())
        try:
            served = one.first()
        except Refused as error:
            if error.code != 403:
                raise
            self._recorded.refused.append(resource)
            return None
        finally:
            self._drain()
        if not served:
            self._recorded.not_served.append(resource)
            return None
        return one

    def _teller(self, resource: str) -> Callable[[str, bytes], None]:
        def tell(type: str, raw: bytes) -> None:
            if self._came.full() and threading.current_thread() is self._writes:
                self._drain()
            with self._order:  # instants must not decrease in the file
                came = _Came(time.time_ns() // 1000, resource, type, raw)
                self._came.put(came)

        return tell

    def _write(self, until: float | None) -> None:
        flushed = time.monotonic()
        while not self._stop.is_set():
            now = time.monotonic()
            if until is not None and now >= until:
                return
            with suppress(queue.Empty):
                self._take(self._came.get(timeout=min(0.2, until - now) if until is not None else 0.2))
            if now - flushed > _FLUSH_SECONDS:
                self._file.flush()
                flushed = now

    def _drain(self) -> None:
        while True:
            try:
                self._take(self._came.get_nowait())
            except queue.Empty:
                return

    def _take(self, came: _Came) -> None:
        raw: bytes | None = came.raw
        if self._allowed:
            raw = self._allowed[came.resource].kept(came.type, came.raw) if came.type != "BOOKMARK" else None
        if raw is not None:
            self._file.write(came.at, came.resource, came.type, raw)
            self._recorded.events[came.resource] += 1
