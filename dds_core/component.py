"""A component: who keeps a log. What differs between the scaler and the publisher for everything that feeds, folds, verifies or
decides again: how its picture is made, how an event is folded into it, what follows, which instants it waits for, and how it
is dumped. A log says in its name whose it is (`<cluster>/<component>`).

This module must never hold a rule: it only says where each component has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from dds_core.errors import InputError
from dds_core.events import Event
from dds_core.fingerprint import FINGERPRINT
from dds_core.kit.deadlines import Deadline
from dds_core.scaler.deadlines import Agenda
from dds_core.scaler.fold import apply
from dds_core.scaler.rules import settle
from dds_core.scaler.state import PROJECTION, Picture, dump, load, same


class Touched(Protocol):
    """What has to be looked at again; only the component itself looks into it."""

    def take(self) -> Any:
        """A copy; this one is clean afterwards."""

    def add(self, other: Any) -> None: ...
    def clear(self) -> None: ...


class Pictured(Protocol):
    """What every picture has: the instant of the newest event in it, the epoch of who writes, whether it is whole, whether
    decisions are carried out, and what the current group touched."""

    now: int
    epoch: int
    synced: bool

    @property
    def live(self) -> bool: ...
    @property
    def dirty(self) -> Touched: ...
    def trial(self) -> AbstractContextManager[None]:
        """Changes made inside leave no trace."""


class Settled(Protocol):
    """What followed from a fact: events, each with the index in the group of what caused it, and what was looked at."""

    emitted: list[tuple[Event, int]]

    @property
    def touched(self) -> Any: ...


class Waiting(Protocol):
    """The instants that a picture waits for, in order."""

    def next(self) -> Deadline | None: ...
    def has(self, one: Deadline, /) -> bool: ...
    def refresh(self, touched: Any, /) -> None: ...
    def rebuild(self) -> None: ...


P = TypeVar("P", bound=Pictured)


@dataclass(frozen=True)
class Component(Generic[P]):
    """One kind of log. `fingerprint` is that of the code that decides, `projection` the version of what `dump` gives.

    `settle` decides and folds what follows from the fact that was folded last; `load` raises InputError for data that `dump`
    did not give; `same` compares two pictures.
    """

    name: str
    fingerprint: str
    projection: int
    picture: Callable[[], P]
    apply: Callable[[P, Event, int], object]
    settle: Callable[[P, int], Settled]
    agenda: Callable[[P], Waiting]
    dump: Callable[[P], dict[str, Any]]
    load: Callable[[dict[str, Any]], P]
    same: Callable[[P, P], bool]


SCALER: Component[Picture] = Component(
    name="scaler",
    fingerprint=FINGERPRINT,
    projection=PROJECTION,
    picture=Picture,
    apply=apply,
    settle=settle,
    agenda=Agenda,
    dump=dump,
    load=load,
    same=same,
)
"""The dynamic device scaler."""


def component_named(name: str) -> Component[Any]:
    """The component of that name. Raises InputError for one that this version does not have."""
    from dds_core.publisher.component import PUBLISHER  # it is made with the class above

    for one in (SCALER, PUBLISHER):
        if one.name == name:
            return one
    raise InputError(f"there is no component {name!r}", fix="it is scaler or publisher")


def component_of(log: str) -> Component[Any]:
    """The component whose log that is, by the end of the log's name: `…/publisher` is a publisher's, any other the scaler's, as
    people name the logs that they write from recordings."""
    publisher = component_named("publisher")
    return publisher if log.rpartition("/")[2] == publisher.name else SCALER
