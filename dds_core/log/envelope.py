"""The rows of a log: events as a writer appends them, as they are stored, and as a fold reads them; and the head of a log.

An `Envelope` is one row of the log exactly as stored. A writer appends `NewEvent`s in `Group`s; the log adds the other fields of
the envelope. `data` is UTF-8 JSON text as bytes. The log never parses or changes it: events of older versions are converted when
they are read. Instants are microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re

import msgspec

from dds_core.errors import InvalidEvent

LOG_OPENED = "LogOpened"
"""Type of the first event of every log: `{"cluster": uid of the namespace kube-system, "component": name}`."""

CHECKPOINT = "Checkpoint"
"""Type of the event that holds the whole state. It is alone in its group. Only a prefix that ends with one can be archived."""

LOG_STREAM = "log"
"""The stream of events about the log itself."""

GENESIS = bytes(32)
"""`prev_hash` of position 1."""

_LOG_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,100}/[a-z][a-z0-9-]{0,40}")


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """One event as stored. `data` and `salt` are None after redaction. `digest`, `prev_hash` and `hash` are 32 bytes."""

    log: str
    position: int
    stream: str
    version: int
    event_id: str
    type: str
    schema_version: int
    occurred_at: int
    recorded_at: int
    epoch: int
    group: int
    correlation_id: str
    causation_id: str | None
    from_state: str | None
    to_state: str | None
    data: bytes | None
    salt: bytes | None
    digest: bytes
    prev_hash: bytes
    hash: bytes

    @property
    def redacted(self) -> bool:
        return self.data is None


class LeanEvent(msgspec.Struct, frozen=True, gc=False):
    """The fields of an envelope that a fold needs. Much faster to read than envelopes."""

    position: int
    stream: str
    type: str
    schema_version: int
    occurred_at: int
    from_state: str | None
    to_state: str | None
    data: bytes | None


ENVELOPE_FIELDS: tuple[str, ...] = Envelope.__struct_fields__
LEAN_FIELDS: tuple[str, ...] = LeanEvent.__struct_fields__


def lean(e: Envelope) -> LeanEvent:
    return LeanEvent(*[getattr(e, field) for field in LEAN_FIELDS])


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event to append. `cause` is the index, in the group, of the event that caused it. None means the fact (index 0)."""

    stream: str
    type: str
    schema_version: int
    occurred_at: int
    data: bytes
    from_state: str | None = None
    to_state: str | None = None
    cause: int | None = None


class Group(msgspec.Struct, frozen=True):
    """One fact (index 0) and all that it caused. `ordinal` counts a writer's groups within its epoch and is unique there."""

    ordinal: int
    events: tuple[NewEvent, ...]


class Head(msgspec.Struct, frozen=True, gc=False):
    """The current end of a log.

    `position`, `hash` and `recorded_at` are those of the newest event. `epoch` is the newest that a writer took (0: none yet),
    at `epoch_at`; `ordinal` is the highest group of that epoch in the log (-1: none). `checkpoint` is the position of the newest
    checkpoint (0: none). Positions up to `archived` were moved to an archive; `archived_ordinal` is the highest group of the
    current epoch among them (-1: none).
    """

    log: str
    cluster: str
    component: str
    position: int
    hash: bytes
    epoch: int
    ordinal: int
    checkpoint: int
    archived: int
    archived_ordinal: int
    recorded_at: int
    epoch_at: int


HEAD_FIELDS: tuple[str, ...] = Head.__struct_fields__


def component_name(log: str) -> str:
    """The component in a log's name, `<cluster>/<component>`. Raises `InvalidEvent` for a name of another form."""
    if not _LOG_NAME.fullmatch(log):
        raise InvalidEvent(
            f"{log!r} is no name of a log",
            fix="use <cluster>/<component> in small letters, digits, dots and dashes, such as prod-eu/scaler",
        )
    return log.rpartition("/")[2]


def opening(log: str, cluster: str, recorded_at: int) -> Group:
    """The first group of every log (epoch 0). It names the cluster (UID of kube-system) and the component."""
    if not cluster:
        raise InvalidEvent(
            "the identity of the cluster is empty", where=f"log {log}", fix="give the UID of namespace kube-system"
        )
    data = msgspec.json.encode({"cluster": cluster, "component": component_name(log)})
    return Group(0, (NewEvent(LOG_STREAM, LOG_OPENED, 1, recorded_at, data),))


def unopened(log: str, cluster: str) -> Head:
    """The head of a log that has no event yet."""
    return Head(log, cluster, component_name(log), 0, GENESIS, 0, -1, 0, 0, -1, 0, 0)
