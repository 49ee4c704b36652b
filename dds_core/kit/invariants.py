"""Invariants: what holds of a component's state and decisions whatever happens; a broken one is a fault of ours. Every process
looks at them, only for what a decision touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from dds_core.events import Event
from dds_core.kit.state import StateBase

P = TypeVar("P", bound=StateBase[Any])


class OfDecision(NamedTuple):
    """What holds of an event in the state that it is emitted into. `broken` says what does not hold, or ""."""

    name: str
    of: tuple[type[Event], ...]
    broken: Callable[[Any, Any], str]


class OfState(NamedTuple):
    """What holds of a row, by its key, once a step is over; `after` gives the keys that an event touches, `keys` all."""

    name: str
    after: dict[type[Event], Callable[[Any], Iterable[str]]]
    broken: Callable[[Any, str], str]
    keys: Callable[[Any], Iterable[str]]


class Broken(NamedTuple):
    """An invariant that does not hold. `of` is the key of the row, "" where it is the event itself that breaks it."""

    name: str
    of: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Invariants(Generic[P]):
    """Those of a component."""

    def __init__(self, decisions: Iterable[OfDecision] = (), states: Iterable[OfState] = ()) -> None:
        self._states = tuple(states)
        self.of_decisions: dict[type[Event], list[OfDecision]] = {}
        self.of_rows: dict[type[Event], list[tuple[OfState, Callable[[Any], Iterable[str]]]]] = {}
        for one in decisions:
            for event in one.of:
                self.of_decisions.setdefault(event, []).append(one)
        for state in self._states:
            for event, keys in state.after.items():
                self.of_rows.setdefault(event, []).append((state, keys))

    def against(self, state: P, event: Event) -> list[Broken]:
        """What an event that is about to be folded breaks."""
        found = self.of_decisions.get(type(event), ())
        return [Broken(one.name, "", text) for one in found if (text := one.broken(state, event))]

    def after(self, state: P, events: Iterable[Event]) -> list[Broken]:
        """What does not hold of the rows that these events, all folded, have touched."""
        found: list[Broken] = []
        for event in events:
            for one, keys in self.of_rows.get(type(event), ()):
                for key in keys(event):
                    if text := one.broken(state, key):
                        found.append(Broken(one.name, key, text))
        return found

    def is_broken(self, state: P, one: Broken) -> bool:
        """Whether that row breaks it now."""
        return any(each.name == one.name and each.broken(state, one.of) for each in self._states)

    def everywhere(self, state: P) -> Iterator[Broken]:
        """What does not hold of any row: O(cluster)."""
        for one in self._states:
            for key in one.keys(state):
                if text := one.broken(state, key):
                    yield Broken(one.name, key, text)


NONE: Invariants[Any] = Invariants()
