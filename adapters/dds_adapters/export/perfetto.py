"""A Perfetto trace: a track a claim with its attempts and their stages, a process a node with a track a device, counters, alerts.

Instants are nanoseconds of the wall clock; a snapshot of the clocks tells the reader so.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from dds_adapters.export.story import Story
from dds_core.scaler.history import BOUND, WHOSE, Attempt, ClaimHistory, DeviceHistory, DeviceSpan, Span
from dds_core.scaler.spending import STATES

_CLUSTER, _CLAIMS, _NODES = 1, 2, 3
"""Numbers of processes; nodes have those from the last one on."""
_NANOSECONDS = 1_000


class Slice(NamedTuple):
    """Something on a track, from an instant until another, and the event that begins it."""

    since: int
    until: int
    begin: pb.TrackEvent


def perfetto(story: Story) -> Iterator[bytes]:
    """The trace, packet by packet."""
    trace = _Trace(story)
    trace.cluster()
    trace.claims()
    trace.nodes()
    yield _clock(story.since)
    yield from trace.tracks
    for _, event in sorted(trace.events, key=lambda one: one[0]):  # stable: on each track as they were made
        yield event


def lanes(slices: Iterable[Slice]) -> list[list[Slice]]:
    """The slices on as few tracks as it takes, so that any two on one track follow each other or lie one within the other."""
    found: list[tuple[list[int], list[Slice]]] = []
    for one in sorted(slices, key=lambda one: (one.since, one.until > one.since, -one.until)):
        ends, lane = next((track for track in found if _fits(one, track[0])), ([], []))
        if not lane:
            found.append((ends, lane))
        ends.append(one.until)
        lane.append(one)
    return [lane for _, lane in found]


def _fits(one: Slice, ends: list[int]) -> bool:
    """Whether it may follow on a track where the slices that end then are open, the innermost last; those that have ended go."""
    while ends and ends[-1] <= one.since:
        ends.pop()
    return not ends or one.until <= ends[-1]


class _Trace:
    """Descriptions of tracks, and events with their instants, both encoded."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.tracks: list[bytes] = []
        self.events: list[tuple[int, bytes]] = []

    def cluster(self) -> None:
        """How much there is of what, and the alerts."""
        history = self.story.history
        self._process(_CLUSTER, f"cluster {self.story.cluster}")
        waits = [span for claim in history.claims.values() for span in claim.spans if span.stage != BOUND]
        self._counter("claims waiting", waits)
        for state in STATES:
            spans = [span for device in history.devices.values() for span in device.spans if span.state == state]
            self._counter(f"devices {state}", spans)
        track = self._track(_CLUSTER, pb.TrackDescriptor(uuid=_uuid("alerts", 0), name="alerts"))
        for alert in self.story.alerts:
            event = _event(pb.TrackEvent.TYPE_INSTANT, "alert", alert.reason, of=alert.of, text=alert.text)
            self._add(alert.at, track, event)

    def claims(self) -> None:
        """Attempts with their stages, and where one failed."""
        self._process(_CLAIMS, "claims")
        for claim in self.story.claims:
            self._slices(_CLAIMS, claim.uid, claim.name, self._of_claim(claim))
            for one in claim.attempts:
                if one.outcome == "failed":
                    name = f"failed: {one.reason}"
                    event = _event(pb.TrackEvent.TYPE_INSTANT, "failure", name, cause=one.cause, node=one.node)
                    self._add(one.until, _uuid(claim.uid, 0), event)

    def _of_claim(self, claim: ClaimHistory) -> Iterator[Slice]:
        for one in claim.attempts:
            yield self._slice(
                one,
                "attempt",
                f"attempt: {one.reason or one.outcome or 'under way'}",
                attempt=f"{one.cycle}.{one.number}",
                node=one.node,
                models=", ".join(one.models),
                devices=", ".join(self.story.names(one.devices)),
                cause=one.cause,
            )
        for span in claim.spans:
            yield self._slice(span, "stage", span.stage, node=span.node, whose=WHOSE.get(span.stage))

    def nodes(self) -> None:
        """Devices, each in its states."""
        devices = groupby(self.story.devices, key=lambda one: one.node)
        for pid, (node, there) in enumerate(devices, start=_NODES):
            self._process(pid, f"node {node}")
            for device in there:
                self._slices(pid, device.uid, f"{device.model} {device.name}", self._of_device(device))

    def _of_device(self, device: DeviceHistory) -> Iterator[Slice]:
        for span in device.spans:
            claims = ", ".join(self.story.names(span.claims))
            yield self._slice(span, "state", span.state, claims=claims, of=device.resource)

    def _slice(self, span: Attempt | Span | DeviceSpan, category: str, name: str, **notes: str | None) -> Slice:
        """A span that still goes on is cut at the end of the log, and marked as such."""
        goes_on = None if span.until else "it goes on"
        begin = _event(pb.TrackEvent.TYPE_SLICE_BEGIN, category, name, **notes, open=goes_on)
        return Slice(span.since, span.until or self.story.now, begin)

    def _slices(self, pid: int, uid: str, name: str, slices: Iterable[Slice]) -> None:
        """On tracks that are shown as one."""
        merged = pb.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY
        about = pb.TrackDescriptor(name=name, description=uid, sibling_merge_behavior=merged, sibling_merge_key=uid)
        for number, lane in enumerate(lanes(slices)):
            about.uuid = _uuid(uid, number)
            track = self._track(pid, about)
            ends: list[int] = []
            for one in lane:
                while ends and ends[-1] <= one.since:
                    self._add(ends.pop(), track, pb.TrackEvent(type=pb.TrackEvent.TYPE_SLICE_END))
                self._add(one.since, track, one.begin)
                ends.append(one.until)
            for end in reversed(ends):
                self._add(end, track, pb.TrackEvent(type=pb.TrackEvent.TYPE_SLICE_END))

    def _counter(self, name: str, spans: Iterable[Span | DeviceSpan]) -> None:
        """How many of these there are at once, from the first wanted instant on."""
        about = pb.TrackDescriptor(uuid=_uuid(name, 0), name=name, counter=pb.CounterDescriptor())
        track = self._track(_CLUSTER, about)
        changes = Counter({self.story.since: 0})
        for span in spans:
            changes[max(span.since, self.story.since)] += 1
            if span.until:
                changes[max(span.until, self.story.since)] -= 1
        number = 0
        for at, change in sorted(changes.items()):
            number += change
            if change or at == self.story.since:
                self._add(at, track, pb.TrackEvent(type=pb.TrackEvent.TYPE_COUNTER, counter_value=number))

    def _process(self, pid: int, name: str) -> None:
        process, order = pb.ProcessDescriptor(pid=pid, process_name=name), pb.TrackDescriptor.CHRONOLOGICAL
        track = pb.TrackDescriptor(uuid=_uuid(pid), process=process, child_ordering=order)
        self.tracks.append(_packet(pb.TracePacket(track_descriptor=track)))

    def _track(self, pid: int, track: pb.TrackDescriptor) -> int:
        track.parent_uuid = _uuid(pid)
        self.tracks.append(_packet(pb.TracePacket(track_descriptor=track)))
        return track.uuid

    def _add(self, at: int, track: int, event: pb.TrackEvent) -> None:
        event.track_uuid = track
        self.events.append((at, _packet(pb.TracePacket(timestamp=at * _NANOSECONDS, track_event=event))))


