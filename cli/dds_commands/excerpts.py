"""The part of a log that is about one claim, read by the log's index of streams instead of from the first event to the last.

For the time in which the claim waits, all events are read. For the time in which it is in use, only its stream and the streams of
its pods. Earlier events of the nodes, requests, resources and slices that occur there are read as well, so that names and changes
come out as if the whole log had been read, and those of the resources made last before a wait: the operator has one worker
for all nodes. The only difference: erased events that no other event names are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

from dds_adapters.sql import SqlLog
from dds_core.events import Decision, Fact, ObjectObserved, PolicyChanged, Stale, Started, Synced
from dds_core.events.base import OBSERVED, SCALER, TYPES
from dds_core.events.shared import Outcome
from dds_core.lifecycle import BOUND, RELEASED
from dds_core.log import Envelope, LeanEvent
from dds_core.log.envelope import lean
from dds_core.model import Allocation, AttachRequest, Claim, Config, DeviceClass, FabricResource, Node, Pod, Slice
from dds_core.replay import event_of
from dds_core.scaler.component import SCALER as COMPONENT
from dds_core.scaler.events import DeviceMoved
from dds_core.timeline import Subject

UNDER_WAY = 500
"""At most so many resources are under way when a wait begins."""
_AT_REST = (BOUND, RELEASED)
_OF_ALL = [kind.__name__ for kind in (Started, Stale, Synced, PolicyChanged)]
_OUTCOMES = [name for name, kind in TYPES.items() if issubclass(kind, Outcome)]


def _type(kind: type[Any]) -> str:
    return OBSERVED[kind][0].__name__


def found_claim(log: SqlLog, text: str) -> Subject | None:
    """The claim with this uid or namespace/name; None if only a read of the whole log can tell what `text` means. No event of the
    log may have been archived."""
    first = next(log.read_lean(stream=text, types=[_type(Claim)], batch=1), None)
    if first is not None:
        one = _observed(first)
        return (
            Subject("claim", f"{one.namespace}/{one.name}", frozenset({text})) if one is not None and one.name else None
        )
    namespace, slash, name = text.partition("/")
    if not slash:
        return None
    uids = {
        row.stream
        for row in log.holding(f'"name":"{name}"'.encode(), [_type(Claim)])
        if (one := _observed(row)).name == name and (one.namespace or "") == namespace
    }
    return Subject("claim", text, frozenset(uids)) if uids else None


def _observed(row: LeanEvent) -> Any:
    event = event_of(row, COMPONENT)
    return event.changes if isinstance(event, ObjectObserved) else None


class Excerpt:
    """The rows from which a claim's timeline and history are computed."""

    def __init__(self, log: SqlLog, claim: Subject) -> None:
        self._log = log
        self._claim = claim
        self._found: dict[int, LeanEvent] = {}
        self._whole: set[str] = set()
        self._last = 0

    def rows(self) -> list[LeanEvent]:
        own = sorted(
            (row for uid in self._claim.uids for row in self._log.read(stream=uid)), key=lambda one: one.position
        )
        waits = list(self._waits(own))
        for first, last in waits:
            self._keep(self._log.read_lean(first - 1, last))
            self._last = max(self._last, last)
        for row in own:
            self._group(row)
        for pod in sorted(self._pods(own)):
            for row in self._log.read(stream=pod):
                self._group(row)
        for row in self._log.read(self._log.head().position - 1):
            self._group(row)  # the newest event gives the log's end
        self._keep(self._log.read_lean(stream=SCALER, types=_OF_ALL))
        self._streams({row.stream for row in self._log.holding(b"", [_type(Config), _type(DeviceClass)])})
        kinds = [one.__name__ for one in OBSERVED[FabricResource]]
        made = sorted(self._log.holding(b"", kinds), key=lambda one: one.position)
        for first, _ in waits:
            self._keep([row for row in made if row.position < first][-UNDER_WAY:])
        self._streams(self._surroundings(own))
        self._streams(self._spoken_of())
        self._pools(own, waits)
        return [self._found[position] for position in sorted(self._found)]

    def _keep(self, rows: Iterable[LeanEvent]) -> None:
        self._found.update((row.position, row) for row in rows)

    def _streams(self, streams: set[str]) -> None:
        """Add all events of these streams up to the end of the claim's last wait."""
        self._keep(self._log.of_streams(streams - self._whole, self._last))
        self._whole |= streams

    def _group(self, row: Envelope) -> None:
        """Add the event's whole group."""
        fact = _fact_of(row)
        # If a wait ends with this row, the rest of its group has not been read yet.
        if fact not in self._found or row.position + 1 not in self._found:
            group = self._log.read(fact - 1, batch=64)
            self._keep(
                lean(one) for one in takewhile(lambda one: (one.epoch, one.group) == (row.epoch, row.group), group)
            )

    def _waits(self, own: list[Envelope]) -> Iterator[tuple[int, int]]:
        """First and last position of each time in which the claim is neither in use nor at rest."""
        begun = own[0].position if own else 0
        for row in own:
            if row.to_state in _AT_REST and begun:
                yield begun, row.position
                begun = 0
            elif row.to_state and row.to_state not in _AT_REST:
                begun = begun or _fact_of(row)
        if begun:
            yield begun, self._log.head().position

    def _pods(self, own: list[Envelope]) -> Iterator[str]:
        """UIDs of all pods that ever referred to the claim."""
        claims = (_observed(lean(row)) for row in own if row.type == _type(Claim))
        names = {f'"{one.name}"'.encode() for one in claims if one is not None and one.name}
        found = {row.stream for name in names for row in self._log.holding(name, [_type(Pod)])}
        pods = [row for row in self._found.values() if row.type == _type(Pod)]
        found |= {row.stream for row in pods if any(name in (row.data or b"") for name in names)}
        for row in own:
            if row.type == _type(Claim):
                changes = _observed(lean(row))
                if changes is not None:
                    found |= {one.uid for one in changes.consumers or ()} | {changes.owner or ""}
        yield from found - {""}

    def _surroundings(self, own: list[Envelope]) -> set[str]:
        """Streams of the nodes on which the claim was allocated, and of the slices, requests and resources of these nodes."""
        found: list[LeanEvent] = []
        for node in {one.node for one in self._allocations(own)} - {""}:
            at = [_type(kind) for kind in (Slice, AttachRequest, FabricResource)]
            found += self._log.holding(f'"node":"{node}"'.encode(), at)
            found += self._log.holding(f'"name":"{node}"'.encode(), [_type(Node)])
        return {row.stream for row in found}

    @staticmethod
    def _allocations(own: list[Envelope]) -> list[Allocation]:
        claims = (_observed(lean(row)) for row in own if row.type == _type(Claim))
        return [one.allocation for one in claims if one is not None and one.allocation]

    def _pools(self, own: list[Envelope], waits: list[tuple[int, int]]) -> None:
        """Add only a few events of the slices of the claim's pools: the first one, and for each device that changed during a wait
        the last one before. These slices change with every attach in the fabric: all their events would be most of the log."""
        pools = {result.pool for one in self._allocations(own) for result in one.results}
        firsts = [row for pool in pools for row in self._log.holding(f'"pool":"{pool}"'.encode(), [_type(Slice)])]
        self._keep(firsts)
        streams = {row.stream for row in firsts} - self._whole
        for first, last in waits:
            for row in [one for one in self._found.values() if one.stream in streams and first <= one.position <= last]:
                for device in getattr(event_of(row, COMPONENT), "devices", ()):
                    self._keep(self._log.last_holding(f'"{device}":'.encode(), row.stream, first))

    def _spoken_of(self) -> set[str]:
        """Streams of the devices that changed, and of the objects that decisions name. Also adds the outcomes of writes for the
        claim and its requests."""
        streams, requests = set(), set()
        for row in list(self._found.values()):
            kind = TYPES.get(row.type, Fact)
            if kind is DeviceMoved or row.type == _type(FabricResource):
                streams.add(row.stream)
            elif issubclass(kind, Decision):
                decision = event_of(row, COMPONENT)
                if isinstance(decision, Decision):
                    if self._claim.uids.intersection(decision.for_claims()):
                        requests.add(getattr(decision, "request", ""))
                    streams |= {*decision.for_claims(), *decision.for_devices()}
                    streams |= {getattr(decision, "pod", ""), getattr(decision, "resource", "")}
        for name in (*self._claim.uids, *requests - {""}):
            self._keep(self._log.holding(f'"target":"{name}"'.encode(), _OUTCOMES, SCALER))
        return streams


def _fact_of(row: Envelope) -> int:
    """The position of the fact that begins the event's group: an event's id ends with its index in the group."""
    return row.position - int(row.event_id.rpartition(".")[2])
