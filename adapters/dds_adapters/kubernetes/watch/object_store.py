"""What is known of one resource's objects, and how a list or a watch event changes it. Pure.

Only an object's identity and version are kept. Each change is passed on once, even if lists and watches report it again. An
object is stored only after it was passed on, so a failure in between loses no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple, Protocol

import msgspec

from dds_adapters.kubernetes.cluster import Refused
from dds_adapters.kubernetes.decode.translate import RESOURCES, Resource
from dds_adapters.kubernetes.watch.delta_queue import ADDED, DELETED, MODIFIED
from dds_core.model import Pod

ERROR = "ERROR"
_GONE = 410


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """Identifying fields of an object's metadata; "" for a field that is missing."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct, frozen=True):
    metadata: Identity = Identity()


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float = 0.0


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    details: _Details | None = None


_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(_Status)
_NOBODY = Identity()


def identity(raw: bytes) -> Identity:
    """The object's identity; an empty one if it cannot be read: the object's decoder reports that error later."""
    try:
        return _object.decode(raw).metadata
    except ValueError:
        return _NOBODY


def failure(where: str, raw: bytes) -> Refused:
    """The error of a watch that ended with a Status; 410 if it is unreadable, since a new list is always safe."""
    try:
        status = _status.decode(raw)
    except ValueError:
        status = _Status()
    wait = status.details.retry_after_seconds if status.details is not None else 0.0
    return Refused(where, status.code or _GONE, status.reason[:100], wait)


Put = Callable[[str, str, bytes], None]
"""Takes an object's uid, its type of change (ADDED, MODIFIED or DELETED) and its JSON."""


class Seen(NamedTuple):
    """What is kept of an object. `matters`: if the object leaves the watched scope, dds must get it from the API server."""

    version: str
    namespace: str
    name: str
    matters: bool


@dataclass
class Listing:
    """A list that is being read: the objects known at its start by (namespace, name), and the uids read so far."""

    named: dict[tuple[str, str], str]
    token: str = ""
    seen: set[str] = field(default_factory=set)


class ObjectStore:
    """The known objects. `matters`: see `WatchSpec.matters`. `before`: objects that the receiver already has (from its log)."""

    def __init__(
        self, put: Put, matters: Callable[[bytes], bool] | None = None, before: Iterable[Identity] = ()
    ) -> None:
        self._put = put
        self._matters = matters
        self._objects = {
            one.uid: Seen("", intern(one.namespace), one.name, matters is not None) for one in before if one.uid
        }
        self._doubtful: set[str] = set()

    def __len__(self) -> int:
        return len(self._objects)

    def is_there(self, raw: bytes) -> Identity:
        """Take in an object of a list or an event; pass it on unless this version was passed on before."""
        who = identity(raw)
        known = self._objects.get(who.uid)
        if known is None or known.version != who.version or not who.version:
            self._put(who.uid, ADDED if known is None else MODIFIED, raw)
            self._remember(who, raw)
        self._doubtful.discard(who.uid)
        return who

    def has_left(self, uid: str, raw: bytes | None = None) -> None:
        """The object left the watched scope: it was deleted, or it is doubtful until `settle`. `raw` is its last JSON."""
        known = self._objects.get(uid)
        if known is None:
            return
        if known.matters or (self._matters is not None and raw is not None and self._matters(raw)):
            self._doubtful.add(uid)
        else:
            self._is_gone(uid, known, raw)

    # -- lists ---------------------------------------------------------------------------------------------------

    def begin(self) -> Listing:
        return Listing({(one.namespace, one.name): uid for uid, one in self._objects.items()})

    def in_list(self, listing: Listing, raw: bytes) -> None:
        """An object of the list. First report the deletion of a known object that has its name and another uid."""
        who = identity(raw)
        listing.seen.add(who.uid)
        namesake = listing.named.get((who.namespace, who.name), who.uid)
        known = self._objects.get(namesake)
        if namesake != who.uid and known is not None:
            self._is_gone(namesake, known, None)
        self.is_there(raw)

    def end(self, listing: Listing) -> None:
        """The list is complete: a known object that is not in it has left."""
        for uid in [uid for uid in self._objects if uid not in listing.seen]:
            self.has_left(uid)

    # -- doubts --------------------------------------------------------------------------------------------------

    def doubtful(self) -> list[tuple[str, Seen]]:
        """The objects that left the scope: the caller gets each one from the API server and calls `settle`."""
        return [(uid, self._objects[uid]) for uid in sorted(self._doubtful)] if self._doubtful else []

    def settle(self, uid: str, raw: bytes | None) -> None:
        """End a doubt. `raw` is the object's JSON now, outside the scope; None when no object of that name exists."""
        known = self._objects.get(uid)
        if known is None:
            return
        if raw is None or identity(raw).uid != uid:
            self._is_gone(uid, known, None)
            return
        self._put(uid, MODIFIED, raw)
        self._forget(uid)

    def _is_gone(self, uid: str, known: Seen, raw: bytes | None) -> None:
        self._put(uid, DELETED, raw or _remains(uid, known))
        self._forget(uid)

    def _remember(self, who: Identity, raw: bytes) -> None:
        if who.uid:
            matters = self._matters is not None and self._matters(raw)
            self._objects[who.uid] = Seen(who.version, intern(who.namespace), who.name, matters)

    def _forget(self, uid: str) -> None:
        del self._objects[uid]
        self._doubtful.discard(uid)


def _remains(uid: str, known: Seen) -> bytes:
    """A minimal object for the deletion of an object whose last JSON is unknown."""
    return msgspec.json.encode({"metadata": {"name": known.name, "namespace": known.namespace, "uid": uid}})


class Rows(Protocol):
    """The part of a state that holds objects: `table(kind).rows` has them by uid."""

    def table(self, kind: Any) -> Any: ...


def seeds(state: Rows, resources: Mapping[str, Resource] = RESOURCES) -> dict[str, list[Identity]]:
    """The objects of a state, by resource, for `ObjectStore.before`: those that the first list does not contain are deleted.

    Only pods without a node are listed (`watch_spec.PENDING`). A pod that got its node while the watch was down is requested by
    name, like any pod that leaves that scope."""
    found: dict[str, list[Identity]] = {}
    for resource, known in resources.items():
        rows = state.table(known.kind).rows.values()
        found[resource] = [
            Identity(one.uid, getattr(one, "namespace", ""), getattr(one, "name", ""))
            for one in rows
            if not (isinstance(one, Pod) and one.node)
        ]
    return found
