"""Envelopes as lines of JSON: the format of exports, imports and archives.

A file has a header line, one line for each envelope, and a closing line that shows that the file is complete:

    {"dds_log":1,"log":"prod/scaler","cluster":"<uid>","component":"scaler","after":0,"until":1}
    {"log":"prod/scaler","position":1,...,"data":"<the exact text>","salt":"<hex>",...,"hash":"<hex>"}
    {"end":1,"hash":"<hex>"}

Keys are in this order, without spaces. Bytes are hex, except data: they are the exact JSON text as one string, since parsing
and writing them again could change a byte and break the chain. This module reads and writes no file.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import structs

from dds_core.log.chain import Anchor
from dds_core.log.envelope import ENVELOPE_FIELDS, Envelope, LeanEvent

FORMAT = 1
"""Version of the file format, in the header."""

CLOSING = b'{"end":'
"""A closing line starts with this, and no other line does."""

HEADING = b'{"dds_log":'
"""A file of this format starts with this."""


class Heading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line. The file holds the positions after `after`, up to and including `until`."""

    dds_log: int
    log: str
    cluster: str
    component: str
    after: int
    until: int


class Closing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line: position and hash of the last event. In a file without events: `after` and 32 zero bytes."""

    end: int
    hash: str


class _AnchorLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    log: str
    position: int
    hash: str
    epoch: int = 0


def _line_of(kind: type[msgspec.Struct], *, strict: bool) -> Any:
    """The type of a line: the fields of an envelope, with bytes as text."""
    text = {bytes: str, bytes | None: str | None}
    fields = [(field.name, text.get(field.type, field.type)) for field in structs.fields(kind)]
    return msgspec.defstruct("_Line", fields, frozen=True, forbid_unknown_fields=strict, gc=False)


_Line, _LeanLine = _line_of(Envelope, strict=True), _line_of(LeanEvent, strict=False)

_plain: Callable[[Any], tuple[Any, ...]] = attrgetter(*ENVELOPE_FIELDS[: ENVELOPE_FIELDS.index("data")])
"""The values of an envelope's or line's fields before `data`, none of which is bytes."""

_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_lean = msgspec.json.Decoder(_LeanLine).decode
_decode_heading = msgspec.json.Decoder(Heading).decode
_decode_closing = msgspec.json.Decoder(Closing).decode


class BadLine(ValueError):
    """A line is malformed. The reader of the file turns this into an error with the file's name and the line's number."""


def encode_heading(heading: Heading) -> bytes:
    """The header line, without the line break."""
    return _encode(heading)


def encode_closing(closing: Closing) -> bytes:
    """The closing line, without the line break."""
    return _encode(closing)


def encode_envelope(e: Envelope) -> bytes:
    """The line of one envelope, without the line break. Line breaks in data are escaped by JSON."""
    data, salt = None if e.data is None else e.data.decode(), None if e.salt is None else e.salt.hex()
    return _encode(_Line(*_plain(e), data, salt, e.digest.hex(), e.prev_hash.hex(), e.hash.hex()))


def decode_envelope(line: bytes) -> Envelope:
    """The envelope of a line. Raises `BadLine`."""
    try:
        x = _decode_line(line)
        data, salt = None if x.data is None else x.data.encode(), None if x.salt is None else bytes.fromhex(x.salt)
        read = bytes.fromhex
        return Envelope(*(*_plain(x), data, salt, read(x.digest), read(x.prev_hash), read(x.hash)))
    except (msgspec.DecodeError, ValueError) as error:
        raise BadLine(str(error)) from None


def decode_lean(line: bytes) -> LeanEvent:
    """The part of a line that a fold needs. Raises `BadLine`."""
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
    return _encode(_AnchorLine(anchor.log, anchor.position, anchor.hash.hex(), anchor.epoch))


def decode_anchor(line: bytes) -> Anchor:
    """The anchor of a line; raises `BadLine`."""
    try:
        x = msgspec.json.decode(line, type=_AnchorLine)
        return Anchor(x.log, x.position, bytes.fromhex(x.hash), x.epoch)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadLine(str(error)) from None
