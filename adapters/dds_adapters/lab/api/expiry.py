"""Events do not stay: each goes an hour after it was last written, as a lease in etcd would make it.

Old ones are only looked for when somebody asks for events or writes one; in between nobody can tell.
"""

from collections import deque
from collections.abc import Callable

from dds_adapters.lab.api.clock import MICROSECONDS
from dds_adapters.lab.api.store import DELETED, Change, Store

KEY = "events"
LIFE_SECONDS = 3600


class Expiry:
    """Follows the events of one store."""

    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._written: deque[tuple[int, str, int]] = deque()
        store.subscribe(KEY, self._note)

    def _note(self, change: Change) -> None:
        if change.type != DELETED:
            self._written.append((self._now() + LIFE_SECONDS * MICROSECONDS, change.path, change.revision))

    def clear(self) -> None:
        """Take away what is older."""
        now = self._now()
        while self._written and self._written[0][0] <= now:
            _, path, revision = self._written.popleft()
            record = self._store.get(KEY, path)
            if record is not None and record.revision == revision:
                self._store.remove(KEY, path)
