"""A stored log as events: rows decoded and converted to the current schema, by group (`groups`) or by moment (`moments`).

It takes rows in the order of their positions, from any source, holds one group at a time and folds nothing. Stored bytes never
change: events of an older version are converted on reading, by one pure step from each version n of a type to n+1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from dds_core.component import Component, component_of
from dds_core.engine import Step
from dds_core.errors import InputError, MalformedEvent, UnknownEvent, UpcastError
from dds_core.events import (
    SCHEMA_VERSION,
    TYPES,
    Checkpoint,
    DeadlinePassed,
    Decision,
    Event,
    LogRepaired,
    Transition,
    decode,
)
from dds_core.log.envelope import CHECKPOINT, LOG_OPENED, Envelope, LeanEvent
from dds_core.timeline.telling import Moment

# -- old events --------------------------------------------------------------------------------------------------------

Data = dict[str, Any]
Lift = Callable[[Data], Data]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Upcasts:
    """Converts events of older forms. `newest` is the current version of the form of all events; `steps[type, n]` converts data
    of version n to n+1, of a type whose form changed then. Raises `UpcastError` for a step that has no use."""

    def __init__(self, newest: int, steps: Mapping[tuple[str, int], Lift] = MappingProxyType({})) -> None:
        for name, version in sorted(steps):
            if not 1 <= version < newest:
                what = f"the step of {name} from version {version} to {version + 1} leads nowhere"
                raise UpcastError(what, fix=f"register steps from the versions before {newest}, the current one")
        self._newest = newest
        self._steps = dict(steps)

    def __call__(self, type: str, version: int, data: Data) -> Data:
        """The data in the current version. Raises `UnknownEvent` for a version that this code does not know."""
        if not 1 <= version <= self._newest:
            what = f"{type} is written in version {version} of its form, this version of dds knows up to {self._newest}"
            raise UnknownEvent(what, fix=_NEWER)
        for step in range(version, self._newest):
            lift = self._steps.get((type, step))
            data = lift(data) if lift is not None else data
        return data

    def decoded(self, type: str, version: int, data: bytes) -> Data:
        return self(type, version, _decode(data))


UPCASTS = Upcasts(SCHEMA_VERSION)

# -- groups ------------------------------------------------------------------------------------------------------------


class LoggedGroup(NamedTuple):
    """A fact and all that it caused. `events` has None for an event whose data was redacted."""

    envelopes: list[Envelope]
    events: list[Event | None]

    @property
    def position(self) -> int:
        return self.envelopes[0].position

    @property
    def at(self) -> int:
        return self.envelopes[0].occurred_at

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint, if it is one and was not redacted."""
        return self.events[0] if isinstance(self.events[0], Checkpoint) else None

    @property
    def heard(self) -> Event | None:
        """The fact, if it came from outside: no deadline and no checkpoint, which the process makes itself."""
        return None if isinstance(self.events[0], (DeadlinePassed, Checkpoint)) else self.events[0]


def event_of(row: Envelope | LeanEvent, component: Component[Any]) -> Event | None:
    """The event of a stored row, in the current schema version. None when its data was redacted.

    Raises UnknownEvent for a type or a projection (of a checkpoint) that this version does not know, and MalformedEvent for data
    that do not fit the type; both with the position. `component` is the owner of the log.
    """
    if row.data is None:
        return None
    try:
        if row.schema_version == SCHEMA_VERSION:
            event = decode(row.type, row.data)
        else:
            event = decode(row.type, msgspec.json.encode(UPCASTS.decoded(row.type, row.schema_version, row.data)))
    except KeyError:
        raise UnknownEvent(f"type {row.type!r} is not known", where=_where(row), fix=_NEWER) from None
    except UnknownEvent as error:
        raise UnknownEvent(error.what, where=_where(row), fix=_NEWER) from None
    except msgspec.ValidationError as error:
        raise MalformedEvent(f"{row.type} is not of its form: {error}", where=_where(row), fix=_CHANGED) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedEvent(f"{row.type} holds no JSON: {error}", where=_where(row), fix=_CHANGED) from None
    if isinstance(event, Checkpoint) and event.projection != component.projection:
        what = f"the checkpoint holds projection {event.projection}, this version knows {component.projection}"
        raise UnknownEvent(what, where=_where(row), fix=_NEWER)
    return event


def _where(row: Envelope | LeanEvent) -> str:
    return f"position {row.position}"


_NEWER = "use the version of dds that wrote it, or a newer one"
_CHANGED = (
    "a version before the first release wrote it, or it was changed: compare with an export or archive made before"
)


class _Opening(msgspec.Struct):
    """The field of `LogOpened` that names the log's component."""

    component: str = ""


_opening = msgspec.json.Decoder(_Opening)


def require_component(row: Envelope | LeanEvent, component: Component[Any]) -> None:
    """Raise InputError when the first event of a log names another component. A name that ends with no component's name is one of
    the `usual` component to a reader of that component, and says nothing to any other reader."""
    name = _opening.decode(row.data).component if row.data is not None else ""
    whose = component_of(name)
    if whose is not component and (component.usual or name.rpartition("/")[2] == whose.name):
        fix = f"give component={whose.name.upper()}"
        raise InputError(f"it is the log of a {whose.name}", where=f"position {row.position}", fix=fix)


def groups(rows: Iterable[Envelope], component: Component[Any]) -> Iterator[LoggedGroup]:
    """The groups of a log, without its first event (`LogOpened`). Raises InputError when that names another component."""
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


# -- moments -----------------------------------------------------------------------------------------------------------

FIRST = 2
"""Position of the first fact in a log. Position 1 is `LogOpened`."""


def of_steps(steps: Iterable[Step], first: int = FIRST) -> Iterator[Moment]:
    """The moments of a replay, with their positions in a log that starts with them."""
    position = first
    for step in steps:
        yield Moment(position, step.at, step.fact, [event for event, _ in step.caused])
        position += 1 + len(step.caused)


def moments(
    rows: Iterable[Envelope] | Iterable[LeanEvent], component: Component[Any], without: Collection[str] = ()
) -> Iterator[Moment]:
    """The moments of a log. Each group has one fact, its first event, so group numbers are not needed and lean rows suffice; the
    type of a row survives redaction. Events of the types `without` are left out and not decoded, except the log's first one;
    but a checkpoint after an erased event or a repair is not left out, since it holds what the events before it lack."""
    current: Moment | None = None
    caused = {name for name, kind in TYPES.items() if issubclass(kind, Decision | Transition)}
    left_out = {*without}
    for row in rows:
        if row.type in left_out and current is not None:
            if row.type not in caused:
                yield current
                current = Moment(row.position, row.occurred_at, None, [])
            continue
        if row.type == LOG_OPENED:
            require_component(row, component)
            continue
        event = event_of(row, component)
        if event is None or isinstance(event, LogRepaired):
            left_out.discard(CHECKPOINT)
        if current is None or row.type not in caused:
            if current is not None:
                yield current
            current = Moment(row.position, row.occurred_at, event, [], int(event is None))
        elif event is None:
            current = current._replace(erased=current.erased + 1)
        else:
            current.caused.append(event)
    if current is not None:
        yield current
