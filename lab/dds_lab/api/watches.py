"""Watches: the changes of a resource, filtered for one client, in order, without I/O or timers of their own.

A `Watch` collects notices until they are taken. Its owner calls `tick` at the instant `due`, for bookmarks and for its end. A
watch never changes an object and never blocks.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from dds_lab.api import selectors, status
from dds_lab.api.clock import MICROSECONDS
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.store import ADDED, DELETED, MODIFIED, Change, Record, Store, TooOld
from dds_lab.api.strategies import Strategy

BOOKMARK = "BOOKMARK"
ERROR = "ERROR"
INITIAL_END = "k8s.io/initial-events-end"

BOOKMARK_SECONDS = 60
LAST_BOOKMARKS = (2, 1)
"""Seconds before the end of a watch at which it gives bookmarks."""

Notice = tuple[str, Record]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object (for ERROR a Status)."""


class Filter:
    """The objects of a table that one client sees: those of a namespace that match both selectors."""

    def __init__(self, strategy: Strategy, namespace: str, labels: str, fields: str) -> None:
        """ApiError 400 for a malformed selector."""
        resource = strategy.resource
        self.prefix = f"{namespace}/" if namespace else ""
        self.labels = selectors.labels(labels) if labels else ()
        known = ("metadata.name", "metadata.namespace", *strategy.selectable_names)
        self.fields = selectors.fields(fields, known, resource.custom) if fields else ()
        self._strategy = strategy
        self._plain_fields = all(each.key.startswith("metadata.") for each in self.fields)
        self.selects = bool(self.labels or self.fields)

    def accepts(self, record: Record) -> bool:
        """Whether an object of the namespace matches the selectors."""
        if self.labels and not selectors.matches(self.labels, record.object["metadata"].get("labels") or {}):
            return False
        return not self.fields or selectors.matches(self.fields, self._fields_of(record))

    def _fields_of(self, record: Record) -> dict[str, str]:
        meta = record.object["metadata"]
        found = {"metadata.name": meta["name"], "metadata.namespace": meta.get("namespace", "")}
        if self._plain_fields:
            return found
        selectable = record.shown.get("selectable")
        if selectable is None:
            selectable = record.shown["selectable"] = self._strategy.selectable(record.object)
        return {**selectable, **found}


