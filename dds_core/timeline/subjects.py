"""Whom a timeline is about: what a person typed, found among everything that a log or recording tells of.

Takes a claim (namespace/name, name or uid), a device (UUID, or name or uid of its resource) or a node (name or uid);
the beginning of a uid or UUID will do when nothing else begins so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from dds_core.errors import InputError
from dds_core.events import (
    Checkpoint,
    ClaimObserved,
    ConfigObserved,
    FabricResourceObserved,
    NodeObserved,
    PolicyChanged,
    SliceObserved,
)
from dds_core.log.envelope import LeanEvent
from dds_core.model import Claim, FabricResource, Node
from dds_core.timeline.known import Known, Row
from dds_core.timeline.moments import Moment

NAMING = frozenset(
    kind.__name__
    for kind in (
        Checkpoint,
        ClaimObserved,
        ConfigObserved,
        FabricResourceObserved,
        NodeObserved,
        PolicyChanged,
        SliceObserved,
    )
)
"""The types of events that names come from: all that has to be read to find a subject."""

_NAME, _UUID = b'"name":', b'"uuid":'


def naming(rows: Iterable[LeanEvent]) -> Iterator[LeanEvent]:
    """Of rows of these types, those that can name something: a later change of a claim or node holds no name, and need
    not even be decoded."""
    for row in rows:
        data = row.data
        if data is None:
            continue
        if row.type in _NAMED_AT_FIRST and _NAME not in data and _UUID not in data:
            continue
        yield row


_NAMED_AT_FIRST = frozenset(kind.__name__ for kind in (ClaimObserved, FabricResourceObserved, NodeObserved))

_SHORTEST = 6


class Subject(NamedTuple):
    """`kind` is claim, device or node, in the publisher's log pool, node or machine; `name` what to call it: namespace/name, the
    UUID, the node's or pool's name. `uids` are those of its claims, resources or nodes, or the pool's stream: one name may have
    had several lives, and a device without a resource has none."""

    kind: str
    name: str
    uids: frozenset[str]


class NoSuchSubject(InputError):
    """Nothing of this name was ever seen."""


class AmbiguousSubject(InputError):
    """Several things go by this name."""


class Directory:
    """Every claim, device and node that was ever seen, by all their names."""

    kinds = "claim, device or node"
    advice = "give namespace/name of a claim, a UUID or resource of a device, or a node"

    def __init__(self) -> None:
        self._names: dict[str, set[tuple[str, str]]] = {}
        self._uids: dict[tuple[str, str], set[str]] = {}
        self._resources: dict[str, tuple[str, str]] = {}
        self._known = Known()

    def read(self, told: Iterable[Moment]) -> Directory:
        """Take in what is told; gives itself."""
        for moment in told:
            if moment.fact is not None:
                _, row = self._known.learn(moment.fact)
                restored = isinstance(moment.fact, Checkpoint)
                for one in list(self._known.objects.values()) if restored else [row]:
                    self._take(one)
        for uid, (name, uuid) in self._resources.items():
            self._add(("device", uuid or name), uid, name)
        for uuid in self._known.uuid_at.values():
            self._call(("device", uuid), uuid)
        return self

    def _take(self, row: Row | None) -> None:
        match row:
            case Claim():
                self._add(("claim", f"{row.namespace}/{row.name}"), row.uid, row.name)
            case FabricResource():
                former = self._resources.get(row.uid, ("", ""))
                self._resources[row.uid] = (row.name, row.uuid or former[1])
            case Node():
                self._add(("node", row.name), row.uid)

    def _add(self, thing: tuple[str, str], uid: str, *names: str) -> None:
        self._uids.setdefault(thing, set()).add(uid)
        for name in (thing[1], uid, *names):
            self._call(thing, name)

    def _call(self, thing: tuple[str, str], name: str) -> None:
        self._names.setdefault(name, set()).add(thing)

    def subjects(self) -> list[Subject]:
        """Everything that a timeline can be told of, by kind and name."""
        return [
            self._subject(thing) for thing in sorted({thing for called in self._names.values() for thing in called})
        ]

    def find(self, text: str) -> Subject:
        """The one thing that is called `text`. Raises NoSuchSubject or AmbiguousSubject, naming what comes near."""
        things = self._things(text)
        if not things:
            near = self._near(text)
            fix = f"did you mean {', '.join(near)}?" if near else self._advice()
            raise NoSuchSubject(f"no {self.kinds} is called {text!r}", fix=fix)
        if len(things) > 1:
            listed = ", ".join(f"{kind} {name}" for kind, name in sorted(things)[:8])
            raise AmbiguousSubject(f"{text!r} may be {listed}", fix="give one of these in full, or a uid")
        return self._subject(things.pop())

    def _subject(self, thing: tuple[str, str]) -> Subject:
        return Subject(*thing, frozenset(self._uids.get(thing, ())))

    def _things(self, text: str) -> set[tuple[str, str]]:
        found = set(self._names.get(text, ()))
        if not found and len(text) >= _SHORTEST:
            found = {thing for name, things in self._names.items() if name.startswith(text) for thing in things}
        return found

    def _near(self, text: str) -> list[str]:
        """Full names of what is written nearly so, or contains it."""
        near = get_close_matches(text, sorted(self._names), n=5, cutoff=0.6)
        near += sorted(name for name in self._names if text and text in name)[:5]
        return list(dict.fromkeys(full for name in near for _, full in sorted(self._names[name])))[:5]

    def _advice(self) -> str:
        if not self._names:
            return "nothing was recorded there"
        return self.advice
