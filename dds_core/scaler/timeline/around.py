"""What is around claims, devices and nodes: of a long log only these events have to be decoded to tell timelines of a few."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from dds_core.events import KIND_OF, OBSERVED, TYPES, Decision, ObjectObserved, Transition
from dds_core.log.envelope import CHECKPOINT, LeanEvent
from dds_core.model import AttachRequest, Claim, FabricResource, Node, Pod, Slice
from dds_core.scaler.timeline.words import Known
from dds_core.timeline.telling import Moment, Subject

_CAUSED = frozenset(name for name, kind in TYPES.items() if issubclass(kind, Decision | Transition))
_KINDS = (Claim, Pod, Slice, Node, AttachRequest, FabricResource)
NOTED = frozenset({CHECKPOINT, *(OBSERVED[kind][0].__name__ for kind in _KINDS)})
"""The types of the events that `Around` reads."""


class Around:
    """Notes on which nodes each object was, and which pods use which claims. A claim, its pods, its devices and all that happens
    to them belong to its nodes."""

    def __init__(self) -> None:
        self._at: defaultdict[str, set[str]] = defaultdict(set)
        """By node: the streams of its objects."""
        self._nodes: dict[str, tuple[str, ...]] = {}
        """By stream: the nodes of its object."""
        self._pods: dict[str, tuple[str, ...]] = {}
        """By a claim's uid, or name without its namespace: the pods that use it, and its owner."""
        self._name: dict[str, str] = {}
        self.resources: set[str] = set()

    def take(self, moment: Moment) -> None:
        fact = moment.fact
        if isinstance(fact, ObjectObserved):
            self._note(KIND_OF[type(fact)], fact.uid, fact.changes)
        elif fact is not None and not self._nodes:  # a log may begin with a checkpoint
            for _, row in Known().changes(fact):
                if row is not None:
                    self._note(type(row), row.uid, row)

    def _note(self, kind: type[Any], uid: str, seen: Any) -> None:
        """`seen`: an object, or what has changed of it."""
        if kind is Claim:
            self._name[uid] = seen.name or self._name.get(uid, "")
            self._put(uid, seen.allocation.node if seen.allocation else "")
            for pod in filter(None, (*(one.uid for one in seen.consumers or ()), seen.owner)):
                _add(self._pods, uid, pod)
        elif kind is Node:
            self._put(uid, seen.name)
            self._put(seen.name, seen.name)
        elif kind in _KINDS:
            self._put(uid, seen.node)
        if kind is Pod:
            for name in filter(None, (*(seen.claims or ()), seen.extended_claim)):
                _add(self._pods, name, uid)
        elif kind is FabricResource:
            self.resources.add(uid)
        elif kind is AttachRequest:
            for node in self._nodes.get(uid, ()):  # decisions name it before it is there
                self._put(seen.name, node)

    def _put(self, stream: str, node: str) -> None:
        if stream and node:
            self._at[node].add(stream)
            _add(self._nodes, stream, node)

    def elsewhere(self, subjects: Iterable[Subject]) -> set[str]:
        """The streams of all objects that were only on nodes with which these subjects have nothing to do."""
        near: set[str] = set()
        nodes: set[str] = set()
        for subject in subjects:
            if subject.kind == "node":
                nodes.add(subject.name)
            elif not subject.uids:
                return set()  # a device without a resource: its node is not known
            near |= subject.uids
        nodes = nodes.union(*(self._nodes[uid] for uid in near if uid in self._nodes))
        near = near.union(*(self._at[node] for node in nodes if node in self._at))
        claims = [uid for uid in near if uid in self._name]
        near = near.union(*(self._pods[one] for uid in claims for one in (uid, self._name[uid]) if one in self._pods))
        return self._nodes.keys() - near


def _add(table: dict[str, tuple[str, ...]], key: str, one: str) -> None:
    known = table.get(key, ())
    if one not in known:
        table[key] = (*known, one)


def near(rows: Iterable[LeanEvent], elsewhere: Collection[str]) -> Iterator[LeanEvent]:
    """The rows of the groups that do not belong to these streams alone, those with an erased event, and the last one."""
    group: list[LeanEvent] = []
    wanted = False
    for row in rows:
        if row.type not in _CAUSED:
            if wanted:
                yield from group
            group, wanted = [], False
        group.append(row)
        wanted = wanted or row.stream not in elsewhere or row.data is None
    yield from group
