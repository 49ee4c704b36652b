"""A log as somebody leaves it who wants to change history: with and without the chain made anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dds_core.log import Envelope
from dds_core.log.chain import digest_of, hash_of
from dds_core.log.codec import FORMAT, Closing, Heading, encode_closing, encode_envelope, encode_heading
from dds_core.log.envelope import GENESIS
from tests.core.golden.replays import CLUSTER


def changed(rows: Sequence[Envelope], position: int, change: Callable[[dict[str, Any]], None]) -> list[Envelope]:
    """The rows with other data at `position`; digest and hashes stay as they were."""
    return [_with_data(row, change) if row.position == position else row for row in rows]


def _with_data(row: Envelope, change: Callable[[dict[str, Any]], None]) -> Envelope:
    assert row.data is not None
    found = json.loads(row.data)
    change(found)
    return replace(row, data=json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode())


def resealed(rows: Sequence[Envelope], since: int = 1) -> list[Envelope]:
    """The same rows with digests and chain made anew from a position on: only the rules can tell that they were changed."""
    chain = [row for row in rows if row.position < since]
    before = chain[-1].hash if chain else GENESIS
    for row in rows[len(chain) :]:
        assert row.data is not None and row.salt is not None
        row = replace(row, digest=digest_of(row.salt, row.data), prev_hash=before)
        row = replace(row, hash=hash_of(row))
        before = row.hash
        chain.append(row)
    return chain


def edits(rows: Sequence[Envelope], row: Envelope) -> Iterator[tuple[str, list[Envelope]]]:
    """The log up to the end of the row's group, each time with one other value in the row and the chain made anew."""
    until = [one for one in rows if one.group <= row.group]
    for what, change in texts_of(row):
        yield f"{row.type} {what} at {row.position}", resealed(changed(until, row.position, change), row.position)


def texts_of(row: Envelope) -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    """For each text and number in the data of a row a change of it: one character, or one more."""
    assert row.data is not None
    for path in _paths(json.loads(row.data)):
        yield ".".join(map(str, path)), _changing(path)


def _paths(found: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in inside:
        yield from _paths(value, (*here, key))
    if here and isinstance(found, str | int) and found != "":
        yield here


def _changing(path: tuple[Any, ...]) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        place: Any = found
        for key in path[:-1]:
            place = place[key]
        old = place[path[-1]]
        if isinstance(old, bool):
            place[path[-1]] = not old
        elif isinstance(old, int):
            place[path[-1]] = old + 1
        else:
            place[path[-1]] = old[:-1] + chr(ord(old[-1]) ^ 1)

    return change


def write_file(path: Path, rows: Sequence[Envelope]) -> str:
    """The rows as an export that says of itself that it is whole; nothing is checked on the way."""
    first, last = rows[0], rows[-1]
    heading = Heading(FORMAT, first.log, CLUSTER, "scaler", first.position - 1, last.position)
    lines = [encode_heading(heading), *map(encode_envelope, rows)]
    path.write_bytes(b"\n".join([*lines, encode_closing(Closing(last.position, last.hash.hex()))]) + b"\n")
    return str(path)
