"""Random interruptions: the mirror is the server's list in the end, and all that was told on the way was so at the time.

First a list and its history of the test's own, read step by step in an order that is drawn, with everything that can go
wrong between any two steps; then the lab's API server over HTTP, with fewer cases.
"""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes.watch.delta_queue import DELETED, SYNCED, DeltaQueue
from dds_adapters.kubernetes.watch.object_store import Listing, ObjectStore, identity
from tests.support.drawn import examples

NAMES = "abcd"


class Server:
    """A list and its history, by the rules of an API server."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, bytes] = {}
        self.history: list[tuple[int, str, bytes]] = []
        self.states: set[bytes] = set()
        self._uids: dict[str, str] = {}

    def write(self, name: str, gone: bool) -> None:
        self.version += 1
        if gone and name in self.objects:
            self.history.append((self.version, DELETED, self._raw(name)))
            del self.objects[name]
        elif not gone:
            new = name not in self.objects
            if new:
                self._uids[name] = f"{name}-{self.version}"
            self.objects[name] = self._raw(name)
            self.states.add(self.objects[name])
            self.history.append((self.version, "ADDED" if new else "MODIFIED", self.objects[name]))

    def _raw(self, name: str) -> bytes:
        meta = {"name": name, "uid": self._uids[name], "resourceVersion": str(self.version)}
        return msgspec.json.encode({"metadata": meta})


class Reader:
    """What a reflector does, one step at a time: a page, or an event, or a connection that breaks at any of them."""

    def __init__(self, server: Server, arrivals: DeltaQueue) -> None:
        self._server = server
        self._arrivals = arrivals
        self._known = ObjectStore(lambda uid, type, raw: arrivals.put("things", uid, type, raw))
        self._listing: Listing | None = None
        self._pages: list[bytes] = []
        self._since: int | None = None
        self._at = 0

    def step(self, twice: bool) -> None:
        if self._since is not None:
            self._event(twice)
        elif self._listing is None:
            self._listing = self._known.begin()
            self._pages, self._at = list(self._server.objects.values()), self._server.version
        elif self._pages:
            self._known.in_list(self._listing, self._pages.pop())
        else:
            self._known.end(self._listing)
            self._arrivals.mark("things", SYNCED)
            self._listing, self._since = None, self._at

    def _event(self, twice: bool) -> None:
        after = (one for one in self._server.history if one[0] > (self._since or 0))
        version, type, raw = next(after, (0, "", b""))
        for _ in range(2 if twice else 1):
            if type == DELETED:
                self._known.has_left(identity(raw).uid, raw)
            elif type:
                self._known.is_there(raw)
        self._since = max(version, self._since or 0)

    def history_is_gone(self) -> None:
        self._since, self._listing = None, None

    def page_is_read_again(self) -> None:
        if self._listing is not None:
            self._pages = self._pages + self._pages[-1:]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "anew", "step", "all", "twice", "gone", "again", "take", "some"]),
        st.sampled_from(NAMES),
    ),
    max_size=120,
)


@given(STEPS)
@examples(80, 400)
def test_whatever_breaks_the_mirror_becomes_the_list(steps: list[tuple[str, str]]) -> None:
    server, arrivals = Server(), DeltaQueue()
    reader = Reader(server, arrivals)
    mirror: dict[str, str] = {}
    names: dict[str, str] = {}

    def take(limit: int | None) -> None:
        for one in arrivals.take(0, limit):
            if one.type == SYNCED:
                continue
            who = identity(one.raw)
            if one.type == DELETED:
                assert mirror.pop(who.uid, None)
                del names[who.name]
                continue
            assert one.raw in server.states
            assert (one.type == "ADDED") == (who.uid not in mirror)
            assert int(who.version) > int(mirror.get(who.uid, "0")), "never back, never twice"
            assert names.setdefault(who.name, who.uid) == who.uid, "the end of a namesake comes first"
            mirror[who.uid] = who.version

    for what, name in steps:
        if what in ("write", "delete"):
            server.write(name, what == "delete")
        elif what == "anew":
            server.write(name, gone=True)
            server.write(name, gone=False)
        elif what in ("step", "twice"):
            reader.step(what == "twice")
        elif what == "all":
            for _ in range(10):
                reader.step(False)
        elif what == "gone":
            reader.history_is_gone()
        elif what == "again":
            reader.page_is_read_again()
        else:
            take(2 if what == "some" else None)
    for _ in range(len(server.history) + 2 * len(NAMES) + 4):
        reader.step(False)
    take(None)
    assert mirror == {identity(raw).uid: identity(raw).version for raw in server.objects.values()}
