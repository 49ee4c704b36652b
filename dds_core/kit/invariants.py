"""Invariants: conditions that always hold of a component's state and decisions. A broken invariant is a bug in dds. Every process
checks them, but only for what a decision touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from dds_core.events import Event
from dds_core.kit.state import StateBase

P = TypeVar("P", bound=StateBase[Any])


class OfDecision(NamedTuple):
    """A condition on an event, checked in the state just before the event is folded. `broken` returns what is wrong, or ""."""

    name: str
    of: tuple[type[Event], ...]
    broken: Callable[[Any, Any], str]


class OfState(NamedTuple):
    """A condition on one row of the state, checked after a step. `after` returns the keys of the rows that an event touches,
    `keys` all keys; `broken` returns what is wrong with the row of a key, or ""."""

    name: str
    after: dict[type[Event], Callable[[Any], Iterable[str]]]
    broken: Callable[[Any, str], str]
    keys: Callable[[Any], Iterable[str]]


class Broken(NamedTuple):
    """A broken invariant. `of` is the key of the row, or "" if the event itself breaks it."""

    name: str
    of: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Invariants(Generic[P]):
    """The invariants of a component, by the type of the event that can break them."""

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
        """The invariants that this event breaks if it is folded now."""
        found = self.of_decisions.get(type(event), ())
        return [Broken(one.name, "", text) for one in found if (text := one.broken(state, event))]

    def after(self, state: P, events: Iterable[Event]) -> list[Broken]:
        """The broken invariants of the rows that these events, already folded, have touched."""
        found: list[Broken] = []
        for event in events:
            for one, keys in self.of_rows.get(type(event), ()):
                for key in keys(event):
                    if text := one.broken(state, key):
                        found.append(Broken(one.name, key, text))
        return found

    def is_broken(self, state: P, one: Broken) -> bool:
        """Whether the row still breaks this invariant."""
        return any(each.name == one.name and each.broken(state, one.of) for each in self._states)

    def everywhere(self, state: P) -> Iterator[Broken]:
        """All broken invariants of all rows: O(cluster)."""
        for one in self._states:
            for key in one.keys(state):
                if text := one.broken(state, key):
                    yield Broken(one.name, key, text)


NONE: Invariants[Any] = Invariants()
