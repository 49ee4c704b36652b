"""A Perfetto trace read by a decoder of its own, as readers of the format do it: begins and ends on a track are a stack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


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


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, "a wire type that nothing here uses"
            length = varint()
            assert place + length <= len(data)
            yield key >> 3, data[place : place + length]
            place += length


def decoded(data: bytes) -> Trace:
    trace, tracks = Trace(), dict[int, dict[int, Any]]()
    open_on: dict[int, list[tuple[dict[int, Any], int, dict[str, str]]]] = defaultdict(list)
    last = 0
    for number, packet in fields(data):
        assert number == 1
        found = dict(fields(packet))
        assert found[10] == 1, "events without a sequence are dropped"
        if 6 in found:
            clocks = [dict(fields(value)) for one, value in fields(found[6]) if one == 1]
            trace.clocks = {one[1]: one[2] for one in clocks}
        elif 60 in found:
            one = dict(fields(found[60]))
            assert one[1] not in tracks
            tracks[one[1]] = one
        else:
            assert last <= found[8]
            last = found[8]
            _event(trace, tracks, open_on, found[8], found[11])
    assert not any(open_on.values()), "a slice without an end"
    return trace


def _event(
    trace: Trace,
    tracks: dict[int, dict[int, Any]],
    open_on: dict[int, list[tuple[dict[int, Any], int, dict[str, str]]]],
    at: int,
    data: bytes,
) -> None:
    event = dict(fields(data))
    notes = [dict(fields(value)) for number, value in fields(data) if number == 4]
    told = {one[10].decode(): one[6].decode() for one in notes}
    track = tracks[event[11]]
    stack = open_on[event[11]]
    process = dict(fields(tracks[track[5]][3]))[6].decode()

    def made(event: dict[int, Any], since: int) -> Slice:
        uid, name = track.get(14, b"").decode(), track[2].decode()
        return Slice(process, name, uid, event[22].decode(), event[23].decode(), since, at, len(stack))

    match event[9]:
        case 1:
            stack.append((event, at, told))
        case 2:
            begun, since, about = stack.pop()
            one = made(begun, since)
            trace.slices.append(one)
            trace.notes[one] = about
        case 3:
            one = made(event, at)
            trace.instants.append(one)
            trace.notes[one] = told
        case 4:
            assert 8 in track, "a counter's track says that it is one"
            trace.counters[track[2].decode()].append((at, event[30]))
