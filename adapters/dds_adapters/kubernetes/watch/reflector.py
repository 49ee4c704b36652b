"""Follows one resource of a cluster in a thread of its own, for the life of the process.

A reflector lists page by page, watches from the list's version on, and lists again when the API server no longer has that history
(the contract of client-go's reflector). It passes on each change once, in the server's order for each object; changes that a
broken watch missed are the differences to the next list. It decodes and keeps only identity and version of an object. It never
gives up: it reports every error and tries again with growing pauses.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol, TypeVar

from dds_adapters.kubernetes.cluster import Cluster, Event, Page, Refused, Unreachable, Watch
from dds_adapters.kubernetes.limiter import FIRST, LASTING, LONGEST, REQUESTS, WINDOW, Backoff, Limiter
from dds_adapters.kubernetes.watch.delta_queue import DELETED, LOST, SYNCED
from dds_adapters.kubernetes.watch.object_store import ERROR, Identity, Listing, ObjectStore, Seen, failure, identity
from dds_adapters.kubernetes.watch.watch_spec import WatchSpec
from dds_core.errors import DdsError
from dds_core.text import scrub

_NOT_SERVED, _FORBIDDEN = 404, 403
_HISTORY_STANDS = frozenset({401, 403, 408, 429, 500, 502, 503})
"""After these codes a watch can go on from its last version; after any other (410, 404, 504 …) list the resource again."""

_SHORTEST = 1.0
"""Seconds. A watch that had events and ends earlier than this counts as a failure, however fast the lab's clock runs."""

_Answer = TypeVar("_Answer")


class Sink(Protocol):
    """Where a reflector puts changes and markers: `DeltaQueue`."""

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None: ...
    def mark(self, resource: str, marker: str, since: int = 0, *, anew: bool = False) -> None: ...
    def instant(self) -> int: ...
    def heard(self, resource: str, within: float) -> bool: ...


Note = Callable[[str, DdsError], None]
"""Called with the resource and an error. The reflector tries again in any case."""


@dataclass(frozen=True)
class Timing:
    """Seconds. A watch is requested for `shortest` to `longest` seconds, so that its regular end is a sign of life. If nothing
    comes until `grace` after that end, the watch is dead; the next one starts at the last version and delivers what was missed.
    Without a sign of life for another `patience`, the resource is stale. A resource that is not served is tried again after
    `absent`, then less and less often, at least every `rarely`. For the other fields see `Backoff` and `Limiter`."""

    shortest: int = 9
    longest: int = 11
    grace: float = 3.0
    patience: float = 136.0
    absent: float = 8.0
    rarely: float = 180.0
    first: float = FIRST
    most: float = LONGEST
    lasting: float = LASTING
    requests: int = REQUESTS
    window: float = WINDOW


class Dispensable(DdsError):
    """An optional resource is not served: no person is needed."""


class _NotServed(Exception):
    """The server serves none of the understood versions."""


class _Stopped(Exception):
    """The thread must end."""


