"""What a fault of the program was met with, in one line. No object is quoted, and no foreign word unscrubbed."""

from __future__ import annotations

from dds_adapters.kubernetes.arrivals import Arrival
from dds_adapters.kubernetes.identity import identity
from dds_core.errors import DdsError
from dds_core.events import DeadlinePassed
from dds_core.text import scrub


def fault_with(one: object, error: Exception) -> DdsError:
    """An arrival or a fact that could not be taken in."""
    match one:
        case Arrival():
            who = identity(one.raw)
            where = f"{one.resource} {who.namespace}/{who.name}".replace(" /", " ")
        case DeadlinePassed():
            where = f"{type(one).__name__} {one.kind} of {one.of}"
        case _:
            where = type(one).__name__
    return fault_of(where, error)


def fault_of(where: str, error: Exception) -> DdsError:
    """Whatever else could not be done."""
    what = error.what if isinstance(error, DdsError) else f"{type(error).__name__}: {scrub(str(error))}"
    return DdsError(f"left out: {what}", where=where, fix="please report it; everything else goes on")
