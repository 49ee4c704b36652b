"""One resource of a cluster, followed: listed, watched, and listed again when the watch says that history is gone.

What comes is told as watch events, each change once; what a broken watch missed is told as the differences of the next list.
Knows of each object its identity and version alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random

import msgspec

from dds_adapters.kubernetes.cluster import EVERYTHING, Cluster, Refused, Unreachable, Watch
from dds_adapters.kubernetes.watched import VERSIONS, scope_of_config

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
    """A resource that is followed. `first` lists it, `follow` then watches until `stop`; both tell what they see."""

    def __init__(
        self, cluster: Cluster, resource: str, tell: Tell, note: Callable[[str], None], random: Random
    ) -> None:
        self.resource = resource
        self._scope = scope_of_config() if resource == "configmaps" else EVERYTHING
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
        """List it once; False when no version of it that is understood is served. Raises Refused and Unreachable."""
        for version in VERSIONS[self.resource]:
            self._api_version = version
            try:
                self._list()
                return True
            except Refused as error:
                if error.code != 404:
                    raise
        return False

    def follow(self) -> None:
        """Watch, list again where that is needed, wait where the server is in trouble; until `stop`."""
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
        """Tell what the list says and was not known, then what is gone."""
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