def _event(kind: pb.TrackEvent.Type, category: str, name: str, **notes: str | None) -> pb.TrackEvent:
    found = [pb.DebugAnnotation(name=key, string_value=text) for key, text in notes.items() if text]
    return pb.TrackEvent(type=kind, categories=[category], name=name, debug_annotations=found)


def _clock(at: int) -> bytes:
    """The trace's own clock, that of the time since a boot, shows the wall clock's time."""
    now, ids = at * _NANOSECONDS, (pb.BUILTIN_CLOCK_BOOTTIME, pb.BUILTIN_CLOCK_REALTIME)
    clocks = [pb.ClockSnapshot.Clock(clock_id=one, timestamp=now) for one in ids]
    snapshot = pb.ClockSnapshot(clocks=clocks, primary_trace_clock=pb.BUILTIN_CLOCK_BOOTTIME)
    begin = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    return _packet(pb.TracePacket(timestamp=now, clock_snapshot=snapshot, sequence_flags=begin))


def _packet(packet: pb.TracePacket) -> bytes:
    """As a trace of its own: traces one after the other are one trace."""
    packet.trusted_packet_sequence_id = 1
    return pb.Trace(packet=[packet]).SerializeToString()


def _uuid(*parts: object) -> int:
    """The same number for the same thing in each export."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")
