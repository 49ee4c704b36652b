"""A component: who keeps a log. What differs between the scaler and the publisher for everything that feeds, folds, verifies,
decides again or tells: how its state is made, how an event is folded into it, what follows, which instants it waits for, how
it is dumped, which events its log may hold, and in which words they are told. A log says in its name whose it is
(`<cluster>/<component>`).

This module knows no component: each registers itself (`dds_core.scaler.component`, `dds_core.publisher.component`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from dds_core.errors import InputError
from dds_core.events import Event
from dds_core.kit.deadlines import DeadlineQueue
from dds_core.kit.invariants import Invariants
from dds_core.kit.state import StateBase
from dds_core.kit.work import Work
from dds_core.timeline.telling import Telling

P = TypeVar("P", bound=StateBase[Any])
P_contra = TypeVar("P_contra", bound=StateBase[Any], contravariant=True)


@dataclass(frozen=True)
class Component(Generic[P]):
    """One kind of log. `fingerprint` is that of the code that decides, `projection` the version of what `dump` gives.

    `decide` gives what follows from the fact that was folded last, and with `keep` folds it; `load` raises InputError for data
    that `dump` did not give; `same` compares two states; `policy` reads what a person wrote; `events` are the types that its
    log may hold; `telling` is how it is told (`dds_core.timeline`); `usual` says that a log whose name names no component is its.
    """

    name: str
    fingerprint: str
    projection: int
    state: Callable[[], P]
    apply: Callable[[P, Event, int], P]
    decide: Decide[P]
    invariants: Invariants[P]
    deadline_queue: Callable[[P], DeadlineQueue[P]]
    dump: Callable[[P], dict[str, Any]]
    load: Callable[[dict[str, Any]], P]
    same: Callable[[P, P], bool]
    policy: Callable[[Mapping[str, Any]], BaseModel]
    events: tuple[type[Event], ...]
    telling: Telling
    usual: bool = False

    def __post_init__(self) -> None:
        COMPONENTS[self.name] = self


class Decide(Protocol[P]):
    def __call__(self, state: P, at: int, *, keep: bool = False) -> Work[P]: ...


COMPONENTS: dict[str, Component[Any]] = {}
"""Every component, by its name."""


def component_named(name: str) -> Component[Any]:
    """The component of that name. Raises InputError for one that this version does not have."""
    found = COMPONENTS.get(name)
    if found is None:
        known = sorted(COMPONENTS, key=lambda one: not COMPONENTS[one].usual)
        raise InputError(f"there is no component {name!r}", fix=f"it is {' or '.join(known)}")
    return found


def component_of(log: str) -> Component[Any]:
    """The component whose log that is, by the end of the log's name: `…/publisher` is a publisher's, any other the scaler's, as
    people name the logs that they write from recordings."""
    found = COMPONENTS.get(log.rpartition("/")[2])
    return found if found is not None else next(one for one in COMPONENTS.values() if one.usual)
