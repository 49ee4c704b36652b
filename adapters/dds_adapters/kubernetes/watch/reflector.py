"""One resource of a cluster, followed by a thread of its own for as long as the process lives.

List page by page, watch from there on, list again when history is gone: the contract of client-go's reflector. What is passed on
are changes of objects, each once, in the server's order for each object; what a broken watch missed is passed on as the
differences of the next list. Nothing here decodes more than an object's identity and version, keeps more, or gives up: whatever
goes wrong is told and tried again, later each time.
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
from dds_adapters.kubernetes.watch.arrivals import DELETED, LOST, SYNCED
from dds_adapters.kubernetes.watch.known import ERROR, Identity, Listing, ObjectStore, Seen, failure, identity
from dds_adapters.kubernetes.watch.watched import OPTIONAL, WatchSpec
from dds_core.errors import DdsError
from dds_core.text import scrub

_NOT_SERVED, _FORBIDDEN = 404, 403
_HISTORY_STANDS = frozenset({401, 403, 408, 429, 500, 502, 503})
"""After these a watch can go on from where it was; after any other refusal (410, 404, 504 …) the resource is listed again."""

_SHORTEST = 1.0
"""Seconds that a watch which told something lasts on a sound server, however fast the clock of a lab goes."""

_Answer = TypeVar("_Answer")


class Sink(Protocol):
    """Where it all goes: `DeltaQueue`."""

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None: ...
    def mark(self, resource: str, marker: str, since: int = 0, *, anew: bool = False) -> None: ...
    def instant(self) -> int: ...
    def heard(self, resource: str, within: float) -> bool: ...


Note = Callable[[str, DdsError], None]
"""Is told the resource and what went wrong with it; it is tried again in any case."""


@dataclass(frozen=True)
class Timing:
    """Seconds. A watch is asked for `shortest` to `longest`, so that its end is a sign of life: one on which nothing comes until
    `grace` after it should have ended is dead, and the next one, from the version that was seen last, tells what it kept back.
    When `patience` later there still was no sign of life, the view of the resource is stale. A resource that is not served is
    looked for again after `absent` at first, then more and more rarely up to `rarely`. The rest: see `Backoff` and `Limiter`."""

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


class _NotServed(Exception):
    """No version that is understood is served."""


class _Stopped(Exception):
    """The thread is to end."""


class Reflector:
    """Follows one resource. `start` it once; `stop` it from any thread."""

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
        """`known` are objects that the other side of `outlet` has from before (from its log): those that the first list does not
        have are passed on as gone."""
        self.resource = watched.resource
        self.requests = 0
        """How many requests were sent."""
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
        """When the requests of this turn were sent. They count together when it fails: a list is no use without its watch."""
        self._api_version = ""
        self._since = ""
        self._listing: Listing | None = None
        self._asked_at = 0
        """The instant before which nothing of the list was asked."""
        self._listed = self._lost = self._anew = False
        self._heard_at = 0.0
        self._quiet = timing.longest + timing.grace
        self._open: Watch | None = None
        self._stopping = threading.Event()
        self._wished = threading.Event()
        """A list is to be made of which nothing was asked yet."""
        self.thread = threading.Thread(target=self.run, name=f"reflector-{self.resource}", daemon=True)

    @property
    def _said(self) -> str:
        return f"{self._cluster.where} {self.resource}"

    @property
    def api_version(self) -> str:
        """The version that is followed; "" while none is served."""
        return self._api_version

    def __len__(self) -> int:
        """How many objects are known."""
        return len(self._known)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self.thread.start()

    def relist(self) -> None:
        """List again as soon as may be, though a watch is open. From any thread. A SYNCED follows whose `since` is later than
        this call, also when a list is under way just now."""
        self._wished.set()
        self._end_watch()

    def stop(self, seconds: float = 2.0) -> bool:
        """End; nothing is passed on afterwards. False when the thread still hangs in a request then: it ends with that, and the
        process need not wait for it."""
        self.end()
        if self.thread.ident is not None:
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def end(self) -> None:
        """Let it end, without waiting."""
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
        """From a list, or from where the last watch ended, to the end of the next watch."""
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
        """Tell what went wrong; gives the seconds to wait."""
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
        """Tell, once, that it is not served; gives the seconds to wait."""
        if not self._lost:
            versions = ", ".join(self._watched.versions)
            without = "everything else goes on" if self.resource in OPTIONAL else "nothing is decided before"
            fix = f"install what serves it ({without}); it is looked for again every few minutes"
            self._tell(
                DdsError(f"is not served in any version that is understood ({versions})", where=self._said, fix=fix)
            )
        self._lose()
        return self._absence.failed(time.monotonic())

    def _tell(self, error: Exception) -> None:
        if not isinstance(error, DdsError):
            what = f"{type(error).__name__}: {scrub(str(error))}"
            error = DdsError(what, where=self.resource, fix="please report this; it is tried again")
        try:
            self._note(self.resource, error)
        except Exception:  # whoever is told must not end what he is told of
            return

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._mark(LOST)

    # -- lists ---------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        """Pass on what the list has and was not known, and what is known and the list has not."""
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
        """A page, in the version that is followed; else in the best one that is served. `going_on`: one has just come before."""
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
        """Pass on what comes, until the watch ends, or must not go on. False when it ended and nothing came."""
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
        """There was a sign of life. True when a silence before it was told, and only a list can make that good."""
        now = time.monotonic()
        if often and now - self._heard_at < 0.5:
            return False
        self._heard_at = now
        return self._outlet.heard(self.resource, self._quiet + self._timing.patience)

    # -- requests ------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Ask each object that has left what became of it."""
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
        """Send a request when its time has come. One that goes on with what the server has just answered (the next page of a
        list) need not wait for that: twenty pages would take as many seconds after any failure."""
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
    """Stop them side by side; gives the resources of those that still hang in a request after so many seconds."""
    all_of_them = list(reflectors)
    for each in all_of_them:
        each.end()
    until = time.monotonic() + seconds
    return [each.resource for each in all_of_them if not each.stop(max(0.0, until - time.monotonic()))]