class Reflector:
    """Follows one resource. Call `start` once, and `stop` from any thread."""

    def __init__(
        self,
        watched: WatchSpec,
        cluster: Cluster,
        outlet: Sink,
        note: Note,
        *,
        random: Random | None = None,
        timing: Timing = Timing(),
        known: Iterable[Identity] = (),
    ) -> None:
        """`known`: objects that the receiver already has (from its log). Those missing in the first list are passed on as
        deleted."""
        self.resource = watched.resource
        self.requests = 0
        """Number of requests sent."""
        self.synced = threading.Event()
        """Set after the first full list."""
        self._watched = watched
        self._cluster = cluster
        self._outlet = outlet
        self._note = note
        self._random = random or Random()
        self._timing = timing
        self._known = ObjectStore(self._put, watched.matters, known)
        self._backoff = Backoff(self._random, timing.first, timing.most, timing.lasting)
        self._absence = Backoff(self._random, timing.absent, timing.rarely)
        self._limiter = Limiter(timing.requests, timing.window)
        self._sent: deque[float] = deque(maxlen=timing.requests)
        """When this turn's requests were sent. If the turn fails, all count as failed: a list is useless without a watch."""
        self._api_version = ""
        self._since = ""
        self._listing: Listing | None = None
        self._asked_at = 0
        """An instant before the first request of the list."""
        self._listed = self._lost = self._anew = False
        self._heard_at = 0.0
        self._quiet = timing.longest + timing.grace
        self._open: Watch | None = None
        self._stopping = threading.Event()
        self._wished = threading.Event()
        """Set when `relist` asked for a list that has not begun."""
        self.thread = threading.Thread(target=self.run, name=f"reflector-{self.resource}", daemon=True)

    @property
    def _said(self) -> str:
        return f"{self._cluster.where} {self.resource}"

    @property
    def api_version(self) -> str:
        """The version that is followed; "" while none is served."""
        return self._api_version

    def __len__(self) -> int:
        """Number of known objects."""
        return len(self._known)

    def start(self) -> None:
        self.thread.start()

    def relist(self) -> None:
        """List again as soon as possible, even if a watch is open. From any thread. A SYNCED follows whose `since` is later than
        this call, even if a list is being read already."""
        self._wished.set()
        self._end_watch()

    def stop(self, seconds: float = 2.0) -> bool:
        """End the thread; nothing is passed on afterwards. False when the thread still waits for an answer after `seconds`: it
        ends with that request, and the process need not wait."""
        self.end()
        if self.thread.ident is not None:
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def end(self) -> None:
        """As `stop`, without waiting."""
        self._stopping.set()
        self._end_watch()

    def _end_watch(self) -> None:
        watch = self._open
        if watch is not None:
            watch.end()

    def run(self) -> None:
        """List and watch until `stop`."""
        while not self._stopping.is_set():
            wait = 0.0
            try:
                self._turn()
            except _Stopped:
                return
            except Exception as error:
                if self._stopping.is_set():
                    return
                self._limiter.failed(self._sent)
                wait = self._absent() if isinstance(error, _NotServed) else self._failed(error)
            self._sent.clear()
            self._limiter.running = 0
            self._stopping.wait(wait)

    def _turn(self) -> None:
        """List if necessary, then watch until the watch ends."""
        if not self._since or self._listing is not None or self._wished.is_set():
            self._list()
        self._settle()
        if self._listed:
            self._listed = self._lost = False
            self._absence.succeeded(time.monotonic())
            self._mark(SYNCED, self._asked_at, anew=self._anew)
            self._anew = False
            self.synced.set()
        if not self._wished.is_set():
            self._watch()

    def _failed(self, error: Exception) -> float:
        """Report an error; gives the seconds to wait."""
        wait = 0.0
        if isinstance(error, Refused):
            wait = error.wait
            if error.code not in _HISTORY_STANDS:
                self._since, self._listing = "", None
                self._anew = self.synced.is_set()
            if error.code == _FORBIDDEN and self._listing is not None:
                self._lose()
        self._tell(error)
        return self._backoff.failed(time.monotonic(), wait)

    def _absent(self) -> float:
        """Report once that the resource is not served; gives the seconds to wait."""
        if not self._lost:
            versions = ", ".join(self._watched.versions)
            what = f"is not served in any version that is understood ({versions})"
            again = "it is looked for again every few minutes"
            if self._watched.optional:
                self._tell(Dispensable(what, where=self._said, fix=f"nothing to do, everything else goes on; {again}"))
            else:
                fix = f"install what serves it (nothing is decided before); {again}"
                self._tell(DdsError(what, where=self._said, fix=fix))
        self._lose()
        return self._absence.failed(time.monotonic())

    def _tell(self, error: Exception) -> None:
        if not isinstance(error, DdsError):
            what = f"{type(error).__name__}: {scrub(str(error))}"
            error = DdsError(what, where=self.resource, fix="please report this; it is tried again")
        try:
            self._note(self.resource, error)
        except Exception:  # an error in the callback must not end the reflector
            return

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._mark(LOST)

    # -- lists ---------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        """Read a whole list; pass on its differences to the known objects."""
        listing = self._listing
        if listing is None:
            self._wished.clear()
            self._asked_at = self._outlet.instant()
            listing = self._listing = self._known.begin()
        answered = False
        while True:
            page = self._page(listing.token, answered)
            answered = True
            self._hear()
            for raw in page.items or ():
                self._known.in_list(listing, bytes(raw))
            token = page.metadata.continue_
            if not token:
                break
            if token == listing.token:
                raise Unreachable("answers with the same page again", where=self._said)
            listing.token = token
        self._known.end(listing)
        self._since = page.metadata.resource_version
        self._listing = None
        self._listed = True

    def _page(self, token: str, going_on: bool) -> Page:
        """A page in the followed version, else in the best served version. `going_on`: the page before was just read."""
        if self._api_version:
            try:
                return self._ask(partial(self._paged, self._api_version, token), going_on)
            except Refused as error:
                if error.code != _NOT_SERVED:
                    raise
                self._api_version = ""
                if token:
                    raise
        for version in self._watched.versions:
            try:
                page = self._ask(partial(self._paged, version, token))
            except Refused as error:
                if error.code != _NOT_SERVED:
                    raise
            else:
                self._api_version = version
                return page
        raise _NotServed

    def _paged(self, version: str, token: str) -> Page:
        page = self._cluster.page(self.resource, version, token, self._watched.scope)
        if not page.metadata.resource_version:
            raise Unreachable("answers with a list that has no version", where=self._said)
        return page

    # -- watches -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        timing = self._timing
        seconds = self._random.randint(timing.shortest, timing.longest)
        opened = partial(self._cluster.watch, self.resource, self._api_version, self._since, seconds)
        watch = self._ask(partial(opened, self._watched.scope, seconds + timing.grace))
        began = time.monotonic()
        self._backoff.succeeded(began)
        self._open = watch
        if self._stopping.is_set() or self._wished.is_set():
            watch.end()
        came = True
        try:
            came = self._follow(watch)
        except Unreachable:
            if not self._wished.is_set():
                raise
        finally:
            self._open = None
        lasted = time.monotonic() - began
        least = min(timing.lasting, _SHORTEST if came else seconds / 2)
        if lasted < least and self._since and not (self._stopping.is_set() or self._wished.is_set()):
            raise Unreachable(f"the watch ended after {lasted:.1f} s", where=self._said)

    def _follow(self, watch: Watch) -> bool:
        """Pass on events until the watch ends or a new list is needed. False when the watch ended without any event."""
        came = False
        with closing(watch):
            if self._hear():
                self._begin_anew()
                return True
            for event in watch.events:
                came = True
                self._happened(event)
                if self._hear(often=event.type != "BOOKMARK"):
                    self._begin_anew()
                    break
        return came

    def _begin_anew(self) -> None:
        self._since, self._anew = "", True

    def _happened(self, event: Event) -> None:
        raw = bytes(event.object)
        if event.type == ERROR:
            raise failure(self._said, raw)
        if event.type in ("BOOKMARK", DELETED):
            who = identity(raw)
            if event.type == DELETED:
                self._known.has_left(who.uid, raw)
        else:
            who = self._known.is_there(raw)
        self._since = who.version or self._since
        self._settle()

    def _put(self, uid: str, type: str, raw: bytes) -> None:
        if self._stopping.is_set():
            raise _Stopped
        self._outlet.put(self.resource, uid, type, raw)

    def _mark(self, marker: str, since: int = 0, *, anew: bool = False) -> None:
        if not self._stopping.is_set():
            self._outlet.mark(self.resource, marker, since, anew=anew)

    def _hear(self, often: bool = False) -> bool:
        """Note a sign of life. True when the resource was reported stale before, so that only a list helps."""
        now = time.monotonic()
        if often and now - self._heard_at < 0.5:
            return False
        self._heard_at = now
        return self._outlet.heard(self.resource, self._quiet + self._timing.patience)

    # -- requests ------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Get each doubtful object, to see whether it was deleted or left the scope."""
        for uid, known in self._known.doubtful():
            self._known.settle(uid, self._asked(known))

    def _asked(self, known: Seen) -> bytes | None:
        try:
            return self._ask(lambda: self._cluster.get(self.resource, self._api_version, known.name, known.namespace))
        except Refused as error:
            if error.code != _NOT_SERVED:
                raise
            return None

    def _ask(self, request: Callable[[], _Answer], going_on: bool = False) -> _Answer:
        """Send a request when the limiter allows it. `going_on`: the server has just answered, so do not wait; otherwise a list
        of twenty pages would take twenty seconds more after any failure."""
        wait = 0.0 if going_on else self._limiter.wait(time.monotonic())
        if wait > 0:
            self._stopping.wait(wait)
        if self._stopping.is_set():
            raise _Stopped
        self.requests += 1
        self._sent.append(time.monotonic())
        self._limiter.running = len(self._sent)
        answer = request()
        if self._stopping.is_set() and not isinstance(answer, Watch):
            raise _Stopped
        return answer


def stop_all(reflectors: Iterable[Reflector], seconds: float = 2.0) -> list[str]:
    """Stop all reflectors in parallel; gives the resources of those that still wait for an answer after `seconds`."""
    all_of_them = list(reflectors)
    for each in all_of_them:
        each.end()
    until = time.monotonic() + seconds
    return [each.resource for each in all_of_them if not each.stop(max(0.0, until - time.monotonic()))]
