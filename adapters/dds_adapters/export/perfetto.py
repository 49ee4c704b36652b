"""A Perfetto trace: a track a claim with its attempts and their stages, a process a node with a track a device, counters, alerts.

Encoded here: of protobuf it takes two wire types and some thirty fields, and a library would be one more package for that. The
numbers are those of Perfetto's trace.proto, trace_packet.proto and track_event.proto. Instants are nanoseconds of the wall clock;
a snapshot of the clocks tells the reader so.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from dds_adapters.export.story import Story
from dds_core.scaler.history import BOUND, WHOSE, ClaimHistory, DeviceHistory, DeviceSpan, Span
from dds_core.scaler.spending import STATES

_PACKET = 1  # of Trace
_CLOCKS, _TIMESTAMP, _SEQUENCE, _EVENT, _FLAGS, _TRACK = 6, 8, 10, 11, 13, 60  # of TracePacket
_CLOCK, _PRIMARY, _CLOCK_ID, _CLOCK_TIME = 1, 2, 1, 2  # of ClockSnapshot, and of a clock in it
_REALTIME, _BOOTTIME = 1, 6
_UUID, _TRACK_NAME, _PROCESS, _PARENT, _COUNTER = 1, 2, 3, 5, 8  # of TrackDescriptor
_ORDER, _DESCRIPTION, _MERGE, _MERGE_KEY = 11, 14, 15, 16
_BY_TIME, _BY_KEY = 2, 3
_PID, _PROCESS_NAME = 1, 6  # of ProcessDescriptor
_ANNOTATION, _TYPE, _TRACK_UUID, _CATEGORY, _NAME, _VALUE = 4, 9, 11, 22, 23, 30  # of TrackEvent
_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4
_TEXT, _KEY = 6, 10  # of DebugAnnotation

_CLUSTER, _CLAIMS, _NODES = 1, 2, 3
"""Numbers of processes; nodes have those from the last one on."""
_NANOSECONDS = 1_000

_Field = tuple[int, int | str | bytes]


class Slice(NamedTuple):
    """Something on a track, from an instant until another; `about` are fields of the event that begins it."""

    since: int
    until: int
    about: tuple[_Field, ...]


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
        track = self._track(_CLUSTER, "alerts", "alerts")
        for alert in self.story.alerts:
            about = _about("alert", alert.reason, of=alert.of, text=alert.text)
            self._event(alert.at, _INSTANT, track, *about)

    def claims(self) -> None:
        """Attempts with their stages, and where one failed."""
        self._process(_CLAIMS, "claims")
        for claim in self.story.claims:
            self._slices(_CLAIMS, claim.uid, claim.name, self._of_claim(claim))
            for one in claim.attempts:
                if one.outcome == "failed":
                    about = _about("failure", f"failed: {one.reason}", cause=one.cause, node=one.node)
                    self._event(one.until, _INSTANT, _uuid(claim.uid, 0), *about)

    def _of_claim(self, claim: ClaimHistory) -> Iterator[Slice]:
        for one in claim.attempts:
            about = _about(
                "attempt",
                f"attempt: {one.reason or one.outcome or 'under way'}",
                attempt=f"{one.cycle}.{one.number}",
                node=one.node,
                models=", ".join(one.models),
                devices=", ".join(self.story.names(one.devices)),
                cause=one.cause,
            )
            yield self._slice(one.since, one.until, about)
        for span in claim.spans:
            about = _about("stage", span.stage, node=span.node, whose=WHOSE.get(span.stage))
            yield self._slice(span.since, span.until, about)

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
            yield self._slice(span.since, span.until, _about("state", span.state, claims=claims, of=device.resource))

    def _slice(self, since: int, until: int, about: tuple[_Field, ...]) -> Slice:
        """A span that still goes on is cut at the end of the log, and marked as such."""
        return Slice(since, until or self.story.now, about if until else (*about, _note("open", "it goes on")))

    def _slices(self, pid: int, uid: str, name: str, slices: Iterable[Slice]) -> None:
        """On tracks that are shown as one."""
        for number, lane in enumerate(lanes(slices)):
            track = self._track(pid, name, uid, number, (_DESCRIPTION, uid), (_MERGE, _BY_KEY), (_MERGE_KEY, uid))
            ends: list[int] = []
            for one in lane:
                while ends and ends[-1] <= one.since:
                    self._event(ends.pop(), _END, track)
                self._event(one.since, _BEGIN, track, *one.about)
                ends.append(one.until)
            for end in reversed(ends):
                self._event(end, _END, track)

    def _counter(self, name: str, spans: Iterable[Span | DeviceSpan]) -> None:
        """How many of these there are at once, from the first wanted instant on."""
        track = self._track(_CLUSTER, name, name, 0, (_COUNTER, b""))
        changes = Counter({self.story.since: 0})
        for span in spans:
            changes[max(span.since, self.story.since)] += 1
            if span.until:
                changes[max(span.until, self.story.since)] -= 1
        number = 0
        for at, change in sorted(changes.items()):
            number += change
            if change or at == self.story.since:
                self._event(at, _COUNT, track, (_VALUE, number))

    def _process(self, pid: int, name: str) -> None:
        process = message((_PID, pid), (_PROCESS_NAME, name))
        self.tracks.append(_packet((_TRACK, message((_UUID, _uuid(pid)), (_PROCESS, process), (_ORDER, _BY_TIME)))))

    def _track(self, pid: int, name: str, uid: str, number: int = 0, *more: _Field) -> int:
        uuid = _uuid(uid, number)
        self.tracks.append(_packet((_TRACK, message((_UUID, uuid), (_PARENT, _uuid(pid)), (_TRACK_NAME, name), *more))))
        return uuid

    def _event(self, at: int, kind: int, track: int, *more: _Field) -> None:
        event = message((_TYPE, kind), (_TRACK_UUID, track), *more)
        self.events.append((at, _packet((_TIMESTAMP, at * _NANOSECONDS), (_EVENT, event))))


def _about(category: str, name: str, **more: str | None) -> tuple[_Field, ...]:
    return (_CATEGORY, category), (_NAME, name), *(_note(key, text) for key, text in more.items() if text)


def _note(key: str, text: str) -> _Field:
    return _ANNOTATION, message((_KEY, key), (_TEXT, text))


def _clock(at: int) -> bytes:
    """The trace's own clock, that of the time since a boot, shows the wall clock's time."""
    both = [message((_CLOCK_ID, clock), (_CLOCK_TIME, at * _NANOSECONDS)) for clock in (_BOOTTIME, _REALTIME)]
    snapshot = message(*((_CLOCK, clock) for clock in both), (_PRIMARY, _BOOTTIME))
    return _packet((_TIMESTAMP, at * _NANOSECONDS), (_CLOCKS, snapshot), (_FLAGS, 1))


def _packet(*fields: _Field) -> bytes:
    return message((_PACKET, message(*fields, (_SEQUENCE, 1))))


def _uuid(*parts: object) -> int:
    """The same number for the same thing in each export."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def message(*fields: _Field) -> bytes:
    """Protobuf's wire form: numbers as varints, text and messages with their length."""
    made = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            made += _varint(number << 3) + _varint(value)
        else:
            data = value.encode("utf-8", "replace") if isinstance(value, str) else value
            made += _varint(number << 3 | 2) + _varint(len(data)) + data
    return bytes(made)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
