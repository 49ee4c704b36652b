"""A stored log as events: each row decoded and brought to the current schema, group by group.

Works on envelopes in the order of their positions, wherever they were read from, and holds one group at a time. It folds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from dds_core.component import SCALER, Component, component_of
from dds_core.errors import InputError, MalformedEvent, UnknownEvent
from dds_core.events import SCHEMA_VERSION, TYPES, Checkpoint, Event, decode
from dds_core.log.envelope import LOG_OPENED, Envelope, LeanEvent
from dds_core.log.upcast import Upcasts

UPCASTS = Upcasts(dict.fromkeys(TYPES, SCHEMA_VERSION))


class LoggedGroup(NamedTuple):
    """A fact and what it caused, as stored. `events` is None for an event whose data was redacted."""

    envelopes: list[Envelope]
    events: list[Event | None]

    @property
    def position(self) -> int:
        return self.envelopes[0].position

    @property
    def at(self) -> int:
        return self.envelopes[0].occurred_at


def event_of(row: Envelope | LeanEvent, component: Component[Any] = SCALER) -> Event | None:
    """The event of a stored row, brought to the current schema version; None when its data was redacted. `component` is
    the one whose log it is.

    Raises UnknownEvent, naming the position, for a type or a projection that this version does not know, and
    MalformedEvent for data that is not of the form of its type.
    """
    if row.data is None:
        return None
    where = f"position {row.position}"
    try:
        event = _decoded(row, row.data)
    except KeyError:
        raise UnknownEvent(f"type {row.type!r} is not known", where=where, fix=_NEWER) from None
    except msgspec.ValidationError as error:
        raise MalformedEvent(f"{row.type} is not of its form: {error}", where=where, fix=_CHANGED) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedEvent(f"{row.type} holds no JSON: {error}", where=where, fix=_CHANGED) from None
    if isinstance(event, Checkpoint) and event.projection != component.projection:
        what = f"the checkpoint holds projection {event.projection}, this version knows {component.projection}"
        raise UnknownEvent(what, where=where, fix=_NEWER)
    return event


_NEWER = "use the version of dds that wrote it, or a newer one"
_CHANGED = "it was changed; compare with an export or archive made before"


def _decoded(row: Envelope | LeanEvent, data: bytes) -> Event:
    if row.schema_version == SCHEMA_VERSION:
        return decode(row.type, data)
    return decode(row.type, msgspec.json.encode(UPCASTS.decoded(row.type, row.schema_version, data)))


class _Opening(msgspec.Struct):
    """The part of `LogOpened` that says whose log it is."""

    component: str = ""


_opening = msgspec.json.Decoder(_Opening)


def require_component(row: Envelope | LeanEvent, component: Component[Any]) -> None:
    """Look at the first event of a log. Raises InputError when it says that the log is a publisher's, and it is about to be taken
    for the scaler's: that is what a reader gets who does not say whose it is."""
    said = _opening.decode(row.data).component if row.data is not None else ""
    if component is SCALER and component_of(said) is not SCALER:
        raise InputError(f"it is the log of a {said}", where=f"position {row.position}", fix="give component=PUBLISHER")


def groups(rows: Iterable[Envelope], component: Component[Any] = SCALER) -> Iterator[LoggedGroup]:
    """The groups of a log; the opening event is left out. `component` is the one whose log it is; raises InputError where
    the log itself says otherwise."""
    current: list[Envelope] = []
    for row in rows:
        if current and (row.epoch, row.group) != (current[0].epoch, current[0].group):
            yield LoggedGroup(current, [event_of(row, component) for row in current])
            current = []
        if row.type == LOG_OPENED:
            require_component(row, component)
        else:
            current.append(row)
    if current:
        yield LoggedGroup(current, [event_of(row, component) for row in current])
