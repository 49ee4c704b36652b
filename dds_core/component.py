"""Components: programs that keep a log of their own (scaler, publisher, autoscaler, or one of another package).

`Component` holds all that differs between them for the code that feeds, folds, replays, verifies and tells a log. A log is named
`<cluster>/<component>`. This module knows no component: each registers itself (`dds_core.scaler.component` and so on).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Raw
from pydantic import BaseModel

from dds_core.events import Event
from dds_core.kit.deadlines import DeadlineQueue
from dds_core.kit.state import StateBase
from dds_core.kit.work import Invariants, Keep, Work
from dds_core.timeline.telling import Telling

P = TypeVar("P", bound=StateBase[Any])
P_contra = TypeVar("P_contra", bound=StateBase[Any], contravariant=True)


@dataclass(frozen=True)
class Component(Generic[P]):
    """One component. `fingerprint`: of the code that decides. `projection`: version of the form that `dump` gives. `decide`: what
    follows from the fact folded last; it folds that, too, if `keep` says so. `load`: raises InputError for data that `dump` did
    not give. `same`: compares two states. `policy`: reads what a person wrote. `events`: the types that its log may hold.
    `telling`: its timelines (`dds_core.timeline`). `usual`: logs whose name names no component are this one's."""

    name: str
    fingerprint: str
    projection: int
    state: Callable[[], P]
    apply: Callable[[P, Event, int], P]
    decide: Decide[P]
    invariants: Invariants[P]
    deadline_queue: Callable[[P], DeadlineQueue[P]]
    dump: Callable[[P], Raw]
    load: Callable[[Raw], P]
    same: Callable[[P, P], bool]
    policy: Callable[[Mapping[str, Any]], BaseModel]
    events: tuple[type[Event], ...]
    telling: Telling
    usual: bool = False

    def __post_init__(self) -> None:
        COMPONENTS[self.name] = self


class Decide(Protocol[P]):
    def __call__(self, state: P, at: int, *, keep: Keep[P] = False) -> Work[P]: ...


COMPONENTS: dict[str, Component[Any]] = {}
"""Every component, by its name."""


def component_of(log: str) -> Component[Any]:
    """The component of a log, by the last part of the log's name: `…/publisher` is a publisher's. Any other name is the scaler's,
    because people choose the names of logs that they write from recordings."""
    found = COMPONENTS.get(log.rpartition("/")[2])
    return found if found is not None else next(one for one in COMPONENTS.values() if one.usual)
