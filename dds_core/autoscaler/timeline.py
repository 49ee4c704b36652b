"""Timelines of the autoscaler: of a group, a node, a waiting pod, or an ordered server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dds_core.autoscaler import events as e
from dds_core.autoscaler.deadlines import KINDS
from dds_core.autoscaler.records import Load, Server, Worker
from dds_core.autoscaler.state import Fleet, load
from dds_core.events import Decision, Event, Transition
from dds_core.timeline.phrases import labels, taints
from dds_core.timeline.telling import (
    ABOUT_ALL,
    DecisionTeller,
    Directory,
    Everything,
    Known,
    Moment,
    Pair,
    Row,
    Scope,
    Subject,
    Telling,
    either,
)

# -- names and words ---------------------------------------------------------------------------------------------------


def _worker(before: Worker | None, worker: Worker, known: Known) -> Iterator[str]:
    old = before if before is not None else Worker(uid=worker.uid)
    if before is None:
        yield f"node {worker.name} is there"
    else:
        yield from labels(worker.name, old.labels, worker.labels)
    if worker.ready != old.ready:
        yield f"node {worker.name} is {'' if worker.ready else 'not '}ready"
    if worker.taints != old.taints:
        yield (
            f"node {worker.name} is tainted {taints(worker.taints)}"
            if worker.taints
            else f"node {worker.name} has no taint"
        )


def _load(before: Load | None, one: Load, known: Known) -> Iterator[str]:
    old = before if before is not None else Load(uid=one.uid)
    name = f"pod {known.name_of(one)}"
    if one.node != old.node:
        yield f"{name} runs on {one.node}"
    elif one.nominated != old.nominated and one.nominated:
        yield f"{name} is nominated to {one.nominated}"
    elif one.waiting != old.waiting and one.waiting:
        yield f"{name} waits: {one.waiting}"


def _server(before: Server | None, server: Server, known: Known) -> Iterator[str]:
    old = before if before is not None else Server(uid=server.uid, state="deleting")
    name = f"server {server.uid} of {server.group or 'no group'}"
    if server.state != old.state or before is None:
        why = f": {server.code} {server.message}".rstrip() if server.code else ""
        yield f"{name} is {server.state}{f', for {server.order}' if server.order else ''}{why}"
    if server.provider_id != old.provider_id and server.provider_id:
        yield f"{name} will be the node of provider id {server.provider_id}"


class AutoscalerKnown(Known):
    """Adds nodes, pods and servers."""

    guards = False
    deadlines = KINDS
    tables = ("workers", "loads", "servers", "claims", "resources")
    kinds = Known.kinds | {Worker: ("node", _worker), Load: ("pod", _load), Server: ("server", _server)}

    def _learnt(self, fact: Event) -> Pair:
        if isinstance(fact, e.Checkpoint):
            self.begin(load(fact.picture))
        return super()._learnt(fact)


# -- subjects ----------------------------------------------------------------------------------------------------------

_NAMING = (e.Checkpoint, e.WorkerObserved, e.LoadObserved, e.ServerObserved, e.GroupShown, e.ServerOrdered)
NAMING = frozenset(one.__name__ for one in _NAMING)
"""The types of events that hold names: only these have to be read to find a subject."""


class AutoscalerDirectory(Directory):
    """Every group, node, pod and order that was ever seen."""

    kinds = "group, node, pod or order"
    advice = "give a group, a node, NAMESPACE/NAME of a pod, or the name of an order"
    order = ("group", "node", "pod", "order")

    def __init__(self) -> None:
        super().__init__()
        self._told = AutoscalerKnown()

    def read(self, told: Iterable[Moment]) -> AutoscalerDirectory:
        for moment in told:
            for event in (moment.fact, *moment.caused):
                if event is not None:
                    self._read(event)
        return self

    def _read(self, event: Event) -> None:
        match event:
            case e.GroupShown():
                self._add(("group", event.group), event.subject)
            case e.ServerOrdered():
                self._add(("order", event.order), event.subject)
            case _:
                for _, row in self._told.changes(event):
                    self._take(row)

    def _take(self, row: Row | None) -> None:
        match row:
            case Worker():
                self._add(("node", row.name), row.uid)
            case Load():
                self._add(("pod", f"{row.namespace}/{row.name}"), row.uid)
            case Server() if row.order:
                self._add(("order", row.order), row.uid)


class OneThing:
    """A group, a node, a pod or an order, and the calls about it."""

    gathers = True

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def fact(self, fact: Event, pair: Pair) -> bool:
        row, (kind, name, uids) = either(pair), self._subject
        if row is not None:
            return row.uid in uids or (
                kind == "node" and name in (getattr(row, "node", ""), getattr(row, "nominated", ""))
            )
        return fact.subject in uids or getattr(fact, "target", "") in (name, *uids) or isinstance(fact, ABOUT_ALL)

    def decision(self, decision: Decision) -> bool:
        kind, name, uids = self._subject
        return decision.subject in uids or getattr(decision, kind, "") == name or self._names_it(decision)

    def _names_it(self, decision: Decision) -> bool:
        if self._subject.kind != "node" or not isinstance(decision, e.GroupShown):
            return False
        return self._subject.name in (*decision.joined, *decision.left)

    def transition(self, moved: Transition) -> bool:
        return False


def scope_of(subject: Subject | None) -> Scope:
    return OneThing(subject) if subject is not None else Everything()


def _teller(subject: Subject | None, state: Fleet | None) -> DecisionTeller[AutoscalerKnown]:
    known = AutoscalerKnown()
    if state is not None:
        known.begin(state)
    return DecisionTeller(known, scope_of(subject))


TOLD = Telling(NAMING, iter, AutoscalerDirectory, _teller)
"""How the autoscaler's log is told."""
