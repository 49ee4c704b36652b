"""What all events have in common. Events are frozen msgspec structs; the class name is the `type` column of the log."""

from __future__ import annotations

from msgspec import Struct

SCHEMA_VERSION = 1


class Event(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of all events."""

    @property
    def subject(self) -> str:
        """The stream that this event belongs to."""
        raise TypeError(f"{type(self).__name__} names no stream")


class Fact(Event, frozen=True):
    """Something learned from outside."""


class Decision(Event, frozen=True, kw_only=True):
    """Something wanted. `mode` is the mode it was decided in: under "observe" it is shown and never carried out.

    `reissued` marks one that was decided before a restart and that the cluster does not show."""

    reissued: bool = False


class Transition(Event, frozen=True):
    """A step of a life. The states are also columns of the log."""


SCALER = "scaler"
"""The stream of everything that belongs to no object."""
