"""An instant that a picture waits for; the agendas find them, and each comes back as a `DeadlinePassed`."""

from __future__ import annotations

from typing import NamedTuple


class Deadline(NamedTuple):
    """An instant that the picture waits for: `kind` says why, `of` for which object, cell, or the fleet."""

    due: int
    kind: str
    of: str
