"""What is known of one resource's objects, and what a list or an event changes in it. Pure.

Of an object only its identity and version are kept. Each change is passed on once; what lists and watches say twice is not.
What is here must always be what was passed on, so that nothing gets lost when passing on fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple, Protocol

import msgspec

from dds_adapters.kubernetes.cluster import Refused
from dds_adapters.kubernetes.decode.translate import RESOURCES, Resource
from dds_adapters.kubernetes.watch.arrivals import ADDED, DELETED, MODIFIED
from dds_core.model import Pod

ERROR = "ERROR"
_GONE = 410


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """An object's own part of its metadata; "" for what it has not."""

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
    """The object's identity, an empty one when it cannot be read (the object is passed on: its decoder says what is wrong)."""
    try:
        return _object.decode(raw).metadata
    except ValueError:
        return _NOBODY


def failure(where: str, raw: bytes) -> Refused:
    """The Status that a watch ended with. What cannot be read is taken for a history that is gone: a list is always right."""
    try:
        status = _status.decode(raw)
    except ValueError:
        status = _Status()
    wait = status.details.retry_after_seconds if status.details is not None else 0.0
    return Refused(where, status.code or _GONE, status.reason[:100], wait)


Put = Callable[[str, str, bytes], None]
"""Takes an object's uid, what happened to it (ADDED, MODIFIED or DELETED) and its JSON."""


class Seen(NamedTuple):
    """What is kept of an object. `matters`: it has to be asked what became of it when it leaves."""

    version: str
    namespace: str
    name: str
    matters: bool


@dataclass
class Listing:
    """A list that is being read: what was known by name when it began, and the uids that it has had so far."""

    named: dict[tuple[str, str], str]
    token: str = ""
    seen: set[str] = field(default_factory=set)


class ObjectStore:
    """The objects that are known. `matters` is `WatchSpec.matters`; `before` are objects that the other side has from before."""

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
        """An object is there, and is so: news, unless this version of it was passed on before."""
        who = identity(raw)
        known = self._objects.get(who.uid)
        if known is None or known.version != who.version or not who.version:
            self._put(who.uid, ADDED if known is None else MODIFIED, raw)
            self._remember(who, raw)
        self._doubtful.discard(who.uid)
        return who

    def has_left(self, uid: str, raw: bytes | None = None) -> None:
        """An object is not among those that are followed any more: gone, or to be asked. `raw` is its last JSON."""
        known = self._objects.get(uid)
        if known is None:
            return
        if known.matters or (self._matters is not None and raw is not None and self._matters(raw)):
            self._doubtful.add(uid)
        else:
            self._is_gone(uid, known, raw)

    # -- lists ---------------------------------------------------------------------------------------------------

    def begin(self) -> Listing:
        """A list begins."""
        return Listing({(one.namespace, one.name): uid for uid, one in self._objects.items()})

    def in_list(self, listing: Listing, raw: bytes) -> None:
        """An object of the list. Whoever had its name and another uid is gone, and that is told first."""
        who = identity(raw)
        listing.seen.add(who.uid)
        namesake = listing.named.get((who.namespace, who.name), who.uid)
        known = self._objects.get(namesake)
        if namesake != who.uid and known is not None:
            self._is_gone(namesake, known, None)
        self.is_there(raw)

    def end(self, listing: Listing) -> None:
        """The list was read to its end: what it did not have has left."""
        for uid in [uid for uid in self._objects if uid not in listing.seen]:
            self.has_left(uid)

    # -- doubts --------------------------------------------------------------------------------------------------

    def doubtful(self) -> list[tuple[str, Seen]]:
        """The objects that have left and have to be asked what became of them."""
        return [(uid, self._objects[uid]) for uid in sorted(self._doubtful)] if self._doubtful else []

    def settle(self, uid: str, raw: bytes | None) -> None:
        """What became of it: its JSON as it is now, elsewhere; None when there is nobody of its name."""
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
    """What can be told of an object whose end nobody saw."""
    return msgspec.json.encode({"metadata": {"name": known.name, "namespace": known.namespace, "uid": uid}})


class Rows(Protocol):
    """A state, as far as its objects are concerned: `table(kind).rows` are they, by uid."""

    def table(self, kind: Any) -> Any: ...


def seeds(state: Rows, resources: Mapping[str, Resource] = RESOURCES) -> dict[str, list[Identity]]:
    """By resource the objects that a state has, for those who listen anew: what their first list does not have is gone.

    Of pods only those without a node, since only these are listed (`watched.PENDING`): no list could say that the others are
    there. One that got its node while nobody listened is asked for, like any that leaves that scope."""
    found: dict[str, list[Identity]] = {}
    for resource, known in resources.items():
        rows = state.table(known.kind).rows.values()
        found[resource] = [
            Identity(one.uid, getattr(one, "namespace", ""), getattr(one, "name", ""))
            for one in rows
            if not (isinstance(one, Pod) and one.node)
        ]
    return found
