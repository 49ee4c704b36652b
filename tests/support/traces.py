"""A Perfetto trace, as readers of the format take it: begins and ends on a track are a stack."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Messages
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor, TrackEvent


class Slice(NamedTuple):
    process: str
    track: str
    uid: str
    """The track's description."""
    category: str
    name: str
    since: int
    until: int
    """Nanoseconds."""
    depth: int


@dataclass
class Trace:
    """By its tracks: what the events on them amount to."""

    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[Slice, dict[str, str]] = field(default_factory=dict)
    clocks: dict[int, int] = field(default_factory=dict)


def decoded(data: bytes) -> Trace:
    trace, tracks = Trace(), dict[int, TrackDescriptor]()
    open_on: dict[int, list[tuple[TrackEvent, int]]] = defaultdict(list)
    last = 0
    for packet in Messages.FromString(data).packet:
        assert packet.trusted_packet_sequence_id == 1, "events without a sequence are dropped"
        if packet.HasField("clock_snapshot"):
            trace.clocks = {one.clock_id: one.timestamp for one in packet.clock_snapshot.clocks}
        elif packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in tracks
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        else:
            assert last <= packet.timestamp
            last = packet.timestamp
            _event(trace, tracks, open_on[packet.track_event.track_uuid], last, packet.track_event)
    assert not any(open_on.values()), "a slice without an end"
    return trace


def _event(
    trace: Trace, tracks: dict[int, TrackDescriptor], stack: list[tuple[TrackEvent, int]], at: int, event: TrackEvent
) -> None:
    track = tracks[event.track_uuid]
    process = tracks[track.parent_uuid].process.process_name

    def made(event: TrackEvent, since: int) -> Slice:
        (category,) = event.categories
        one = Slice(process, track.name, track.description, category, event.name, since, at, len(stack))
        trace.notes[one] = {note.name: note.string_value for note in event.debug_annotations}
        return one

    match event.type:
        case TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((event, at))
        case TrackEvent.TYPE_SLICE_END:
            trace.slices.append(made(*stack.pop()))
        case TrackEvent.TYPE_INSTANT:
            trace.instants.append(made(event, at))
        case TrackEvent.TYPE_COUNTER:
            assert track.HasField("counter"), "a counter's track says that it is one"
            trace.counters[track.name].append((at, event.counter_value))