class Watch:
    """One client's view of a table's changes, from a revision on."""

    def __init__(self, store: Store, strategy: Strategy, filter: Filter, now: Callable[[], int]) -> None:
        self._store = store
        self._strategy = strategy
        self._filter = filter
        self._now = now
        self._notices: list[Notice] = []
        self._everything = not (filter.prefix or filter.selects)
        self._ready: Callable[[], None] | None = None
        self._hand_over: Callable[[Notice], None] | None = None
        self._end_subscription: Callable[[], None] | None = None
        self._bookmark_at: int | None = None
        self._ends_at: int | None = None
        self.closed = False
        """No further notices come. Those that are left can still be taken."""

    @property
    def resource(self) -> Resource:
        return self._strategy.resource

    def begin(self, since: int | None, initial: bool, mark_initial: bool) -> None:
        """Follow the table. With `initial`, everything there is comes first, as ADDED (with `mark_initial` followed by a
        bookmark); otherwise the changes after revision `since` come first (None: only future changes)."""
        table = self._store.table(self._strategy.resource.key)
        if initial:
            for path in table.under(self._filter.prefix):
                record = table.records[path]
                if not self._filter.selects or self._filter.accepts(record):
                    self._notices.append((ADDED, record))
            if mark_initial:
                self._bookmark({INITIAL_END: "true"})
        elif since is not None:
            try:
                for change in table.since(since):
                    self._take_note(change)
            except TooOld as old:
                self.fail(status.too_old(old.asked, old.oldest).status)
                return
        self._waits_for = since or 0
        self._end_subscription = self._store.subscribe(self._strategy.resource.key, self._hear)

    def lasts(self, seconds: float, bookmarks: bool) -> None:
        """End after `seconds`. With `bookmarks`, give one every minute and before the end."""
        self._ends_at = self._now() + round(seconds * MICROSECONDS)
        if bookmarks:
            self._bookmark_at = self._next_bookmark()

    def on_ready(self, call: Callable[[], None] | None) -> None:
        """Call when there is something to take or the watch has ended (at once if so), then not again before a `take`."""
        self._ready = call
        if self._notices or self.closed:
            self._tell()

    def on_notice(self, call: Callable[[Notice], None]) -> None:
        """Call with every notice as it comes, first with those collected so far. Then nothing is left to take."""
        self._hand_over = call
        for notice in self.take():
            call(notice)

    def take(self) -> list[Notice]:
        """The notices since the last call, oldest first."""
        taken = self._notices
        self._notices = []
        return taken

    def close(self) -> None:
        if self._end_subscription is not None:
            self._end_subscription()
            self._end_subscription = None
        self._hand_over = None
        if not self.closed:
            self.closed = True
            self._tell()

    def fail(self, told: Object) -> None:
        """End with an ERROR notice that carries a Status."""
        if not self.closed:
            self._notices.append((ERROR, Record(told, 0)))
            self.close()

    @property
    def due(self) -> int | None:
        """The instant (µs) of the next `tick`; None for never."""
        if self.closed:
            return None
        instants = [each for each in (self._bookmark_at, self._ends_at) if each is not None]
        return min(instants, default=None)

    def tick(self) -> None:
        """Give the bookmark that is due, or end the watch at its end. Has no effect before `due`."""
        if self.closed:
            return
        now = self._now()
        if self._ends_at is not None and now >= self._ends_at:
            self.close()
        elif self._bookmark_at is not None and now >= self._bookmark_at:
            self._bookmark({})
            self._bookmark_at = self._next_bookmark()

    def _next_bookmark(self) -> int:
        now = self._now()
        candidates = [now + BOOKMARK_SECONDS * MICROSECONDS]
        if self._ends_at is not None:
            candidates += [self._ends_at - seconds * MICROSECONDS for seconds in LAST_BOOKMARKS]
        return min(each for each in candidates if each > now)

    def _bookmark(self, annotations: dict[str, str]) -> None:
        resource = self._strategy.resource
        meta: Object = {"resourceVersion": str(self._store.revision)}
        if annotations:
            meta["annotations"] = annotations
        marker = {"kind": resource.kind, "apiVersion": resource.api_version, **self._strategy.empty, "metadata": meta}
        self._add((BOOKMARK, Record(marker, self._store.revision)))

    def _hear(self, change: Change) -> None:
        if change.revision <= self._waits_for:
            return
        if self._everything:
            self._add(change.notice)
        else:
            self._take_note(change)

    def _take_note(self, change: Change) -> None:
        filter = self._filter
        if filter.prefix and not change.path.startswith(filter.prefix):
            return
        if not filter.selects:
            self._add(change.notice)
            return
        before = change.old is not None and filter.accepts(change.old)
        after = change.type != DELETED and filter.accepts(change.new)
        if after:
            self._add((MODIFIED if before else ADDED, change.new))
        elif before:
            self._add((DELETED, change.new if change.type == DELETED else change.left))

    def _add(self, notice: Notice) -> None:
        if self._hand_over is not None:
            self._hand_over(notice)
            return
        self._notices.append(notice)
        if len(self._notices) == 1:
            self._tell()

    def _tell(self) -> None:
        if self._ready is not None:
            self._ready()


T = TypeVar("T")


class Flow(Protocol[T]):
    """A source of notices, or of the lines made of them: a watch, a stream, or a wrapper that injects faults."""

    @property
    def closed(self) -> bool: ...
    @property
    def due(self) -> int | None: ...
    def take(self) -> list[T]: ...
    def on_ready(self, call: Callable[[], None] | None) -> None: ...
    def tick(self) -> None: ...
    def close(self) -> None: ...


class Stream:
    """A watch as the lines of an HTTP answer. A line is made once and shared by all streams of the same form."""

    def __init__(self, watch: Flow[Notice], line: Callable[[str, Record], bytes], headers: dict[str, str]) -> None:
        self.watch = watch
        self.code = 200
        self.headers = headers
        self._line = line

    def take(self) -> list[bytes]:
        """The lines since the last call, each with its line break."""
        line = self._line
        return [line(type, record) for type, record in self.watch.take()]

    def on_ready(self, call: Callable[[], None] | None) -> None:
        self.watch.on_ready(call)

    @property
    def closed(self) -> bool:
        return self.watch.closed

    @property
    def due(self) -> int | None:
        return self.watch.due

    def tick(self) -> None:
        self.watch.tick()

    def close(self) -> None:
        self.watch.close()
