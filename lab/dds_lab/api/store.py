"""Objects, their versions and history under one revision counter, like etcd with a watch cache.

The store does not interpret objects. Every write takes the next revision, stays in the bounded history as a `Change`, and goes
to the subscribers of its table before the call returns. Subscribers must never write to the store.
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
    """The history no longer reaches back to the revision `asked`; `oldest` is the oldest that it has."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is older than {oldest}")
        self.asked = asked
        self.oldest = oldest


class Record:
    """One version of an object. `shown` caches what was made of it (encoded bytes)."""

    __slots__ = ("object", "revision", "shown")

    def __init__(self, obj: Object, revision: int) -> None:
        self.object = obj
        self.revision = revision
        self.shown: dict[Any, Any] = {}


class Change:
    """One write. `new` is the object after it; for a deletion, the last content under the deletion's revision."""

    __slots__ = ("_left", "new", "notice", "old", "path", "revision", "type")

    def __init__(self, type: str, path: str, old: Record | None, new: Record) -> None:
        self.type = type
        self.path = path
        self.revision = new.revision
        self.old = old
        self.new = new
        self.notice = (type, new)
        """The notice for unfiltered watches, shared by all of them."""
        self._left: Record | None = None

    @property
    def left(self) -> Record:
        """What a watch gets if its selector no longer matches the object: the old content under the new revision."""
        if self._left is None:
            assert self.old is not None
            self._left = Record(_at_revision(self.old.object, self.revision), self.revision)
        return self._left


Subscriber = Callable[[Change], None]


class Table:
    """All objects of one storage key, ordered by path (`namespace/name`, or `name`)."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.paths: list[str] = []
        self.changes: deque[Change] = deque()
        self.compacted = 0
        """Revision of the newest change that is forgotten. Only later ones are available."""
        self.subscribers: list[Subscriber] = []

    def under(self, prefix: str) -> list[str]:
        """Paths that begin with `prefix` (`namespace/`, or "" for all), in order."""
        if not prefix:
            return self.paths
        low = bisect_left(self.paths, prefix)
        return self.paths[low : bisect_left(self.paths, prefix[:-1] + "0", low)]  # "0" is what follows "/"

    def since(self, revision: int) -> list[Change]:
        """Changes after `revision`, oldest first. TooOld if some are forgotten."""
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
        """Paths and records as they were at `revision`. TooOld if that is forgotten."""
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
    def __init__(self, history: int = 20_000, revision: int = 1) -> None:
        """`history` is the number of changes kept, over all tables."""
        self.revision = revision
        self._history = history
        self._tables: dict[str, Table] = {}
        self._order: deque[Table] = deque()

    def table(self, key: str) -> Table:
        """The table of a storage key; empty if it was never written."""
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = Table()
        return found

    def known(self) -> list[str]:
        """Storage keys of all tables, sorted."""
        return sorted(self._tables)

    def get(self, key: str, path: str) -> Record | None:
        table = self._tables.get(key)
        return table.records.get(path) if table is not None else None

    def put(self, key: str, path: str, obj: Object) -> Record:
        """Create or replace an object under the next revision, which becomes its resourceVersion."""
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
        """Remove an object; gives its last content under the deletion's revision. KeyError if there is none."""
        table = self.table(key)
        old = table.records.pop(path)
        del table.paths[bisect_left(table.paths, path)]
        self.revision += 1
        gone = Record(_at_revision(old.object, self.revision), self.revision)
        self._remember(table, Change(DELETED, path, old, gone))
        return gone

    def subscribe(self, key: str, call: Subscriber) -> Callable[[], None]:
        """Call with every change of a table as it is made; gives the function that ends it."""
        table = self.table(key)
        table.subscribers = [*table.subscribers, call]  # a new list, since a subscriber may come or go during a change

        def end() -> None:
            table.subscribers = [each for each in table.subscribers if each is not call]

        return end

    def compact(self) -> None:
        """Forget all history, as a server's restart does."""
        self._order.clear()
        for table in self._tables.values():
            table.changes.clear()
            table.compacted = self.revision

    def records(self) -> Iterator[tuple[str, str, Record]]:
        """All objects as (key, path, record), in order."""
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
