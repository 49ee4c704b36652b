"""The stored form of events: every type by its name, and the JSON that goes into the log, byte for byte.

A change to a class that has shipped needs a new schema version and an upcasting step (`dds_core.log.upcast`).
"""

from __future__ import annotations

import msgspec

from dds_core.events.base import Event

TYPES: dict[str, type[Event]] = {}
"""Event class by its type name, as registered."""

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[str, msgspec.json.Decoder[Event]] = {}


def register(*kinds: type[Event]) -> tuple[type[Event], ...]:
    """Make event types known to the codec, under their class names. Raises TypeError for a name that is taken."""
    for kind in kinds:
        if TYPES.setdefault(kind.__name__, kind) is not kind:
            raise TypeError(f"there is an event type {kind.__name__} already")
        _decoders[kind.__name__] = msgspec.json.Decoder(kind)
    return kinds


def encode(event: Event) -> bytes:
    """The stored JSON form: field order as declared, mappings sorted by key."""
    return _encoder.encode(event)


def decode(type_name: str, data: bytes) -> Event:
    """The event of a stored row at the current schema version.

    Raises KeyError for a type that this version does not know and msgspec.ValidationError for data that is not its form.
    """
    return _decoders[type_name].decode(data)
