"""Envelopes as lines of JSON: the form of exports, imports and archives.

A file is a header line, one line an envelope, and a closing line, so that a file that was cut is told from one that
is whole:

    {"dds_log":1,"log":"prod/scaler","cluster":"<uid>","component":"scaler","after":0,"until":1}
    {"log":"prod/scaler","position":1,...,"data":"<the exact text>","salt":"<hex>",...,"hash":"<hex>"}
    {"end":1,"hash":"<hex>"}

Keys stand in this order, without spaces; bytes other than data are hex. Data stays text inside text: parsing and
writing it again could change a byte, and the chain would no longer hold. This module reads and writes no file.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import structs

from dds_core.log.chain import Anchor
from dds_core.log.envelope import Envelope, LeanEvent

FORMAT = 1
"""Version of the file format, in the header."""

CLOSING = b'{"end":'
"""What a closing line, and no other, starts with."""

HEADING = b'{"dds_log":'
"""What a file of this format starts with."""


class Heading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line. The file holds the positions after `after` up to and with `until`."""

    dds_log: int
    log: str
    cluster: str
    component: str
    after: int
    until: int


class Closing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line: position and hash of the last event before it (of `after`, and 32 zero bytes, when there is
    none)."""

    end: int
    hash: str


class _AnchorLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    log: str
    position: int
    hash: str


class _LeanLine(msgspec.Struct, frozen=True, gc=False):
    position: int
    stream: str
    type: str
    schema_version: int
    occurred_at: int
    from_state: str | None
    to_state: str | None
    data: str | None


_AS_TEXT: dict[str, tuple[Callable[[bytes], str], Callable[[str], bytes]]] = {
    "data": (bytes.decode, str.encode),
    **dict.fromkeys(("salt", "digest", "prev_hash", "hash"), (bytes.hex, bytes.fromhex)),
}
"""How the fields of an envelope that are bytes are written and read."""
_TEXT = {bytes: str, bytes | None: str | None}
_Line = msgspec.defstruct(
    "_Line",
    [(field.name, _TEXT.get(field.type, field.type)) for field in structs.fields(Envelope)],
    frozen=True,
    forbid_unknown_fields=True,
    gc=False,
)

_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_lean = msgspec.json.Decoder(_LeanLine).decode
_decode_heading = msgspec.json.Decoder(Heading).decode
_decode_closing = msgspec.json.Decoder(Closing).decode


class BadLine(ValueError):
    """A line is not of the form it should have; whoever knows the file and the line's number says so in its own
    error."""


def encode_heading(heading: Heading) -> bytes:
    """The header line, without the line break."""
    return _encode(heading)


def encode_closing(closing: Closing) -> bytes:
    """The closing line, without the line break."""
    return _encode(closing)


def encode_envelope(e: Envelope) -> bytes:
    """The line of one envelope, without the line break; JSON escapes keep line breaks out of it."""
    line = structs.asdict(e)
    for name, (write, _) in _AS_TEXT.items():
        if line[name] is not None:
            line[name] = write(line[name])
    return _encode(line)


def decode_envelope(line: bytes) -> Envelope:
    """The envelope of a line; raises `BadLine`."""
    try:
        fields = structs.asdict(_decode_line(line))
        for name, (_, read) in _AS_TEXT.items():
            if fields[name] is not None:
                fields[name] = read(fields[name])
        return Envelope(**fields)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadLine(str(error)) from None


def decode_lean(line: bytes) -> LeanEvent:
    """What a fold needs of a line; raises `BadLine`."""
    try:
        x = _decode_lean(line)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadLine(str(error)) from None
    data = None if x.data is None else x.data.encode()
    return LeanEvent(x.position, x.stream, x.type, x.schema_version, x.occurred_at, x.from_state, x.to_state, data)


def decode_heading(line: bytes) -> Heading:
    """The header of a file; raises `BadLine`."""
    try:
        return _decode_heading(line)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadLine(str(error)) from None


def decode_closing(line: bytes) -> Closing:
    """The closing line of a file; raises `BadLine`."""
    try:
        return _decode_closing(line)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadLine(str(error)) from None


def encode_anchor(anchor: Anchor) -> bytes:
    """An anchor as one JSON object, without a line break."""
    return _encode(_AnchorLine(anchor.log, anchor.position, anchor.hash.hex()))


def decode_anchor(line: bytes) -> Anchor:
    """The anchor of a line; raises `BadLine`."""
    try:
        x = msgspec.json.decode(line, type=_AnchorLine)
        return Anchor(x.log, x.position, bytes.fromhex(x.hash))
    except (msgspec.DecodeError, ValueError) as error:
        raise BadLine(str(error)) from None
