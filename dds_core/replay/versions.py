"""Whether this version of dds can go on with a log, and whether the version that wrote it could do so after this one.

Each event has the version of its form (`SCHEMA_VERSION`). dds converts events of older forms, and refuses those of newer ones.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from dds_core.component import Component
from dds_core.errors import MalformedEvent, UnknownEvent
from dds_core.events import SCHEMA_VERSION, TYPES, Started
from dds_core.log.envelope import CHECKPOINT, LOG_OPENED, Envelope, LeanEvent
from dds_core.log.interface import EventSource
from dds_core.replay.logged import event_of


class WrittenBy(NamedTuple):
    """The version of dds that wrote the newest events of a log ("" if the log does not say), and the version of their form (0 for
    a log without events)."""

    code: str
    schema: int

    @property
    def way_back_ends(self) -> str:
        """Why this version of dds could not go on with the log once the running version has written to it; "" if it could."""
        if not 0 < self.schema < SCHEMA_VERSION:
            return ""
        who = f"dds {self.code}" if self.code else "the version that wrote it"
        return (
            f"events are written in version {SCHEMA_VERSION} of their form from now on, {who} reads up to {self.schema}"
        )


class Wrote(msgspec.Struct):
    """The fields of a start and of a checkpoint, in all versions of their forms, that say which version of dds writes."""

    code: str = ""
    fingerprint: str = ""


_wrote = msgspec.json.Decoder(Wrote)


def wrote(row: Envelope | LeanEvent) -> Wrote:
    """What a start or a checkpoint says. Raises msgspec.MsgspecError if it is damaged or was erased."""
    return _wrote.decode(row.data or b"")


def written_by(log: EventSource, component: Component[Any]) -> WrittenBy:
    """What wrote a log of this component. It reads what a start reads, the newest checkpoint and what follows, and folds nothing.

    Raises UnknownEvent for the first event that this version of dds cannot read; the message names the version that can.
    """
    head = log.head()
    code, schema = "", 0
    for row in log.read_lean(max(0, head.checkpoint - 1)):
        if row.type == LOG_OPENED:
            continue
        if row.type in (Started.__name__, CHECKPOINT):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # erased, or damaged, as the fold says
                code = wrote(row).code
        schema = row.schema_version
        if row.type == CHECKPOINT or row.type not in TYPES or schema > SCHEMA_VERSION:
            try:
                event_of(row, component)
            except MalformedEvent:
                raise
            except UnknownEvent as error:
                who = f"dds {code}" if code else "the version that wrote it"
                raise UnknownEvent(
                    f"{error.what}; {who} wrote it",
                    where=f"log {head.log}, position {row.position}",
                    fix=f"go on with {who} or a newer one, or with a copy of the log from before",
                ) from None
    return WrittenBy(code, schema)
