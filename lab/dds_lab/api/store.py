"""Objects, their versions and their history under one revision counter, as etcd and the watch cache keep them.

A store knows keys, paths and opaque objects; what an object means is said elsewhere. Every write takes the next
revision, is remembered as a `Change` until the bounded history forgets it, and is told to the subscribers of its table
before the call returns. Subscribers must only take note: they must never write to the store.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from dds_lab.api.kinds import Object

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"


class TooOld(Exception):
    """What was asked for is older than the history that is left; `oldest` is the oldest revision that can be had."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is older than {oldest}")
        self.asked = asked
        self.oldest = oldest


class Record:
    """One version of one object. `shown` keeps what was made of it for others (encoded bytes), for as long as it lives."""

    __slots__ = ("object", "revision", "shown")

    def __init__(self, obj: Object, revision: int) -> None:
        self.object = obj
        self.revision = revision
        self.shown: dict[Any, Any] = {}


class Change:
    """One write. `new` is what the object became; after a deletion its last content under the deletion's revision."""

    __slots__ = ("_left", "new", "notice", "old", "path", "revision", "type")

    def __init__(self, type: str, path: str, old: Record | None, new: Record) -> None:
        self.type = type
        self.path = path
        self.revision = new.revision
        self.old = old
        self.new = new
        self.notice = (type, new)
        """What those see who see everything; one for all of them."""
        self._left: Record | None = None

    @property
    def left(self) -> Record:
        """What those see whose selector the object no longer matches: the old content under the new revision."""
        if self._left is None:
            assert self.old is not None
            self._left = Record(_at_revision(self.old.object, self.revision), self.revision)
        return self._left


Subscriber = Callable[[Change], None]


class Table:
    """All objects of one storage key in the order of their paths (`namespace/name`, or `name`)."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.paths: list[str] = []
        self.changes: deque[Change] = deque()
        self.compacted = 0
        """Revision of the newest change that is forgotten: what came after it can be told, nothing before."""
        self.subscribers: list[Subscriber] = []

    def under(self, prefix: str) -> list[str]:
        """Paths that begin with `prefix` (`namespace/`), in order; all of them without one."""
        if not prefix:
            return self.paths
        low = bisect_left(self.paths, prefix)
        return self.paths[low : bisect_left(self.paths, prefix[:-1] + "0", low)]  # "0" is what follows "/"

    def since(self, revision: int) -> list[Change]:
        """Changes after `revision`, oldest first. Raises `TooOld` where some of them are forgotten."""
        if revision < self.compacted:
            raise TooOld(revision, self.compacted)
        found = []
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def as_of(self, revision: int) -> tuple[list[str], dict[str, Record]]:
        """Paths and records as they were at `revision`. Raises `TooOld` where that is forgotten."""
        later = self.since(revision)
        if not later:
            return self.paths, self.records
        records = dict(self.records)
        for change in reversed(later):
            if change.old is None:
                records.pop(change.path, None)
            else:
                records[change.path] = change.old
        return sorted(records), records


class Store:
    """All tables and the one revision counter."""

    def __init__(self, history: int = 20_000, revision: int = 1) -> None:
        """`history` is how many changes are remembered over all tables."""
        self.revision = revision
        self._history = history
        self._tables: dict[str, Table] = {}
        self._order: deque[Table] = deque()

    def table(self, key: str) -> Table:
        """The table of a storage key; an empty one when nothing was ever written under it."""
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = Table()
        return found

    def known(self) -> list[str]:
        """Storage keys under which something was asked for or written, sorted."""
        return sorted(self._tables)

    def get(self, key: str, path: str) -> Record | None:
        """The newest version of an object, None when there is none."""
        return self.table(key).records.get(path)

    def put(self, key: str, path: str, obj: Object) -> Record:
        """Write an object (whether it is new or not) under the next revision, which its metadata then shows."""
        table = self.table(key)
        old = table.records.get(path)
        self.revision += 1
        new = Record(_at_revision(obj, self.revision), self.revision)
        table.records[path] = new
        if old is None:
            insort(table.paths, path)
        self._remember(table, Change(ADDED if old is None else MODIFIED, path, old, new))
        return new

    def remove(self, key: str, path: str) -> Record:
        """Take an object away; gives its last content under the revision of the deletion. KeyError when it is not there."""
        table = self.table(key)
        old = table.records.pop(path)
        del table.paths[bisect_left(table.paths, path)]
        self.revision += 1
        gone = Record(_at_revision(old.object, self.revision), self.revision)
        self._remember(table, Change(DELETED, path, old, gone))
        return gone

    def subscribe(self, key: str, call: Subscriber) -> Callable[[], None]:
        """Be told of every change of a table as it is made; the function that is returned ends it."""
        table = self.table(key)
        table.subscribers = [*table.subscribers, call]  # a new list: one may come or go while changes are told

        def end() -> None:
            table.subscribers = [each for each in table.subscribers if each is not call]

        return end

    def compact(self) -> None:
        """Forget all history: what a restarted server no longer knows."""
        self._order.clear()
        for table in self._tables.values():
            table.changes.clear()
            table.compacted = self.revision

    def records(self) -> Iterator[tuple[str, str, Record]]:
        """Everything there is, as (key, path, record), in order."""
        for key in self.known():
            table = self._tables[key]
            for path in list(table.paths):
                yield key, path, table.records[path]

    def _remember(self, table: Table, change: Change) -> None:
        table.changes.append(change)
        self._order.append(table)
        if len(self._order) > self._history:
            oldest = self._order.popleft()
            oldest.compacted = oldest.changes.popleft().revision
        for subscriber in table.subscribers:
            subscriber(change)


def _at_revision(obj: Object, revision: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
