"""The stored form of events: every type by its name, and the JSON that goes into the log, byte for byte.

A change to a class that has shipped needs a new schema version and an upcasting step (`dds_core.log.upcast`).
"""

from __future__ import annotations

import msgspec

from dds_core.events import decisions, objects, ourselves, publishing, transitions
from dds_core.events.base import Event

_MODULES = (objects, ourselves, decisions, publishing, transitions)  # imported so that every class is known below


def _leaves(base: type[Event]) -> list[type[Event]]:
    found: list[type[Event]] = []
    for sub in base.__subclasses__():
        below = _leaves(sub)
        found.extend(below or ([] if sub.__name__.startswith("_") else [sub]))
    return found


TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in _leaves(Event)}
"""Event class by its type name."""

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[str, msgspec.json.Decoder[Event]] = {name: msgspec.json.Decoder(kind) for name, kind in TYPES.items()}


def encode(event: Event) -> bytes:
    """The stored JSON form: field order as declared, mappings sorted by key."""
    return _encoder.encode(event)


def decode(type_name: str, data: bytes) -> Event:
    """The event of a stored row at the current schema version.

    Raises KeyError for a type that this version does not know and msgspec.ValidationError for data that is not its form.
    """
    return _decoders[type_name].decode(data)
